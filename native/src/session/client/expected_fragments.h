// The fragments of a reply that are expected next, for a transport that can receive each where it
// belongs. No allocation but in the constructor.
#pragma once

#include <vector>

#include "session/client/destination.h"
#include "session/fragments.h"
#include "transport/expected.h"

namespace drlnet {

class ExpectedFragments {
 public:
  ExpectedFragments() {
    frames_.reserve(kMostFragments);
    offsets_.reserve(kMostFragments);
    parts_.reserve(kMostParts);
  }

  // At most most_bytes of those that are missing of the first `asked` bytes, from fragment
  // `from` on, or from the first one on where those are all there.
  void find(const Fragments& received, uint32_t asked, uint32_t from, const Destination& to,
            size_t most_bytes);
  bool empty() const { return frames_.empty(); }
  std::span<const Expected::Frame> frames() const { return frames_; }
  uint32_t offset(size_t index) const { return offsets_[index]; }  // of its bytes in the reply

 private:
  static constexpr size_t kMostFragments = 64, kMostParts = 160;
  // Shorter parts cost more than the copy that they save.
  static constexpr size_t kMinPartBytes = 1024;

  bool add(const Destination& to, uint32_t offset, uint32_t bytes);

  std::vector<Expected::Frame> frames_;
  std::vector<uint32_t> offsets_;
  std::vector<std::span<std::byte>> parts_;
};

}  // namespace drlnet
