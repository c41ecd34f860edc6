#include "session/client/expected_fragments.h"

namespace drlnet {

void ExpectedFragments::find(const Fragments& received, uint32_t asked, uint32_t from,
                             const Destination& to, size_t most_bytes) {
  frames_.clear();
  offsets_.clear();
  parts_.clear();
  const auto missing = [&](uint32_t index) {
    while (index < received.count() && received.offset_of(index) < asked && received.has(index)) {
      ++index;
    }
    return index;
  };
  const auto end = [&](uint32_t index) {
    return index >= received.count() || received.offset_of(index) >= asked;
  };
  uint32_t next = missing(from);
  if (end(next)) next = missing(0);
  for (size_t bytes = 0; !end(next) && frames_.size() < kMostFragments; next = missing(next + 1)) {
    const uint32_t length = received.length_of(next);
    bytes += kHeaderBytes + length;
    if (bytes > most_bytes || !add(to, received.offset_of(next), length)) return;
  }
}

bool ExpectedFragments::add(const Destination& to, uint32_t offset, uint32_t bytes) {
  const size_t first = parts_.size();
  if (!to.locate(offset, bytes, parts_)) return false;
  const size_t count = parts_.size() - first;
  if (count > 1 + bytes / kMinPartBytes) return false;
  frames_.push_back({{parts_.data() + first, count}, bytes});
  offsets_.push_back(offset);
  return true;
}

}  // namespace drlnet
