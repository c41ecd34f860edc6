#include <algorithm>
#include <charconv>

#include "base/edit_distance.h"
#include "base/error.h"
#include "transport/dpdk.h"
#include "transport/memory.h"
#include "transport/transport.h"
#include "transport/udp.h"

namespace drlnet {
namespace {

constexpr TransportKind kKinds[] = {
    {"udp", udp::listen, udp::connect, udp::is_loopback, udp::shard, udp::at},
    {"dpdk", dpdk::listen, dpdk::connect, dpdk::is_loopback, dpdk::shard, dpdk::at},
    {"memory", memory::listen, memory::connect, memory::is_loopback, memory::shard, memory::at},
};

[[noreturn]] void throw_unknown(const std::string& address, std::string_view scheme) {
  std::string near, all;
  size_t nearest = 3;  // further off is another word
  for (const TransportKind& kind : kKinds) {
    const size_t distance = edit_distance(scheme, kind.scheme);
    if (distance < nearest) near = kind.scheme;
    nearest = std::min(nearest, distance);
    all += (all.empty() ? "" : ", ") + std::string(kind.scheme);
  }
  throw Error(Status::transport,
              scheme.empty() ? "\"" + address + "\" names no transport"
                             : "no transport is called \"" + std::string(scheme) + "\"",
              (near.empty() ? "" : "Did you mean \"" + near + "\"? ") + "Transports here: " + all +
                  "; an address looks like udp://127.0.0.1:7447.");
}

struct Parsed {
  const TransportKind& kind;
  std::string rest;
};

Parsed parse(const std::string& address) {
  const size_t colon = address.find(':');
  const auto scheme = std::string_view(address).substr(0, colon == std::string::npos ? 0 : colon);
  const auto* kind = std::ranges::find(kKinds, scheme, &TransportKind::scheme);
  if (kind == std::end(kKinds)) throw_unknown(address, scheme);
  const size_t slashes = address.compare(colon + 1, 2, "//") == 0 ? 2 : 0;
  return {*kind, address.substr(colon + 1 + slashes)};
}

template <typename Number = uint32_t>
Number number_behind(const std::string& text, size_t mark) {
  Number number{};
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data() + mark + 1, end, number).ec != std::errc()) {
    throw Error(Status::protocol, "a server tells of a shard at \"" + text + "\"",
                "install the same drlnet on both sides");
  }
  return number;
}

}  // namespace

std::span<const TransportKind> transport_kinds() { return kKinds; }

std::unique_ptr<Transport> listen(const std::string& address, uint32_t shards) {
  const Parsed parsed = parse(address);
  return parsed.kind.listen(parsed.rest, shards);
}

Connected connect(const std::string& address) {
  const Parsed parsed = parse(address);
  return parsed.kind.connect(parsed.rest);
}

std::string shard_address(const std::string& address, uint32_t shard) {
  if (shard == 0) return address;
  const Parsed parsed = parse(address);
  return address.substr(0, address.size() - parsed.rest.size()) +
         parsed.kind.shard(parsed.rest, shard);
}

std::string address_told(const std::string& found, const std::string& told) {
  if (told.starts_with('+')) return shard_address(found, number_behind(told, 0));
  constexpr std::string_view kUdp = "udp://";
  if (!told.starts_with(kUdp)) return told;
  const size_t colon = told.rfind(':');
  const std::string host = told.substr(kUdp.size(), colon - kUdp.size());
  const Parsed parsed = parse(found);
  return parsed.kind.at(parsed.rest, host, number_behind<uint16_t>(told, colon));
}

bool is_loopback(const std::string& address) {
  const Parsed parsed = parse(address);
  return parsed.kind.is_loopback(parsed.rest);
}

}  // namespace drlnet
