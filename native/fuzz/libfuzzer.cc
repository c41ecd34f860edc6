#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  drlnet::fuzz::run(std::as_bytes(std::span(data, size)));
  return 0;
}

// Without a corpus libFuzzer starts from nothing; now and then it goes on from a valid input.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  static const auto seeds = drlnet::fuzz::seeds();
  if (seed % 64 == 0) {
    const auto& chosen = seeds[seed / 64 % seeds.size()];
    size = std::min(chosen.size(), max_size);
    std::memcpy(data, chosen.data(), size);
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
