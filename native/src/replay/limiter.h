// Keeps draws and insertions of a table in proportion (as Reverb's rate limiter does, Cassirer et
// al., 2021): with r = samples_per_insert, the balance r * items_created - items_drawn stays within
// error_buffer of r * min_size. A queue gives each item's draws once. Threading: one thread.
#pragma once

#include <cstdint>

#include "spec/table_spec.h"
#include "spec/wait.h"

namespace drlnet {

// What a table holds: items that can be drawn, and in a queue how often all of them together.
struct Stock {
  uint64_t live_items = 0, draws_left = 0;
  bool operator==(const Stock&) const = default;
};

class Limiter {
 public:
  explicit Limiter(const LimiterSpec& spec) : spec_(spec) {}

  // Always true while a draw would wait for min_size: items that retired or that still wait for
  // rows count as created, and would otherwise block both sides.
  bool may_insert(uint64_t items, const Stock& stock) const;
  // least: draws that a queue must have left; more than `batch` where this is a part of more.
  Wait may_sample(uint64_t batch, uint64_t least, const Stock& stock) const;
  // Whether the reader of a queue waits for more items.
  bool short_of_batch(const Stock& stock) const { return stock.draws_left < spec_.batch; }
  void inserted(uint64_t items) { created_ += items; }
  void sampled(uint64_t draws) { drawn_ += draws; }
  uint64_t items_created() const { return created_; }
  uint64_t items_drawn() const { return drawn_; }

 private:
  // r * (items_created + inserts - min_size) - (items_drawn + draws).
  double balance(uint64_t inserts, uint64_t draws) const;

  LimiterSpec spec_;
  uint64_t created_ = 0, drawn_ = 0;
};

}  // namespace drlnet
