#include "base/random.h"

#include <sys/random.h>

#include "base/assert.h"

namespace drlnet {

uint64_t random_secret() {
  uint64_t value = 0;
  DRLNET_ASSERT(getrandom(&value, sizeof value, 0) == sizeof value);
  return value;
}

}  // namespace drlnet
