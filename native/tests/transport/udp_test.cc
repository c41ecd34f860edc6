// What only kernel UDP has: offloads, links with a small MTU, full device queues, refusals.
#include "transport/udp.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/world.h"
#include "transport/variants.h"

namespace drlnet::test {
namespace {

Link udp_link(const udp::Options& server, const udp::Options& client) {
  Link link;
  auto listener = udp::UdpTransport::listen("127.0.0.1:0", server);
  const std::string address = listener->local_address().substr(std::strlen("udp://"));
  auto connected = udp::UdpTransport::connect(address, client);
  link.server_endpoint = connected->peer();
  link.server = std::move(listener);
  link.client = std::move(connected);
  return link;
}

std::span<TxFrame> equal_frames(Transport& transport, const Endpoint& to, size_t count,
                                size_t length) {
  const auto frames = transport.reserve(count);
  REQUIRE(frames.size() == count);
  for (size_t i = 0; i < count; ++i) {
    frames[i].to = to;
    frames[i].length = static_cast<uint32_t>(length);
    fill({frames[i].data, length}, i);
  }
  return frames;
}

// Runs `body` on a thread with a network of its own, which no process beside this one sees. False,
// with a message, where that is not allowed.
bool in_own_network(const std::function<void()>& body) {
  bool allowed = false;
  std::thread([&] {
    allowed = unshare(CLONE_NEWNET) == 0;
    if (allowed) body();
  }).join();
  if (!allowed) MESSAGE("SKIPPED: making a network namespace needs privileges");
  return allowed;
}

void configure(const char* interface, unsigned long request,
               const std::function<void(ifreq&)>& set) {
  ifreq change{};
  std::strncpy(change.ifr_name, interface, IFNAMSIZ - 1);
  set(change);
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  const int result = ioctl(fd, request, &change);
  close(fd);
  REQUIRE_MESSAGE(result == 0, interface << ": " << std::strerror(errno));
}

void set_address(const char* interface, unsigned long request, const char* address) {
  configure(interface, request, [&](ifreq& change) {
    const auto resolved = udp::resolve(address)[0];
    std::memcpy(&change.ifr_addr, resolved.get(), sizeof change.ifr_addr);
  });
}

void bring_up(const char* interface, int mtu) {
  configure(interface, SIOCSIFMTU, [&](ifreq& change) { change.ifr_mtu = mtu; });
  configure(interface, SIOCSIFFLAGS, [](ifreq& change) { change.ifr_flags = IFF_UP; });
}

}  // namespace

TEST_CASE("runs of frames are the same with and without each offload") {
  for (const bool segmentation : {false, true}) {
    for (const bool receive_offload : {false, true}) {
      CAPTURE(segmentation);
      CAPTURE(receive_offload);
      Link link = udp_link({.receive_offload = receive_offload}, {.segmentation = segmentation});
      const size_t count =
          std::min<size_t>(64, link.server->receive_capacity_bytes() / kMaxFrameBytes);
      for (const size_t length :
           {size_t{1}, size_t{999}, size_t{1472}, kJumboFrameBytes, kMaxFrameBytes}) {
        for (const size_t last : {size_t{1}, length}) {
          const auto frames = equal_frames(*link.client, link.server_endpoint, count, length);
          frames.back().length = static_cast<uint32_t>(last);
          fill({frames.back().data, last}, count - 1);
          REQUIRE(link.client->send_burst(frames) == count);
          size_t next = 0;
          CHECK(receive(*link.server, count, [&](const RxFrame& frame) {
                  CHECK(frame.data.size() == frames[next].length);
                  CHECK(holds(frame.data, next++));
                }) == count);
        }
      }
    }
  }
}

// Linux refuses to segment what it is not to compute checksums of.
TEST_CASE("when the kernel refuses to segment, the same frames go one by one") {
  Link link = udp_link({}, {});
  const int no_checksums = 1;
  REQUIRE(setsockopt(link.client->arm().fd, SOL_SOCKET, SO_NO_CHECK, &no_checksums,
                     sizeof no_checksums) == 0);
  for (int round = 0; round < 3; ++round) {
    const auto frames = equal_frames(*link.client, link.server_endpoint, 16, 1000);
    REQUIRE(link.client->send_burst(frames) == 16);
    size_t next = 0;
    CHECK(receive(*link.server, 16,
                  [&](const RxFrame& frame) { CHECK(holds(frame.data, next++)); }) == 16);
  }
  CHECK(link.client->counters().send_failed == 0);
}

TEST_CASE("a frame that no correct peer sends is dropped and counted") {
  Link link = udp_link({}, {});
  const auto server = udp::from_endpoint(link.server_endpoint);
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  const std::vector<std::byte> bytes(kMaxFrameBytes + 1);
  for (const size_t length : {size_t{0}, bytes.size(), size_t{5}}) {
    REQUIRE(sendto(fd, bytes.data(), length, 0, server.get(), server.length()) ==
            static_cast<ssize_t>(length));
  }
  close(fd);
  CHECK(receive(*link.server, 1, [](const RxFrame& f) { CHECK(f.data.size() == 5); }) == 1);
  CHECK(link.server->counters().receive_dropped == 1);
}

TEST_CASE("a client sees that nothing listens, and goes on when something does") {
  auto server = listen("udp://127.0.0.1:0");
  const std::string address = server->local_address();
  server.reset();
  const Connected client = connect(address);
  const uint64_t deadline_ns = now_ns() + kPatienceNs;
  while (client.transport->counters().refused == 0 && now_ns() < deadline_ns) {
    send_one(*client.transport, client.server, 1, 10);
    CHECK(client.transport->recv_burst().empty());
  }
  CHECK(client.transport->counters().refused > 0);
  server = listen(address);
  send_one(*client.transport, client.server, 2, 10);
  CHECK(receive(*server, 1, [](const RxFrame& frame) { CHECK(holds(frame.data, 2)); }) == 1);
}

TEST_CASE("of a name's addresses one is taken that does not refuse, and named while it is silent") {
  const auto server = listen("udp://127.0.0.1:0");
  const std::string address = server->local_address();
  const std::string port = address.substr(address.rfind(':'));
  const auto connected = [&](std::initializer_list<const char*> hosts) {
    std::vector<udp::SocketAddress> addresses;
    for (const char* host : hosts) addresses.push_back(udp::resolve(host + port)[0]);
    return udp::UdpTransport::connect(addresses, "name" + port, {});
  };
  const auto client = connected({"127.0.0.2", "127.0.0.1"});
  CHECK(client->describe(client->peer()) == address);
  CHECK(client->trouble() == "of the name's 2 addresses 127.0.0.1" + port + " was taken");
  send_one(*client, client->peer(), 1, 64);
  Endpoint from;
  CHECK(receive(*server, 1, [&](const RxFrame& frame) { from = frame.from; }) == 1);
  send_one(*server, from, 2, 64);
  CHECK(receive(*client, 1, [](const RxFrame& frame) { CHECK(holds(frame.data, 2)); }) == 1);
  CHECK(client->trouble() == "");
  // A server may come to be there: none of them is an error.
  const auto early = connected({"127.0.0.2", "127.0.0.3"});
  CHECK(early->describe(early->peer()) == "udp://127.0.0.2" + port);
}

// A client's socket is connected: it takes frames from the address that it dialled alone.
TEST_CASE("a listener on all addresses answers from the one that was dialled") {
  const auto server = listen("udp://0.0.0.0:0");
  const std::string address = server->local_address();
  const std::string port = address.substr(address.rfind(':'));
  std::vector<Connected> clients;
  for (const char* host : {"127.0.0.1", "127.0.0.2", "127.1.2.3"}) {
    clients.push_back(connect("udp://" + std::string(host) + port));
  }
  for (int round = 0; round < 2; ++round) {
    std::vector<Endpoint> from;
    for (size_t i = 0; i < clients.size(); ++i) {
      send_one(*clients[i].transport, clients[i].server, i, 100);
      REQUIRE(receive(*server, 1, [&](const RxFrame& frame) {
                CHECK(holds(frame.data, i));
                from.push_back(frame.from);
              }) == 1);
    }
    for (size_t i = 0; i < clients.size(); ++i) {  // in bursts that the kernel segments, and alone
      const auto frames = equal_frames(*server, from[i], 8, 1000);
      REQUIRE(server->send_burst(frames) == 8);
      send_one(*server, from[i], 8, 77);
      size_t next = 0;
      CHECK(receive(*clients[i].transport, 9, [&](const RxFrame& frame) {
              CHECK(holds(frame.data, next++));
              CHECK(frame.from == clients[i].server);
            }) == 9);
    }
  }
  CHECK(server->counters().send_failed == 0);
}

TEST_CASE("the same over IPv6, and beyond the addresses that can be told apart") {
  if (!available({"udp6", "udp://[::1]:0"})) return;
  const auto server = listen("udp://[::]:0");
  const std::string address = server->local_address();
  Connected client = connect("udp://[::1]" + address.substr(address.rfind(':')));
  Endpoint from;
  for (uint64_t round = 0; round < 3; ++round) {
    send_one(*client.transport, client.server, round, 100);
    REQUIRE(receive(*server, 1, [&](const RxFrame& frame) { from = frame.from; }) == 1);
    send_one(*server, from, round, 100);
    REQUIRE(receive(*client.transport, 1,
                    [&](const RxFrame& frame) { CHECK(holds(frame.data, round)); }) == 1);
  }
  CHECK(server->describe(from).starts_with("udp://[::1]:"));

  udp::LocalAddresses addresses;
  udp::Socket socket = udp::Socket::bound(udp::resolve("127.0.0.1:0"), "", {});
  alignas(cmsghdr) std::byte room[udp::LocalAddresses::kControlBytes];
  for (uint32_t i = 0; i < 300; ++i) {
    msghdr header{};
    header.msg_control = room;
    in_pktinfo info{};
    info.ipi_spec_dst.s_addr = htonl(0x7F000001 + i);
    udp::add_control(header, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    Endpoint endpoint = udp::to_endpoint(socket.local());
    const Endpoint bare = endpoint;
    addresses.read(header, endpoint);
    CHECK((endpoint == bare) == (i >= udp::LocalAddresses::kMost));
    header.msg_controllen = 0;
    addresses.write(endpoint, header);
    CHECK((header.msg_controllen == 0) == (i >= udp::LocalAddresses::kMost));
  }
}

TEST_CASE("a frame longer than the link counts as taken and is lost; shorter ones pass") {
  in_own_network([] {
    bring_up("lo", 1500);
    Link link = udp_link({}, {});
    REQUIRE(link.client->send_burst(
                equal_frames(*link.client, link.server_endpoint, 64, kMaxFrameBytes)) == 64);
    CHECK(link.client->counters().too_long == 64);
    const auto frames = equal_frames(*link.client, link.server_endpoint, 64, 1472);
    frames[0].length = 1473;
    REQUIRE(link.client->send_burst(frames) == 64);
    CHECK(link.client->counters().too_long == 65);
    CHECK(receive(*link.server, 63, [](const RxFrame& f) { CHECK(f.data.size() == 1472); }) == 63);
    CHECK(link.server->recv_burst().empty());
  });
}

TEST_CASE("a client's frames are as long as its link takes them, between what all and some take") {
  in_own_network([] {
    for (const auto& [mtu, longest] : std::vector<std::pair<int, std::array<size_t, 2>>>{
             {65536, {kMaxFrameBytes, kMaxFrameBytes}},
             {65504, {kMaxFrameBytes, 65456}},
             {9000, {8972, 8952}},
             {3498, {3470, 3450}},
             {1460, {1432, 1412}},
             {1280, {1252, 1232}}}) {
      CAPTURE(mtu);
      bring_up("lo", mtu);
      CHECK(udp::UdpTransport::listen("127.0.0.1:0", {})->mtu({}) == kMaxFrameBytes);
      const auto v4 = udp::UdpTransport::connect("127.0.0.1:7447", {});
      CHECK(v4->mtu(v4->peer()) == longest[0]);
      const auto v6 = udp::UdpTransport::connect("[::1]:7447", {});
      CHECK(v6->mtu(v6->peer()) == longest[1]);
    }
  });
}

// A neighbour that never answers ARP leaves frames waiting in the kernel, so that they fill the
// send buffer; there are few other ways to fill it without a slow device.
TEST_CASE("when the send buffer is full the rest is left to the caller") {
  in_own_network([] {
    const int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (tap < 0) {
      MESSAGE("SKIPPED: no /dev/net/tun");
      return;
    }
    ifreq create{};
    std::strcpy(create.ifr_name, "tap0");
    create.ifr_flags = IFF_TAP | IFF_NO_PI;
    REQUIRE(ioctl(tap, TUNSETIFF, &create) == 0);
    set_address("tap0", SIOCSIFADDR, "10.9.9.1:0");
    set_address("tap0", SIOCSIFNETMASK, "255.255.255.0:0");
    bring_up("tap0", 9000);
    const auto client = udp::UdpTransport::connect("10.9.9.2:7447", {.buffer_bytes = 32 << 10});
    const auto frames = equal_frames(*client, client->peer(), 64, 4000);
    const size_t taken = client->send_burst(frames);
    CHECK(taken > 0);
    CHECK(taken < 64);
    CHECK(client->send_burst(frames.subspan(taken)) < 64 - taken);  // still full, still no error
    CHECK(client->counters().send_failed == 0);
    close(tap);
  });
}

}  // namespace drlnet::test
