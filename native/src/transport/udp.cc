#include "transport/udp.h"

#include <algorithm>

#include "base/error.h"

namespace drlnet::udp {
namespace {

Options options_of(const std::string& rest) {
  Options options;
  const HostPort wanted = parse_address(rest);
  if (wanted.buffer_bytes != 0) options.buffer_bytes = wanted.buffer_bytes;
  return options;
}

}  // namespace

UdpTransport::UdpTransport(Socket socket, bool connected)
    : socket_(std::move(socket)),
      local_(socket_.any_local() ? std::make_unique<LocalAddresses>() : nullptr),
      send_queue_(socket_.segmentation(), connected, local_.get()),
      receive_queue_(local_.get()) {}

std::unique_ptr<UdpTransport> UdpTransport::listen(const std::string& rest,
                                                   const Options& options) {
  return std::unique_ptr<UdpTransport>(
      new UdpTransport(Socket::bound(resolve(rest), rest, options), false));
}

std::unique_ptr<UdpTransport> UdpTransport::connect(const std::string& rest,
                                                    const Options& options) {
  return connect(resolve(rest), rest, options);
}

std::unique_ptr<UdpTransport> UdpTransport::connect(const std::vector<SocketAddress>& addresses,
                                                    const std::string& rest,
                                                    const Options& options) {
  return std::unique_ptr<UdpTransport>(
      new UdpTransport(Socket::connected(addresses, rest, options), true));
}

std::string UdpTransport::trouble() const {
  if (socket_.choices() == 1 || receive_queue_.heard()) return {};
  return "of the name's " + std::to_string(socket_.choices()) + " addresses " +
         socket_.peer().text() + " was taken";
}

// The kernel charges a frame by the memory that holds it: up to 2.25 bytes for one of ours
// (2,304 for 1,024; 16,640 for 8,968), little more than one for longer ones and for those that come
// joined. And it may leave up to a quarter of the buffer charged for what has been read
// (udp_rmem_release). Together a third is left; measured, loss begins within 0.1% of it for
// 1,024-byte frames.
size_t UdpTransport::receive_capacity_bytes() const { return socket_.receive_buffer_bytes() / 3; }

TransportCounters UdpTransport::counters() const {
  TransportCounters sum = send_queue_.counters();
  sum.refused += receive_queue_.counters().refused;
  sum.send_failed += receive_queue_.counters().send_failed;
  sum.receive_dropped = receive_queue_.counters().receive_dropped;
  sum.receive_overflow = socket_.receive_drops();
  return sum;
}

std::unique_ptr<Transport> listen(const std::string& rest, uint32_t) {
  return UdpTransport::listen(rest, options_of(rest));
}

Connected connect(const std::string& rest) {
  auto transport = UdpTransport::connect(rest, options_of(rest));
  const Endpoint server = transport->peer();
  return {std::move(transport), server};
}

bool is_loopback(const std::string& rest) {
  return std::ranges::all_of(resolve(rest), &SocketAddress::loopback);
}

std::string shard(const std::string& rest, uint32_t shard) {
  const HostPort first = parse_address(rest);
  const uint32_t port = first.port + shard;
  if (port > 65535) {
    throw Error(Status::transport,
                "udp://" + rest + ": shard " + std::to_string(shard) + " has no port above it",
                "Choose a lower port: a server's shards listen on the ports behind it.");
  }
  return at(rest, "", static_cast<uint16_t>(port)).substr(std::string_view("udp://").size());
}

std::string at(const std::string& rest, const std::string& host, uint16_t port) {
  const HostPort first = parse_address(rest);
  const bool v6 = first.host.find(':') != std::string::npos;
  const std::string own = v6 ? "[" + first.host + "]" : first.host;
  const std::string buffer =
      first.buffer_bytes == 0 ? "" : ",buffer=" + std::to_string(first.buffer_bytes);
  return "udp://" + (host.empty() ? own : host) + ":" + std::to_string(port) + buffer;
}

}  // namespace drlnet::udp
