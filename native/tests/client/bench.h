// A server on a thread of its own, or on one for each shard, and rows that name their stream and
// step.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/sample_stream.h"
#include "client/writer.h"
#include "patience.h"
#include "server/server.h"
#include "transport/faulty.h"
#include "transport/placing.h"

namespace drlnet::test {

constexpr uint32_t kSteps = 20;  // of an episode, the final observation included

class RunningServer {
 public:
  explicit RunningServer(const std::string& address = "udp://127.0.0.1:0",
                         const Limits& limits = {})
      : server_(options_of(address, limits)), thread_([this] { server_.run(); }) {}
  ~RunningServer() {
    server_.stop();
    thread_.join();
  }
  std::string address() const { return server_.addresses().front(); }

 private:
  static ServerOptions options_of(const std::string& address, const Limits& limits) {
    ServerOptions options{{address}, Poll::adaptive, 0};
    options.limits = limits;
    return options;
  }

  Server server_;
  std::thread thread_;
};

class RunningShards {
 public:
  // One: a server that is alone.
  explicit RunningShards(uint32_t count, bool index_only = false)
      : servers_(make_shards(
            {.listen = {"udp://127.0.0.1:0"}, .poll = Poll::adaptive, .index_only = index_only},
            count)) {
    for (const auto& server : servers_) {
      threads_.emplace_back([&server] { server->run(); });
    }
  }
  ~RunningShards() {
    for (const auto& server : servers_) server->stop();
    for (std::thread& thread : threads_) thread.join();
  }
  std::string address() const { return servers_[0]->addresses()[0]; }
  // A client of that shard, over a network that drops, doubles and reorders that share of frames.
  std::unique_ptr<Client> client(uint32_t shard, double fault, uint64_t seed,
                                 std::function<void()> interrupt = {}) const {
    const std::string here = shard_address(address(), shard);
    CHECK(here == servers_[shard]->addresses()[0]);
    Connected connected = connect(here);
    if (fault > 0) {
      connected.transport = std::make_unique<FaultyTransport>(
          std::move(connected.transport), FaultPlan{fault, fault, fault, 0, seed + 2 * shard},
          FaultPlan{fault, fault, fault, 0, seed + 2 * shard + 1});
      connected.transport = std::make_unique<PlacingTransport>(std::move(connected.transport));
    }
    auto result = std::make_unique<Client>(std::move(connected),
                                           ClientOptions{here, "test", kPatienceNs, Poll::adaptive},
                                           std::move(interrupt));
    CHECK(result->shard() == shard);
    return result;
  }
  std::vector<std::unique_ptr<Client>> clients(double fault, uint64_t seed) const {
    std::vector<std::unique_ptr<Client>> result;
    for (uint32_t shard = 0; shard < servers_.size(); ++shard) {
      result.push_back(client(shard, fault, seed));
      CHECK(result.back()->shards() == servers_.size());
      CHECK(result.back()->lineage() == result.front()->lineage());
    }
    return result;
  }

 private:
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::thread> threads_;
};

inline TableSpec spec_of(uint64_t capacity = 10'000, LimiterSpec limiter = {}) {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = capacity;
  spec.columns = {{"obs", DataType::f32, {3}}, {"reward", DataType::f32, {}}};
  spec.item.views = {{"obs", 0, -1, 0, Pad::repeat, Align::anchor},
                     {"next_obs", 0, 2, 2, Pad::repeat, Align::end},
                     {"reward", 1, 1, 2, Pad::zero, Align::anchor}};
  spec.limiter = limiter;
  spec.seed = 5;
  return spec;
}

inline ClientOptions options_of(const RunningServer& server, uint64_t timeout_ns = kPatienceNs) {
  return {server.address(), "test", timeout_ns, Poll::adaptive};
}

inline std::unique_ptr<Client> client_of(const RunningServer& server, double fault, uint64_t seed) {
  Connected connected = connect(server.address());
  if (fault > 0) {
    connected.transport = std::make_unique<FaultyTransport>(
        std::move(connected.transport), FaultPlan{fault, fault, fault, 0, seed},
        FaultPlan{fault, fault, fault, 0, seed + 1});
    connected.transport = std::make_unique<PlacingTransport>(std::move(connected.transport));
  }
  return std::make_unique<Client>(std::move(connected), options_of(server));
}

// Row values name their stream and step, so that any row of any sample can be checked.
inline float value_of(uint32_t stream, uint64_t step) {
  return static_cast<float>(stream * 100'000 + step);
}

template <typename Writer>
void write(Writer& writer, uint32_t streams, uint64_t from, uint64_t to) {
  std::vector<float> obs(streams * 3), reward(streams);
  std::vector<uint8_t> first(streams), last(streams);
  std::vector<int64_t> steps(streams), indices(streams);
  for (uint64_t t = from; t < to; ++t) {
    for (uint32_t s = 0; s < streams; ++s) {
      for (size_t i = 0; i < 3; ++i) obs[s * 3 + i] = value_of(s, t);
      reward[s] = value_of(s, t);
      first[s] = t % kSteps == 0;
      last[s] = t % kSteps == kSteps - 1;
      indices[s] = s;
    }
    const std::byte* columns[] = {reinterpret_cast<std::byte*>(obs.data()),
                                  reinterpret_cast<std::byte*>(reward.data())};
    writer.append(columns, first, last, {}, steps);
    if (t % kSteps != kSteps - 1) writer.add_items(indices, steps, {});
  }
}

inline void check_sample(const TableSpec& spec, std::span<const std::byte> reply, uint32_t n) {
  const SampleLayout layout(spec);
  const auto at = [&](size_t view, uint32_t item, size_t row, size_t width) {
    const ViewPlace& place = layout.views()[view];
    const Window& window = layout.windows()[place.window];
    float value;
    std::memcpy(&value,
                reply.data() + layout.window(n, place.window) + item * window.item_bytes() +
                    (place.first + row) * width * sizeof(float),
                sizeof value);
    return value;
  };
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t length;
    std::memcpy(&length, reply.data() + layout.lengths(n) + i * 4, 4);
    const auto anchor = static_cast<uint64_t>(at(0, i, 1, 3));
    const auto stream = static_cast<uint32_t>(anchor / 100'000);
    const uint64_t step = anchor % 100'000;
    const uint64_t left = kSteps - 1 - step % kSteps;
    REQUIRE(length == std::min<uint64_t>(2, left));
    REQUIRE(at(0, i, 0, 3) == value_of(stream, step % kSteps == 0 ? step : step - 1));
    REQUIRE(at(1, i, 0, 3) == value_of(stream, step + length));
    REQUIRE(at(2, i, 0, 1) == value_of(stream, step + 1));
    REQUIRE(at(2, i, 1, 1) == (length == 2 ? value_of(stream, step + 2) : 0.0f));
  }
}

inline uint64_t metric(Client& client, const std::string& name) {
  const Metrics metrics = client.stats();
  for (const auto& [key, value] : metrics.list()) {
    if (key == name) return std::get<uint64_t>(value);
  }
  FAIL("no metric of that name: " << name);
  return 0;
}

inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error was thrown");
  return Error(Status::ok, "", "");
}

}  // namespace drlnet::test
