// A transport that behaves like a bad network, for tests: it wraps any other one and drops,
// doubles, reorders, delays and alters frames by a seeded schedule. The schedule depends only on
// the seed and on the frames' order, so that over the in-memory transport a failure can be repeated
// from its seed.
#pragma once

#include <deque>

#include "base/random.h"
#include "transport/forwarding.h"

namespace drlnet {

// Probabilities are per frame.
struct FaultPlan {
  double drop = 0.0, duplicate = 0.0;
  double reorder = 0.0;   // falls behind the next frame, or the next poll of the line
  uint64_t delay_ns = 0;  // of every frame
  uint64_t seed = 1;
  double alter = 0.0;  // a bit is flipped, or some bytes are cut off
};

struct FaultCounts {
  uint64_t passed = 0, dropped = 0, duplicated = 0, reordered = 0, altered = 0;
};

// One direction. Frames go in by offer() and come out by ready() and pop().
class FaultyLine {
 public:
  struct Held {
    Endpoint peer;
    std::vector<std::byte> data;
    uint64_t release_ns;
  };

  explicit FaultyLine(const FaultPlan& plan) : plan_(plan), random_(plan.seed) {}
  void offer(const Endpoint& peer, std::span<const std::byte> data);
  // What is to go on now, oldest first; call pop() once it has. Null when there is nothing.
  const Held* front() const;
  Held pop();
  // Polls the line: what was reordered before the last poll no longer waits for a next frame.
  void poll();
  uint64_t next_release_ns() const;  // UINT64_MAX when it holds nothing
  const FaultCounts& counts() const { return counts_; }

 private:
  void alter(std::vector<std::byte>& data);

  FaultPlan plan_;
  Random random_;
  std::deque<Held> line_, overtaken_;
  size_t overtaken_before_poll_ = 0;
  FaultCounts counts_;
};

class FaultyTransport final : public ForwardingTransport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& outgoing,
                  const FaultPlan& incoming);

  std::span<TxFrame> reserve(size_t count) override;
  size_t send_burst(std::span<const TxFrame> frames) override;
  std::span<const RxFrame> recv_burst() override;
  WaitPoint arm() override;
  bool reliable() const override { return false; }

  const FaultCounts& outgoing() const { return outgoing_.counts(); }
  const FaultCounts& incoming() const { return incoming_.counts(); }

 private:
  void flush();

  FaultyLine outgoing_, incoming_;
  std::unique_ptr<std::byte[]> arena_;
  std::vector<TxFrame> tx_frames_;
  std::vector<FaultyLine::Held> lent_;
  std::vector<RxFrame> rx_frames_;
};

}  // namespace drlnet
