// What a device does not take at once is sent later as it was when it was filled, whatever becomes
// of the memory that was lent.
#include "session/outbox.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

namespace drlnet::test {
namespace {

// Takes as many frames of a burst as it has room for, and remembers their bytes.
class NarrowTransport final : public Transport {
 public:
  size_t room = 0;
  std::vector<std::vector<std::byte>> sent;

  NarrowTransport() {
    for (size_t i = 0; i < frames_.size(); ++i) frames_[i].data = &memory_[i * kJumboFrameBytes];
  }
  std::span<TxFrame> reserve(size_t count) override {
    return std::span(frames_).first(std::min(count, frames_.size()));
  }
  size_t send_burst(std::span<const TxFrame> frames) override {
    const size_t taken = std::min(room, frames.size());
    for (const TxFrame& frame : frames.first(taken)) {
      frame.loans.copy_out();
      sent.emplace_back(frame.data, frame.data + frame.length);
    }
    room -= taken;
    return taken;
  }
  std::span<const RxFrame> recv_burst() override { return {}; }
  WaitPoint arm() override { return {}; }
  size_t mtu(const Endpoint&) override { return kJumboFrameBytes; }
  bool reliable() const override { return true; }
  bool may_alter_bytes() const override { return false; }  // it sends other bytes than frames
  size_t receive_capacity_bytes() const override { return 1 << 20; }
  std::string local_address() const override { return "narrow:"; }
  std::string describe(const Endpoint&) const override { return "narrow:"; }
  std::string_view kind() const override { return "narrow"; }
  TransportCounters counters() const override { return {}; }

 private:
  std::array<TxFrame, 64> frames_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(64 * kJumboFrameBytes);
};

}  // namespace

TEST_CASE("frames that the device leaves keep what they were lent") {
  constexpr size_t kFrames = 5, kBytes = 2 * Loans::kMinBytes;
  NarrowTransport transport;
  Outbox outbox(transport);
  auto lent = std::make_unique<std::byte[]>(kBytes);
  std::memset(lent.get(), 1, kBytes);
  for (size_t i = 0; i < kFrames; ++i) {
    TxFrame* frame = outbox.next({}, false);
    REQUIRE(frame != nullptr);
    CHECK(frame->loans.empty());
    frame->data[0] = static_cast<std::byte>(i);
    frame->loans.put(frame->data + 1, lent.get(), kBytes);
    CHECK_FALSE(frame->loans.empty());
    frame->length = 1 + kBytes;
  }
  transport.room = 2;
  CHECK_FALSE(outbox.flush());
  lent.reset();
  transport.room = 2;
  CHECK_FALSE(outbox.flush());
  transport.room = kFrames;
  CHECK(outbox.flush());
  REQUIRE(transport.sent.size() == kFrames);
  for (size_t i = 0; i < kFrames; ++i) {
    std::vector<std::byte> expected(1 + kBytes, std::byte{1});
    expected[0] = static_cast<std::byte>(i);
    CHECK(transport.sent[i] == expected);
  }
}

TEST_CASE("the frames that were used last are used again as soon as all have gone") {
  NarrowTransport transport;
  Outbox outbox(transport);
  const auto fill = [&] {
    TxFrame* frame = outbox.next({}, false);
    REQUIRE(frame != nullptr);
    frame->length = 1;
    return frame;
  };
  const TxFrame *first = fill(), *second = fill();
  CHECK(second == first + 1);
  transport.room = 1;
  CHECK_FALSE(outbox.flush());
  CHECK(fill() == second + 1);  // the second is still to go
  transport.room = 2;
  CHECK(outbox.flush());
  CHECK(fill() == first);
}

}  // namespace drlnet::test
