// Several transports of one process on one NIC: a server's shards, a client's sessions.
#include <array>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/world.h"
#include "transport/variants.h"
#include "transport/veth.h"

namespace drlnet::test {
namespace {

constexpr size_t kShards = 2;

struct Nics {
  const char* driver;
  const VethPair& pair;
  const char* queues;  // of the server, as its address has it
};

// Two shards of a server, and of a client the session with each, at the two ends of a pair.
struct Shared {
  explicit Shared(const Nics& nics) {
    const std::string driver = std::string("dpdk:") + nics.driver + ":";
    first = driver + nics.pair.server + ",ip=10.7.0.2/24" + nics.queues;
    const std::string to = driver + nics.pair.client + ",ip=10.7.0.1/24,to=10.7.0.2:7447";
    for (uint32_t i = 0; i < kShards; ++i) {
      servers[i] = listen(shard_address(first, i), kShards);
      clients[i] = connect(shard_address(to, i));
    }
  }

  // Sends from that session until its shard has it: what goes out while neighbours are not known,
  // or an interface comes back, is lost.
  bool reaches(size_t i) {
    for (const uint64_t deadline_ns = now_ns() + kPatienceNs; now_ns() < deadline_ns;) {
      send_one(*clients[i].transport, clients[i].server, i, 64);
      clients[i].transport->recv_burst();
      size_t came = 0;
      for (const auto& server : servers) {
        const auto frames = server->recv_burst();
        if (server == servers[i]) came = frames.size();
      }
      if (came > 0) return true;
    }
    return false;
  }
  void settle() {
    constexpr uint64_t kQuietNs = 5'000'000;
    for (uint64_t quiet_ns = now_ns() + kQuietNs; now_ns() < quiet_ns;) {
      for (const auto& server : servers) {
        if (!server->recv_burst().empty()) quiet_ns = now_ns() + kQuietNs;
      }
    }
  }

  std::string first;
  std::array<std::unique_ptr<Transport>, kShards> servers;
  std::array<Connected, kShards> clients;
};

const std::vector<Nics> kAll = {{"af_packet", kPacketPair, ""},
                                {"af_packet", kPacketPair, ",queues=1"},
                                {"af_xdp", kXdpPair, ""}};

void for_each(const std::vector<Nics>& list,
              const std::function<void(Shared&, const Nics&)>& body) {
  for (const Nics& nics : list) {
    SUBCASE((std::string(nics.driver) + nics.queues).c_str()) {
      const Variant variant{nics.driver, std::string("dpdk:") + nics.driver + ":" +
                                             nics.pair.server + ",ip=10.7.0.2/24"};
      Variant there = variant;
      there.trouble = veth_trouble();
      if (!available(there)) return;
      Shared shared(nics);
      body(shared, nics);
    }
  }
}

// Until all have come, or patience ends: what each transport received, by its number.
using Came = std::array<std::vector<std::vector<std::byte>>, kShards>;
template <typename At>
Came receive_all(At&& at, size_t count, std::vector<Endpoint>* from = nullptr) {
  Came came;
  size_t left = count;
  for (const uint64_t deadline_ns = now_ns() + kPatienceNs; left > 0 && now_ns() < deadline_ns;) {
    for (size_t i = 0; i < kShards; ++i) {
      for (const RxFrame& frame : at(i).recv_burst()) {
        came[i].emplace_back(frame.data.begin(), frame.data.end());
        if (from != nullptr) (*from)[i] = frame.from;
        --left;
      }
    }
  }
  return came;
}

void down_and_up(const char* interface) {
  const std::string set = std::string("ip link set ") + interface;
  REQUIRE(std::system((set + " down && " + set + " up").c_str()) == 0);
}

}  // namespace

TEST_CASE("each transport on a NIC gets its own frames, whatever queue they come on") {
  for_each(kAll, [](Shared& shared, const Nics&) {
    for (size_t i = 0; i < kShards; ++i) REQUIRE(shared.reaches(i));
    shared.settle();
    std::vector<Endpoint> from(kShards);
    constexpr size_t kEach = 16;
    for (uint64_t round = 0; round < 50; ++round) {
      for (uint64_t k = 0; k < kEach; ++k) {
        for (size_t i = 0; i < kShards; ++i) {
          Connected& client = shared.clients[i];
          send_one(*client.transport, client.server, 100 * round + 10 * k + i, 900);
        }
      }
      const auto at_servers = receive_all(
          [&](size_t i) -> Transport& { return *shared.servers[i]; }, kEach* kShards, &from);
      for (size_t i = 0; i < kShards; ++i) {
        REQUIRE(at_servers[i].size() == kEach);
        for (uint64_t k = 0; k < kEach; ++k) {
          CHECK(holds(at_servers[i][k], 100 * round + 10 * k + i));
        }
        send_one(*shared.servers[i], from[i], round, 300);
      }
      const auto at_clients = receive_all(
          [&](size_t i) -> Transport& { return *shared.clients[i].transport; }, kShards);
      for (size_t i = 0; i < kShards; ++i) {
        REQUIRE(at_clients[i].size() == 1);
        CHECK(holds(at_clients[i][0], round));
      }
    }
  });
}

TEST_CASE(
    "one that finds another's frames hands them over, counts them, and goes on when it is full") {
  for_each({kAll[1], kAll[2]}, [](Shared& shared, const Nics&) {
    for (size_t i = 0; i < kShards; ++i) REQUIRE(shared.reaches(i));
    shared.settle();
    Connected& client = shared.clients[1];
    const uint64_t before = shared.servers[0]->counters().handed_over;
    constexpr size_t kSent = 2000;  // more than wait for one transport
    size_t sent = 0;
    for (const uint64_t deadline_ns = now_ns() + kPatienceNs;
         shared.servers[0]->counters().receive_overflow == 0 && now_ns() < deadline_ns; ++sent) {
      send_one(*client.transport, client.server, sent, 100);
      CHECK(shared.servers[0]->recv_burst().empty());
    }
    REQUIRE(sent <= kSent);
    const uint64_t handed = shared.servers[0]->counters().handed_over - before;
    CHECK(handed >= 1000);
    size_t next = 0;
    for (size_t frames = 1; frames > 0;) {
      const auto burst = shared.servers[1]->recv_burst();
      for (const RxFrame& frame : burst) CHECK(holds(frame.data, next++));
      frames = burst.size();
    }
    CHECK(next >= handed);
    CHECK(shared.servers[1]->counters().handed_over == 0);
    CHECK(shared.reaches(0));
  });
}

TEST_CASE("an interface that goes comes back for all on it, whichever looks") {
  for_each(kAll, [](Shared& shared, const Nics& nics) {
    for (size_t i = 0; i < kShards; ++i) REQUIRE(shared.reaches(i));
    for (const size_t active : {0, 1}) {  // the other session does not look meanwhile
      down_and_up(nics.pair.client);
      CHECK(shared.reaches(active));
      down_and_up(nics.pair.server);
      CHECK(shared.reaches(active));
      join_again(nics.pair);
      CHECK(shared.reaches(active));
    }
    CHECK(shared.reaches(0));
  });
}

TEST_CASE("what cannot share a NIC is told so") {
  for_each({kAll[0]}, [](Shared& shared, const Nics&) {
    const auto refused = [](const std::string& address, uint32_t shards, const char* because) {
      try {
        listen(address, shards);
      } catch (const Error& error) {
        return error.cause().find(because) != std::string::npos;
      }
      return false;
    };
    CHECK(refused(shared.first, kShards, "has that port of packet0 already"));
    CHECK(refused(shared.first + ",port=9000", kShards, "as many transports on packet0"));
    CHECK(refused(shared.first + ",port=9000", 3, "packet0 with other settings"));
    CHECK(refused(shared.first + ",ip=10.7.0.9", kShards, "with other settings"));
    // A place is free again when its transport has gone.
    shared.servers[1].reset();
    shared.servers[1] = listen(shard_address(shared.first, 1), kShards);
    CHECK(shared.reaches(1));
  });
}

}  // namespace drlnet::test
