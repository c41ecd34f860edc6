#include "measure/ring.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/error.h"

namespace drlnet::measure {
namespace {

struct MemoryFile {
  int fd = memfd_create("ring", MFD_CLOEXEC);
  MemoryFile() { REQUIRE(ftruncate(fd, static_cast<off_t>(RingPair::file_bytes())) == 0); }
  ~MemoryFile() { close(fd); }
};

TEST_CASE("a ring's echo answers every ping with what was sent") {
  const MemoryFile file;
  RingPair here(file.fd), there(file.fd);
  size_t echoed = 0;
  std::atomic<bool> stop = false;
  std::thread echo([&] {
    while (!stop) echoed += there.echo(1'000'000);
  });
  std::vector<uint64_t> latencies(200);
  size_t count = 0;
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{1024}, Ring::kMaxBytes}) {
    count += here.pings(bytes, {latencies, 100'000'000});
  }
  stop = true;
  echo.join();
  CHECK(count > 0);
  CHECK(echoed == count);
  CHECK(std::ranges::all_of(latencies, [](uint64_t ns) { return ns < 1'000'000'000; }));
}

TEST_CASE("a ping of a ring gives up without an answer") {
  const MemoryFile file;
  RingPair here(file.fd);
  std::vector<uint64_t> latencies(1);
  CHECK_THROWS_AS(here.pings(64, {latencies, 10'000'000'000}), Error);
}

TEST_CASE("a ring hands messages over in order and says when it is full") {
  auto ring = std::make_unique<Ring>();
  std::array<std::byte, Ring::kMaxBytes> out;
  size_t length = 0, pushed = 0;
  CHECK_FALSE(ring->pop(out, length));
  std::vector<std::byte> message;
  while (ring->push(message)) {
    ++pushed;
    message.assign(pushed, static_cast<std::byte>(pushed));
  }
  for (size_t i = 0; i < pushed; ++i) {
    REQUIRE(ring->pop(out, length));
    CHECK(length == i);
    CHECK((length == 0 || out[length - 1] == static_cast<std::byte>(i)));
  }
  CHECK_FALSE(ring->pop(out, length));
}

TEST_CASE("another descriptor than a memory file's is refused") {
  CHECK_THROWS_AS(RingPair(-1), Error);
}

}  // namespace
}  // namespace drlnet::measure
