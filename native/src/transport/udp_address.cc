#include "transport/udp_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace drlnet::udp {
namespace {

constexpr const char* kForms =
    "Write udp://HOST:PORT, for example udp://127.0.0.1:7447 or udp://[::1]:7447; behind it "
    "perhaps "
    ",buffer=BYTES.";
constexpr int kLeastBufferBytes = 4096, kMostBufferBytes = 1 << 30;

[[noreturn]] void throw_malformed(const std::string& text, const std::string& reason) {
  throw Error(Status::transport, "udp://" + text + ": " + reason, kForms);
}

uint16_t parse_port(const std::string& text, std::string_view digits) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), port);
  if (error != std::errc{} || end != digits.end()) {
    throw_malformed(text, "invalid port \"" + std::string(digits) + "\" (0 to 65535)");
  }
  return port;
}

int parse_buffer(const std::string& text, std::string_view setting) {
  constexpr std::string_view kName = "buffer=";
  if (!setting.starts_with(kName)) {
    throw_malformed(text, "invalid setting \"" + std::string(setting) + "\"");
  }
  setting.remove_prefix(kName.size());
  int bytes = 0;
  const auto [end, error] = std::from_chars(setting.begin(), setting.end(), bytes);
  if (error != std::errc{} || end != setting.end() || bytes < kLeastBufferBytes ||
      bytes > kMostBufferBytes) {
    throw_malformed(text, "invalid buffer \"" + std::string(setting) + "\" (4096 to 1073741824)");
  }
  return bytes;
}

}  // namespace

HostPort parse_address(const std::string& text) {
  HostPort result;
  std::string_view rest = text;
  if (const size_t comma = rest.find(','); comma != std::string_view::npos) {
    result.buffer_bytes = parse_buffer(text, rest.substr(comma + 1));
    rest = rest.substr(0, comma);
  }
  if (rest.starts_with('[')) {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) throw_malformed(text, "\"[\" without \"]\"");
    result.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!rest.empty() && rest[0] != ':') throw_malformed(text, "only :PORT may follow \"]\"");
  } else {
    const size_t colon = rest.find(':');
    if (colon != rest.rfind(':')) {
      throw_malformed(text, "an IPv6 address stands in brackets");
    }
    result.host = rest.substr(0, colon);
    rest.remove_prefix(std::min(colon, rest.size()));
  }
  if (result.host.empty()) throw_malformed(text, "no host before the port");
  if (!rest.empty()) result.port = parse_port(text, rest.substr(1));
  return result;
}

bool SocketAddress::loopback() const {
  if (family() == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24 == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&storage.sin6_addr);
}

bool SocketAddress::any() const {
  if (family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&storage.sin6_addr);
}

std::string SocketAddress::text() const {
  char host[INET6_ADDRSTRLEN] = "?";
  if (family() == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(port());
  }
  inet_ntop(AF_INET6, &storage.sin6_addr, host, sizeof host);
  char zone[IF_NAMESIZE] = "";
  const bool scoped = storage.sin6_scope_id && if_indextoname(storage.sin6_scope_id, zone);
  return std::string("[") + host + (scoped ? "%" : "") + zone + "]:" + std::to_string(port());
}

Endpoint to_endpoint(const SocketAddress& address) {
  Endpoint endpoint;
  std::memcpy(endpoint.bytes.data(), &address.storage, address.length());
  return endpoint;
}

SocketAddress from_endpoint(const Endpoint& endpoint) {
  SocketAddress address;
  std::memcpy(&address.storage, endpoint.bytes.data(), sizeof address.storage);
  return address;
}

std::vector<SocketAddress> resolve(const std::string& host_and_port) {
  const HostPort wanted = parse_address(host_and_port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failure =
      getaddrinfo(wanted.host.c_str(), std::to_string(wanted.port).c_str(), &hints, &list);
  if (failure != 0) {
    throw Error(Status::transport,
                "udp://" + host_and_port + ": cannot resolve \"" + wanted.host + "\" (" +
                    (failure == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(failure)) + ")",
                "Check the name, or write the IP address.");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    std::memcpy(&found.emplace_back().storage, entry->ai_addr, entry->ai_addrlen);
  }
  if (found.empty()) throw_malformed(host_and_port, "the name has no IPv4 or IPv6 address");
  return found;
}

}  // namespace drlnet::udp
