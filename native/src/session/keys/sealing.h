// Frames of one session, sealed as they leave and opened as they come. A frame's first 16 bytes
// stay clear and are authenticated, the next 16 are its tag, all others are encrypted; its packet
// number is the nonce (PROTOCOL.md, "Keys"). Threading: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "session/keys/noise.h"
#include "transport/transport.h"

namespace drlnet {

// Which of the newest packet numbers have come.
class ReplayWindow {
 public:
  static constexpr uint64_t kPackets = 2048;

  // Whether this one has not come, and is not too old for that to be known.
  bool is_new(uint64_t packet) const;
  void note(uint64_t packet);  // is_new()

 private:
  uint64_t newest_ = 0;  // packets are counted from 1
  std::array<uint64_t, kPackets / 64> came_{};
};

class Sealing {
 public:
  // As many packets are sealed with one key, which then makes the next one. AES-GCM's bound for the
  // longest frames is 2^22 for a chance of 2^-60 to tell them from noise (RFC 9001, appendix B).
  static constexpr uint32_t kPacketBits = 22;

  enum class Side : uint8_t { client, server };
  enum class Opened : uint8_t { whole, forged, replayed };

  Sealing(Suite suite, const SessionKeys& keys, Side side, uint32_t packet_bits = kPacketBits);

  // Once for each frame: again it would be opened. What it was lent is read from where it lies.
  void seal(TxFrame& frame);
  // Into `out`, of the same length, as it was before it was sealed.
  Opened open(std::span<const std::byte> frame, std::byte* out);

  static bool is_sealed(std::span<const std::byte> frame);

 private:
  // A key and those that follow from it.
  struct Chain {
    Key key;
    uint64_t epoch = 0;
    Chain next(Suite suite) const;
  };
  bool open_with(Aead& aead, std::span<const std::byte> frame, uint64_t packet, std::byte* out);
  Aead* key_for(uint64_t epoch);
  void move_on();

  Suite suite_;
  uint32_t packet_bits_;
  Chain sending_, receiving_, coming_;
  Aead seal_;
  // Packets overtake each other where a key gives way to the next.
  std::optional<Aead> before_, now_, next_;
  ReplayWindow window_;
};

}  // namespace drlnet
