"""How hosts of a link find each other: ARP (RFC 826), neighbour discovery (RFC 4861)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from frames import (
    HEADER_BYTES,
    PROTOCOLS_ICMP,
    Address,
    Host,
    Malformed,
    Packet,
    ethernet,
    icmp_checksum,
    ip_frame,
)

BROADCAST = b"\xff" * 6
ALL_NODES = IPv6Address("ff02::1")
_SOLICITED_NODE = int(IPv6Address("ff02::1:ff00:0"))

_ETHERTYPE_ARP = 0x0806
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_ARP_KIND = (1, 0x0800, 6, 4)  # IPv4 over Ethernet
_REQUEST, _REPLY = 1, 2

# Type, code, checksum, flags, target; an option, the sender's MAC address, behind it.
_DISCOVERY = struct.Struct("!BBHI16s")
_OPTION = struct.Struct("!BB6s")
_SOLICITATION, _ADVERTISEMENT = 135, 136
_SOURCE_OPTION, _TARGET_OPTION = 1, 2
_SOLICITED, _OVERRIDE = 1 << 30, 1 << 29
_HOP_LIMIT = 255  # what has passed a router has another


@dataclass(frozen=True)
class Asked:
    """A question of `sender`: which host has the target's address?"""

    sender: Host
    target: Address


@dataclass(frozen=True)
class Told:
    """The sender is at that MAC address."""

    sender: Host


def group_mac(group: IPv6Address) -> bytes:
    """Returns the MAC address of a group's frames (RFC 2464)."""
    return b"\x33\x33" + group.packed[-4:]


def solicited_node(ip: IPv6Address) -> IPv6Address:
    """The group in which questions for that address are asked."""
    return IPv6Address(_SOLICITED_NODE | int(ip) & 0xFFFFFF)


def listened_macs(own: Host) -> set[bytes]:
    """Where a host must listen to be found, besides at its own MAC address."""
    if isinstance(own.ip, IPv6Address):
        return {group_mac(ALL_NODES), group_mac(solicited_node(own.ip))}
    return {BROADCAST}


def question_frame(own: Host, target: Address) -> bytes:
    """Asks all hosts that may have the address."""
    if isinstance(target, IPv6Address):
        group = solicited_node(target)
        everyone = Host(group_mac(group), group)
        return _discovery_frame(own, everyone, _SOLICITATION, 0, target)
    return _arp_frame(_REQUEST, own, Host(BROADCAST, target))


def answer_frame(own: Host, to: Host) -> bytes:
    """Answers the host that asked."""
    if isinstance(own.ip, IPv6Address):
        return _discovery_frame(own, to, _ADVERTISEMENT, _SOLICITED | _OVERRIDE, own.ip)
    return _arp_frame(_REPLY, own, to)


def parse_arp(frame: bytes) -> Asked | Told | None:
    """None where the frame holds another protocol. Raises Malformed."""
    if int.from_bytes(frame[12:14], "big") != _ETHERTYPE_ARP:
        return None
    if len(frame) < HEADER_BYTES + _ARP.size:
        raise Malformed("a short ARP packet")
    *kind, operation, mac, ip, _, target = _ARP.unpack_from(frame, HEADER_BYTES)
    if tuple(kind) != _ARP_KIND or operation not in (_REQUEST, _REPLY):
        raise Malformed("an ARP packet for other hardware")
    sender = Host(mac, ip_address(ip))
    return Asked(sender, ip_address(target)) if operation == _REQUEST else Told(sender)


def parse_discovery(packet: Packet) -> Asked | Told | None:
    """None where the packet holds something else. Raises Malformed."""
    body = packet.body
    discovers = (_SOLICITATION, _ADVERTISEMENT)
    if packet.protocol != PROTOCOLS_ICMP[6] or not body or body[0] not in discovers:
        return None
    if len(body) != _DISCOVERY.size + _OPTION.size:
        raise Malformed("the length of a neighbour's message")
    kind, code, _, flags, ip = _DISCOVERY.unpack_from(body)
    option, words, mac = _OPTION.unpack_from(body, _DISCOVERY.size)
    if packet.hop_limit != _HOP_LIMIT or code != 0 or words != 1:
        raise Malformed("a neighbour's message")
    if icmp_checksum(packet.source.ip, packet.target, body) != 0:
        raise Malformed("the checksum of a neighbour's message")
    if kind == _SOLICITATION:
        if option != _SOURCE_OPTION:
            raise Malformed("a solicitation that does not say where to answer")
        return Asked(Host(mac, packet.source.ip), ip_address(ip))
    if option != _TARGET_OPTION or (flags & _SOLICITED and packet.target.is_multicast):
        raise Malformed("an advertisement")
    return Told(Host(mac, ip_address(ip)))


def _arp_frame(operation: int, sender: Host, target: Host) -> bytes:
    known = b"\0" * 6 if target.mac == BROADCAST else target.mac
    addresses = (sender.mac, sender.ip.packed, known, target.ip.packed)
    body = _ARP.pack(*_ARP_KIND, operation, *addresses)
    return ethernet(target.mac, sender.mac, _ETHERTYPE_ARP, body)


def _discovery_frame(own: Host, to: Host, kind: int, flags: int, target: IPv6Address) -> bytes:
    option = _SOURCE_OPTION if kind == _SOLICITATION else _TARGET_OPTION

    def message(sum_: int) -> bytes:
        head = _DISCOVERY.pack(kind, 0, sum_, flags, target.packed)
        return head + _OPTION.pack(option, 1, own.mac)

    whole = message(icmp_checksum(own.ip, to.ip, message(0)))
    return ip_frame(own, to, PROTOCOLS_ICMP[6], whole, _HOP_LIMIT)
