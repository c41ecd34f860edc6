#include "session/keys/sealing.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "wire/frame.h"

namespace drlnet {
namespace {

constexpr size_t kClearBytes = offsetof(FrameHeader, checksum);  // all but the tag behind it
constexpr size_t kSealedAt = offsetof(FrameHeader, lane);
static_assert(kSealedAt == kClearBytes + kTagBytes);

uint64_t packet_of(const std::byte* frame) {
  uint64_t packet;
  std::memcpy(&packet, frame + offsetof(FrameHeader, packet_number), sizeof packet);
  return packet;
}

}  // namespace

bool ReplayWindow::is_new(uint64_t packet) const {
  if (packet == 0 || packet + kPackets <= newest_) return false;
  if (packet > newest_) return true;
  return ((came_[packet / 64 % came_.size()] >> packet % 64) & 1) == 0;
}

void ReplayWindow::note(uint64_t packet) {
  if (packet > newest_) {
    const uint64_t steps = std::min(packet - newest_, kPackets);
    for (uint64_t i = packet - steps + 1; i <= packet; ++i) {
      came_[i / 64 % came_.size()] &= ~(uint64_t{1} << i % 64);
    }
    newest_ = packet;
  }
  came_[packet / 64 % came_.size()] |= uint64_t{1} << packet % 64;
}

// Noise's REKEY(): what this key makes of zeros, under a nonce that no packet has.
Sealing::Chain Sealing::Chain::next(Suite suite) const {
  const Key zeros{};
  Chain following{.key = {}, .epoch = epoch + 1};
  std::array<std::byte, kTagBytes> tag;
  Aead aead(suite, key, Aead::Side::seals);
  aead.begin(UINT64_MAX, {});
  aead.piece(following.key.data(), zeros.data(), zeros.size());
  aead.end(tag.data());
  return following;
}

Sealing::Sealing(Suite suite, const SessionKeys& keys, Side side, uint32_t packet_bits)
    : suite_(suite),
      packet_bits_(packet_bits),
      sending_{.key = side == Side::client ? keys.to_server : keys.to_client},
      receiving_{.key = side == Side::client ? keys.to_client : keys.to_server},
      coming_(receiving_),
      seal_(suite, sending_.key, Aead::Side::seals),
      now_(std::in_place, suite, receiving_.key, Aead::Side::opens) {}

void Sealing::seal(TxFrame& frame) {
  const uint64_t packet = packet_of(frame.data), epoch = packet >> packet_bits_;
  DRLNET_ASSERT(packet != 0 && epoch >= sending_.epoch);
  while (sending_.epoch < epoch) {
    sending_ = sending_.next(suite_);
    seal_ = Aead(suite_, sending_.key, Aead::Side::seals);
  }
  frame.data[offsetof(FrameHeader, kind)] |= std::byte{kSealedBit};
  seal_.begin(packet, {frame.data, kClearBytes});
  std::byte* at = frame.data + kSealedAt;
  for (const Loan& loan : frame.loans.all()) {
    seal_.piece(at, at, static_cast<size_t>(loan.place - at));
    seal_.piece(loan.place, loan.from, loan.bytes);
    at = loan.place + loan.bytes;
  }
  seal_.piece(at, at, static_cast<size_t>(frame.data + frame.length - at));
  seal_.end(frame.data + kClearBytes);
  frame.loans.clear();
}

Sealing::Opened Sealing::open(std::span<const std::byte> frame, std::byte* out) {
  if (frame.size() < kHeaderBytes || frame.size() > kMaxFrameBytes || !is_sealed(frame)) {
    return Opened::forged;
  }
  const uint64_t packet = packet_of(frame.data()), epoch = packet >> packet_bits_;
  if (!window_.is_new(packet)) return Opened::replayed;
  Aead* aead = key_for(epoch);
  if (aead == nullptr || !open_with(*aead, frame, packet, out)) return Opened::forged;
  if (next_ && aead == &*next_) move_on();
  window_.note(packet);
  return Opened::whole;
}

bool Sealing::open_with(Aead& aead, std::span<const std::byte> frame, uint64_t packet,
                        std::byte* out) {
  aead.begin(packet, frame.first(kClearBytes));
  aead.piece(out + kSealedAt, frame.data() + kSealedAt, frame.size() - kSealedAt);
  if (!aead.end_with(frame.data() + kClearBytes)) return false;
  std::memcpy(out, frame.data(), kClearBytes);
  std::memset(out + kClearBytes, 0, kTagBytes);
  out[offsetof(FrameHeader, kind)] &= ~std::byte{kSealedBit};
  return true;
}

// Null for those that are too far off.
Aead* Sealing::key_for(uint64_t epoch) {
  if (epoch == receiving_.epoch) return &*now_;
  if (epoch + 1 == receiving_.epoch) return before_ ? &*before_ : nullptr;
  if (epoch != receiving_.epoch + 1) return nullptr;
  if (!next_) {
    coming_ = receiving_.next(suite_);
    next_.emplace(suite_, coming_.key, Aead::Side::opens);
  }
  return &*next_;
}

void Sealing::move_on() {
  before_ = std::exchange(now_, std::exchange(next_, std::nullopt));
  receiving_ = coming_;
}

bool Sealing::is_sealed(std::span<const std::byte> frame) {
  constexpr size_t kAt = offsetof(FrameHeader, kind);
  return frame.size() > kAt && (frame[kAt] & std::byte{kSealedBit}) != std::byte{0};
}

}  // namespace drlnet
