#include "transport/variants.h"

#include <cstring>

#include "base/error.h"
#include "base/random.h"
#include "base/world.h"
#include "transport/veth.h"

#if defined(__SANITIZE_ADDRESS__)
// Not ours: DPDK 22.11 lets go of AF_XDP's packet memory without libxdp's description of it.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:xsk_umem__create\n"; }
#endif

namespace drlnet::test {
namespace {

// The client's end of a link is a port of this process, and with memif the server's, too: Debian's
// DPDK has 32.
constexpr size_t kDpdkClients = 14;
constexpr uint64_t kSizingNs = 2'000'000;  // without a frame: none is under way any more

// 5% each way of each fault, so that about one frame in three meets one.
std::unique_ptr<Transport> wrap(const Variant& variant, std::unique_ptr<Transport> transport,
                                uint64_t seed) {
  if (!variant.faulty) return transport;
  FaultPlan plan{.drop = 0.05, .duplicate = 0.05, .reorder = 0.05, .delay_ns = 0, .seed = seed};
  FaultPlan other = plan;
  other.seed = ~seed;
  return std::make_unique<FaultyTransport>(std::move(transport), plan, other);
}

}  // namespace

const std::vector<Variant>& local_variants() {
  static const std::vector<Variant> variants = [] {
    std::vector<Variant> list;
    for (const TransportKind& kind : transport_kinds()) {
      const std::string scheme(kind.scheme);
      if (scheme == "udp") {
        list.push_back({"udp v4", "udp://127.0.0.1:0"});
        list.push_back({"udp v6", "udp://[::1]:0"});
      } else if (scheme == "dpdk") {
        list.push_back({"dpdk virtio-user", "dpdk:virtio-user:0", kDpdkClients});
        list.push_back({"dpdk memif", "dpdk:memif:0", kDpdkClients});
      } else {
        list.push_back({scheme, scheme + ":"});
      }
    }
    return list;
  }();
  return variants;
}

const std::vector<Variant>& bare_variants() {
  static const std::vector<Variant> variants = [] {
    std::vector<Variant> list = local_variants();
    const auto add = [&](const std::string& driver, const VethPair& pair) {
      Variant variant{"dpdk " + driver, "dpdk:" + driver + ":" + pair.server + ",ip=10.7.0.2/24"};
      variant.clients = kDpdkClients;
      variant.connect_address =
          "dpdk:" + driver + ":" + pair.client + ",ip=10.7.0.1/24,to=10.7.0.2:7447";
      variant.trouble = veth_trouble();
      list.push_back(variant);
    };
    add("af_packet", kPacketPair);
    add("af_xdp", kXdpPair);
    return list;
  }();
  return variants;
}

std::vector<Variant> all_variants() {
  std::vector<Variant> list = bare_variants();
  for (Variant variant : bare_variants()) {
    variant.name += " faulty";
    variant.faulty = true;
    list.push_back(variant);
  }
  return list;
}

bool available(const Variant& variant) {
  try {
    if (!variant.trouble.empty()) throw Error(Status::transport, variant.trouble, "");
    listen(variant.listen_address);
    return true;
  } catch (const Error& error) {
    const bool udp_v4 = variant.listen_address.starts_with("udp://127.");
    if (udp_v4 || variant.listen_address.starts_with("memory")) throw;
    MESSAGE("SKIPPED " << variant.name << ": " << error.cause());
    return false;
  }
}

std::unique_ptr<Transport> start_listener(const Variant& variant) {
  return listen(variant.listen_address);
}

Connected start_client(const Variant& variant, Transport& listener) {
  const bool on_ethernet = !variant.connect_address.empty();
  Connected client = connect(on_ethernet ? variant.connect_address : listener.local_address());
  // What is sent before the other end's hardware address is known is lost; what is sent before
  // vhost's thread has opened its end of the rings is found only then.
  const uint64_t deadline_ns = now_ns() + kPatienceNs;
  size_t came = 0;
  while (came == 0 && now_ns() < deadline_ns) {
    send_one(*client.transport, client.server, 0, 64);
    client.transport->recv_burst();
    came = listener.recv_burst().size();
  }
  REQUIRE(came > 0);
  for (uint64_t quiet_ns = now_ns() + kSizingNs; now_ns() < quiet_ns;) {
    if (!listener.recv_burst().empty()) quiet_ns = now_ns() + kSizingNs;
  }
  return client;
}

Link make_link(const Variant& variant) {
  Link link;
  link.server = start_listener(variant);
  Connected client = start_client(variant, *link.server);
  link.server = wrap(variant, std::move(link.server), 1);
  link.client = wrap(variant, std::move(client.transport), 2);
  link.server_endpoint = client.server;
  return link;
}

bool wait_readable(Transport& transport, uint64_t deadline_ns) {
  for (uint64_t now = now_ns(); now < deadline_ns; now = now_ns()) {
    const WaitPoint point = transport.arm();
    if (point.fd < 0) {
      if (point.look_again_ns <= now) return true;
      continue;
    }
    pollfd entry{point.fd, POLLIN, 0};
    const auto left_ms = static_cast<int>((deadline_ns - now) / 1'000'000) + 1;
    if (poll(&entry, 1, left_ms) == 1) return true;
  }
  return false;
}

size_t receive(Transport& transport, size_t count, const OnFrame& on_frame) {
  const uint64_t deadline_ns = now_ns() + kPatienceNs;
  size_t received = 0;
  while (received < count && wait_readable(transport, deadline_ns)) {
    for (const RxFrame& frame : transport.recv_burst()) {
      ++received;
      on_frame(frame);
    }
  }
  return received;
}

void fill(std::span<std::byte> data, uint64_t tag) {
  Random random(tag * kMaxFrameBytes + data.size());
  for (size_t offset = 0; offset < data.size(); offset += sizeof(uint64_t)) {
    const uint64_t word = random.bits();
    std::memcpy(&data[offset], &word, std::min(sizeof word, data.size() - offset));
  }
}

bool holds(std::span<const std::byte> data, uint64_t tag) {
  std::array<std::byte, kMaxFrameBytes> expected;
  const auto same = std::span(expected).first(data.size());
  fill(same, tag);
  return std::ranges::equal(data, same);
}

void send_one(Transport& transport, const Endpoint& to, uint64_t tag, size_t length) {
  const std::span<TxFrame> frame = transport.reserve(1);
  REQUIRE(frame.size() == 1);
  frame[0].to = to;
  frame[0].length = static_cast<uint32_t>(length);
  frame[0].loans.clear();
  fill({frame[0].data, length}, tag);
  REQUIRE(transport.send_burst(frame) == 1);
}

}  // namespace drlnet::test
