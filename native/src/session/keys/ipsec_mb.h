// AES-256-GCM by intel-ipsec-mb: the bytes that OpenSSL makes, in a fifth of its time for a frame
// of 64 B and two thirds for one of 1,400 B. It is loaded, not linked: drlnet needs its header as
// it is built and its library as it runs, and takes OpenSSL where either is missing. Threading: one
// thread for each object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "session/keys/crypto.h"

namespace drlnet {

class IpsecMb {
 public:
  static bool is_there();

  explicit IpsecMb(const Key& key);  // is_there()
  // The steps of an Aead (crypto.h), which says each time whether it seals or opens.
  void begin(std::span<const uint8_t, 12> nonce, std::span<const std::byte> associated);
  void piece(bool seals, std::byte* to, const std::byte* from, size_t bytes);
  void end(bool seals, std::byte* tag);

 private:
  struct State;
  struct Free {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, Free> state_;
};

}  // namespace drlnet
