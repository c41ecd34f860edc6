// What a host says to be found, and to answer hosts that look for it; the frames have room for it.
#pragma once

#include "transport/link/packet.h"

namespace drlnet::link {

constexpr size_t kArpFrameBytes = kEthernetBytes + 28;
// With one option, our MAC address.
constexpr size_t kDiscoveryFrameBytes = kEthernetBytes + kIpv6Bytes + 24 + 8;

size_t write_arp_reply(const Packet& question, const Host& self, std::byte* frame);
// About itself: an announcement.
size_t write_arp_request(const Host& self, const IpAddress& target, std::byte* frame);

bool parse_discovery(std::span<const std::byte> message, Packet& packet, PacketDrop& drop);
// To the asking host, or to all when `to` has no address (RFC 4861, section 7.2.4).
size_t write_advertisement(const Host& self, const Host& to, std::byte* frame);
size_t write_solicitation(const Host& self, const IpAddress& target, std::byte* frame);

}  // namespace drlnet::link
