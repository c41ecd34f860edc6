// Frames on their way out through one transport, sent in bursts. What the device does not take
// stays in front and is tried again. What frames were lent has to stay as it is until the next
// flush(), no longer. Threading: one thread.
#pragma once

#include <algorithm>

#include "session/keys/sealing.h"
#include "session/seal.h"
#include "transport/transport.h"

namespace drlnet {

class Outbox {
 public:
  explicit Outbox(Transport& transport)
      : transport_(&transport), seals_(transport.may_alter_bytes()) {}

  // The next empty frame, or nullptr while the device takes no more. sealing: of its session, if it
  // is sealed; it outlives the next flush(), or seal_filled().
  TxFrame* next(const Endpoint& to, bool apart, Sealing* sealing = nullptr) {
    if (filled_ == frames_.size()) {
      flush();
      if (!frames_.empty()) return nullptr;
      frames_ = transport_->reserve(kBurst);
      sent_ = sealed_ = filled_ = 0;
      if (frames_.empty()) return nullptr;
    }
    sealings_[filled_] = sealing;
    TxFrame* frame = &frames_[filled_++];
    frame->to = to;
    frame->apart = apart;
    frame->loans.clear();
    return frame;
  }

  // The same for a frame of at most most_bytes that is flushed as soon as it is filled: where
  // the transport can, it is written where its receiver reads it, and must not be read.
  TxFrame* next_at_receiver(const Endpoint& to, bool apart, uint32_t most_bytes) {
    TxFrame* frame = next(to, apart);
    if (frame == nullptr) return nullptr;
    frame->length = most_bytes;
    if (filled_ - sent_ == 1) transport_->place(*frame);
    return frame;
  }

  // Sends what is filled. True when nothing is left over.
  bool flush() {
    if (sent_ == filled_) return true;
    seal_filled();
    sent_ += transport_->send_burst(frames_.subspan(sent_, filled_ - sent_));
    for (TxFrame& left : frames_.subspan(sent_, filled_ - sent_)) {
      left.loans.copy_out();
      left.loans.clear();
    }
    if (sent_ < filled_) return false;
    // From the front again: in the processor's cache are the frames that were used last.
    frames_ = {};
    sent_ = sealed_ = filled_ = 0;
    return true;
  }

  // Before a session ends whose sealing its frames name. Each is sealed once: those that the device
  // did not take go out as they are.
  void seal_filled() {
    for (; sealed_ < filled_; ++sealed_) {
      if (sealings_[sealed_] != nullptr) {
        sealings_[sealed_]->seal(frames_[sealed_]);
      } else if (seals_) {
        seal(frames_[sealed_]);
      }
    }
  }

  bool blocked() const { return sent_ < filled_; }
  Transport& transport() { return *transport_; }

 private:
  static constexpr size_t kBurst = 64;
  Transport* transport_;
  bool seals_;
  std::span<TxFrame> frames_;
  std::array<Sealing*, kBurst> sealings_{};  // of the frames that are filled
  size_t sent_ = 0, sealed_ = 0, filled_ = 0;
};

}  // namespace drlnet
