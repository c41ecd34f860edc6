// Whether long copies to memory that another core reads go through this core's cache, or past it
// (streaming_copy.h). Where the two cores share a cache, past it takes 1.2 to 1.5 times as long;
// where they share none, the lines of such memory are the other core's, and fetching each only to
// overwrite it takes twice as long as streaming. Which cores they are is not known: threads move,
// and hosts move virtual processors. So the copies are timed, and the other way is tried now and
// then. Threading: one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace drlnet {

class CopyChoice {
 public:
  // A window of bytes goes one way. Its first part finds lines as the other way left them, until
  // that many buffers have gone round, and is not judged.
  static constexpr size_t kSettlingBytes = 2'500'000, kJudgedBytes = 2'500'000;
  // Windows between trials: while the two ways are about as fast, and while one is much slower.
  static constexpr uint32_t kSoon = 64, kLate = 160;
  // For fewer bytes, reading the clock is too much of what is timed.
  static constexpr size_t kLeastBytes = 32'768;

  bool streamed() const { return streamed_; }

  // That many bytes were copied at a time, the way that streamed() says.
  void copied(size_t bytes, uint64_t ns) {
    window_bytes_ += bytes;
    if (window_bytes_ <= kSettlingBytes || bytes < kLeastBytes) return;
    turns_[count_++] = static_cast<float>(ns) / static_cast<float>(bytes);
    if (count_ < turns_.size() && window_bytes_ < kSettlingBytes + kJudgedBytes) return;
    // The median: some turns are interrupted.
    const auto middle = turns_.begin() + count_ / 2;
    std::nth_element(turns_.begin(), middle, turns_.begin() + count_);
    end_window(*middle);
    window_bytes_ = count_ = 0;
  }

 private:
  static constexpr float kLittle = 1.08f, kMuch = 1.25f;

  void end_window(float pace) {
    // A trial is held against several windows: one may have been disturbed.
    float& mean = paces_[streamed_];
    mean = trying_ || mean == 0 ? pace : mean + (pace - mean) / 8;
    const float other = paces_[!streamed_];
    if (trying_) {
      trying_ = false;
      windows_ = 0;
      if (mean * kLittle > other) streamed_ = !streamed_;
    } else if (++windows_ >= (other > mean * kMuch ? kLate : kSoon)) {
      trying_ = true;
      streamed_ = !streamed_;
    }
  }

  bool streamed_ = false, trying_ = false;
  uint32_t windows_ = kSoon - 1;  // since the last trial; the first one comes at once
  std::array<float, 2> paces_{};  // nanoseconds a byte, of either way
  size_t window_bytes_ = 0, count_ = 0;
  std::array<float, kJudgedBytes / kLeastBytes + 1> turns_{};
};

}  // namespace drlnet
