// Keeps draws and insertions of a table in proportion (as Reverb's rate limiter does, Cassirer et
// al., 2021): with r = samples_per_insert, the balance r * items_created - items_drawn stays within
// error_buffer of r * min_size. Threading: one thread.
#pragma once

#include <cstdint>

#include "wire/table_spec.h"

namespace drlnet {

// Why a request waits; travels in PENDING.
enum class Wait : uint16_t {
  none = 0,
  min_size = 1,       // fewer live items than min_size
  samples_limit = 2,  // draws are ahead: waits for insertions
  inserts_limit = 3,  // insertions are ahead: waits for draws
};

class Limiter {
 public:
  explicit Limiter(const LimiterSpec& spec) : spec_(spec) {}

  bool may_insert(uint64_t items) const;
  Wait may_sample(uint64_t batch, uint64_t live_items) const;
  void inserted(uint64_t items) { created_ += items; }
  void sampled(uint64_t draws) { drawn_ += draws; }
  uint64_t items_created() const { return created_; }
  uint64_t items_drawn() const { return drawn_; }

 private:
  LimiterSpec spec_;
  uint64_t created_ = 0, drawn_ = 0;
};

}  // namespace drlnet
