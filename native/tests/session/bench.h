// A server and its clients in one thread, with a handler whose every byte can be checked.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "patience.h"
#include "session/client/connection.h"
#include "session/server/sessions.h"
#include "transport/faulty.h"
#include "wire/codec.h"

namespace drlnet::test {

inline std::byte pattern(uint64_t id, uint64_t offset) {
  return static_cast<std::byte>((id * 131 + offset * 7 + (offset >> 8)) & 0xFF);
}

// One assertion for all of them: one for each byte would take most of the suite's time.
inline void check_pattern(uint64_t id, std::span<const std::byte> bytes, size_t from = 0) {
  size_t right = from;
  while (right < bytes.size() && bytes[right] == pattern(id, right)) ++right;
  REQUIRE(right >= bytes.size());
}

// Lends what it is asked for.
class PatternReply final : public ReplySource {
 public:
  void assign(uint64_t id, uint32_t bytes) {
    bytes_.resize(bytes);
    for (size_t i = 0; i < bytes; ++i) bytes_[i] = pattern(id, i);
  }
  uint32_t total_bytes() const override { return static_cast<uint32_t>(bytes_.size()); }
  bool gather(uint64_t offset, std::span<std::byte> out, Loans& loans) const override {
    loans.put(out.data(), bytes_.data() + offset, out.size());
    return true;
  }

 private:
  std::vector<std::byte> bytes_;
};

struct Order {  // body of a sample request: a reply of that size
  uint64_t id;
  uint32_t bytes, reserved;
};
constexpr uint32_t kRefused = UINT32_MAX;  // instead of a size
constexpr std::string_view kRefusal = "no";

// Echoes pings, counts what it appends, produces replies of any size, and waits when told to.
class TestHandler final : public RequestHandler {
 public:
  std::vector<uint64_t> appended;
  bool closed = false;
  int ended_count = 0;
  size_t longest_echo = SIZE_MAX;
  uint64_t pings = 0;
  std::function<void()> work;  // of a ping
  WaitTimes* waits = nullptr;  // of an append that waits
  Sessions* sessions = nullptr;
  std::vector<uint32_t> waiting;  // sessions whose appends wait

  uint16_t handle(Peer& peer, Slot& slot, std::span<const std::byte> body) override {
    if (slot.operation == Operation::sample) {
      Order order;
      std::memcpy(&order, body.data(), sizeof order);
      if (order.bytes == kRefused) {
        slot.status = Status::config;
        ByteWriter(slot.bytes).raw(std::as_bytes(std::span(kRefusal)));
        return 0;
      }
      if (!slot.source) slot.source = std::make_unique<PatternReply>();
      static_cast<PatternReply&>(*slot.source).assign(order.id, order.bytes);
      slot.use_source = true;
      return 0;
    }
    if (slot.operation == Operation::append) {
      if (closed) {
        peer.lane(Lane::append).waits = waits;
        waiting.push_back(peer.connection);
        return 3;
      }
      uint64_t id;
      std::memcpy(&id, body.data(), sizeof id);
      check_pattern(id, body, sizeof id);
      appended.push_back(id);
    }
    if (slot.operation == Operation::ping) ++pings;
    if (slot.operation == Operation::ping && work) work();
    const std::span<const std::byte> echo = body.first(std::min(body.size(), longest_echo));
    slot.bytes.assign(echo.begin(), echo.end());
    return 0;
  }
  void retry_waiting() override {
    for (const uint32_t session : std::exchange(waiting, {})) {
      sessions->run_waiting(session, Lane::append);
    }
  }
  void ended(Peer& peer) override {
    ++ended_count;
    std::erase(waiting, peer.connection);
  }
};

struct Bench {
  TestHandler handler;
  Sessions sessions{handler, {77, 1}};
  std::vector<std::unique_ptr<Connection>> clients;
  std::string address;
  FaultPlan faults;
  std::optional<ClientKey> key;  // of the next client

  explicit Bench(const std::string& listen_on, double fault, uint64_t seed, double alter = 0,
                 const std::shared_ptr<KeyStore>& keys = {},
                 const std::optional<ClientKey>& first = {})
      : key(first) {
    handler.sessions = &sessions;
    if (keys) sessions.require_keys(keys);
    faults = {fault, fault, fault, 0, seed};
    auto transport = listen(listen_on);
    address = transport->local_address();
    if (alter > 0) {  // at this end: the client may then receive in place
      const FaultPlan plan{.seed = seed, .alter = alter}, back{.seed = seed + 1, .alter = alter};
      transport = std::make_unique<FaultyTransport>(std::move(transport), plan, back);
    }
    sessions.add_listener(std::move(transport));
    add_client();
  }
  Connection& add_client() {
    Connected connected = connect(address);
    if (faults.drop > 0) {
      FaultPlan back = faults;
      back.seed += 1;
      connected.transport =
          std::make_unique<FaultyTransport>(std::move(connected.transport), faults, back);
      faults.seed += 2;
    }
    clients.push_back(std::make_unique<Connection>(std::move(connected), "test", key));
    return *clients.back();
  }
  template <typename Condition>
  void run_until(Condition condition) {
    test::run_until(condition, [&] {
      for (auto& client : clients) client->progress();
      sessions.poll();
    });
  }
  void open() {
    run_until([&] {
      for (auto& c : clients) {
        if (c->state() != Connection::State::open) return false;
      }
      return true;
    });
  }
};

inline CallId append(Connection& client, uint64_t id, size_t bytes) {
  Call& call = client.begin(Operation::append);
  call.body.resize(sizeof id + bytes);
  std::memcpy(call.body.data(), &id, sizeof id);
  for (size_t i = sizeof id; i < call.body.size(); ++i) call.body[i] = pattern(id, i);
  return client.submit(call);
}

// A reply of `bytes`, as many as the destination holds unless told otherwise.
inline CallId order(Connection& client, uint64_t id, std::span<std::byte> destination,
                    uint32_t bytes = 0) {
  Call& call = client.begin(Operation::sample);
  const Order order{id, bytes ? bytes : static_cast<uint32_t>(destination.size()), 0};
  call.body.resize(sizeof order);
  std::memcpy(call.body.data(), &order, sizeof order);
  call.destination = destination;
  return client.submit(call);
}

}  // namespace drlnet::test
