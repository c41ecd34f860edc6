// Table specifications: what decodes encodes to the same bytes, and what passes the check makes a
// table.
#include "base/assert.h"
#include "base/error.h"
#include "fuzz.h"
#include "raw_session.h"
#include "replay/table.h"

namespace drlnet::fuzz {

std::vector<Bytes> seeds() {
  std::vector<Bytes> list(2);
  TableSpec spec = small_table();
  encode(spec, list[0]);
  spec.item.boundary = Boundary::cross;
  spec.item.period = 4;
  spec.sampler.options = {{"first", 1.0}, {"second", -2.0}};
  spec.limiter.samples_per_insert = 4;
  spec.limiter.error_buffer = 1e6;
  encode(spec, list[1]);
  return list;
}

void run(std::span<const std::byte> input) {
  const Bytes bytes = exact(input);
  TableSpec spec;
  if (!decode(bytes, spec)) return;
  Bytes again;
  encode(spec, again);
  TableSpec same;
  DRLNET_ASSERT(decode(again, same));
  try {
    check(spec);
    DRLNET_ASSERT(!compare(spec, same));
    if (Table::memory_bytes(spec) < (4 << 20)) Table(spec, 0, 1);
  } catch (const Error& error) {
    DRLNET_ASSERT(!error.cause().empty());
  }
}

}  // namespace drlnet::fuzz
