#include "session/seal.h"

#include <cstring>

#include "base/crc32c.h"
#include "wire/frame.h"

namespace drlnet {
namespace {

constexpr size_t kAt = offsetof(FrameHeader, checksum);
constexpr size_t kBehind = kAt + sizeof(uint32_t);

}  // namespace

void seal(const TxFrame& frame) {
  uint32_t sum = crc32c({frame.data, kAt});
  const std::byte* at = frame.data + kBehind;
  for (const Loan& loan : frame.loans.all()) {
    sum = crc32c({at, static_cast<size_t>(loan.place - at)}, sum);
    sum = crc32c({loan.from, loan.bytes}, sum);
    at = loan.place + loan.bytes;
  }
  sum = crc32c({at, static_cast<size_t>(frame.data + frame.length - at)}, sum);
  std::memcpy(frame.data + kAt, &sum, sizeof sum);
}

bool intact(std::span<const std::byte> frame, std::span<const std::span<std::byte>> placed) {
  if (frame.size() < kHeaderBytes) return false;
  uint32_t sum = crc32c(frame.subspan(kBehind), crc32c(frame.first(kAt)));
  for (const auto part : placed) sum = crc32c(part, sum);
  return std::memcmp(frame.data() + kAt, &sum, sizeof sum) == 0;
}

bool sealed(std::span<const std::byte> frame) {
  uint32_t sum = 0;
  if (frame.size() >= kHeaderBytes) std::memcpy(&sum, frame.data() + kAt, sizeof sum);
  return sum != 0;
}

}  // namespace drlnet
