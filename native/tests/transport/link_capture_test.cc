// Frames that we write, as a capture for other programs to judge: DRLNET_LINK_CAPTURE=FILE names
// where it goes (tests/test_native.py lets tshark read it).
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "transport/link_frames.h"

namespace drlnet::link::test {
namespace {

// The classic format of libpcap: a header, then each frame behind one of its own.
class Capture {
 public:
  explicit Capture(const char* path) : file_(path, std::ios::binary) {
    constexpr uint32_t kMagic = 0xa1b2c3d4, kLongest = 65535, kEthernet = 1;
    put(kMagic);
    put(uint16_t{2});
    put(uint16_t{4});
    put(uint32_t{0});
    put(uint32_t{0});
    put(kLongest);
    put(kEthernet);
  }
  void add(const Frame& frame) {
    REQUIRE(!frame.empty());
    put(++count_);  // seconds
    put(uint32_t{0});
    put(static_cast<uint32_t>(frame.size()));
    put(static_cast<uint32_t>(frame.size()));
    file_.write(reinterpret_cast<const char*>(frame.data()),
                static_cast<std::streamsize>(frame.size()));
  }
  bool good() { return file_.flush().good(); }
  uint32_t count() const { return count_; }

 private:
  template <typename Number>
  void put(Number number) {
    file_.write(reinterpret_cast<const char*>(&number), sizeof number);
  }
  std::ofstream file_;
  uint32_t count_ = 0;
};

}  // namespace

TEST_CASE("the frames that we write go into a capture") {
  const char* path = std::getenv("DRLNET_LINK_CAPTURE");
  Capture capture(path == nullptr ? "/dev/null" : path);
  for (const bool v4 : {true, false}) {
    const Host a = host_a(v4), b = host_b(v4);
    capture.add(announcement(a));
    capture.add(question(a, b.ip));
    capture.add(answer(question(a, b.ip), b));
    capture.add(answer(golden(v4 ? "ping v4" : "ping v6"), b));
    for (const size_t length : {0, 1, 64, 1024, 1431, 7000, 8968}) {
      Frame payload(length);
      for (size_t i = 0; i < length; ++i) payload[i] = static_cast<std::byte>(i * 31);
      capture.add(datagram(path_to_b(v4), payload));
    }
    capture.add(datagram(path_to_b(v4), Frame(64), Checksums::none));
  }
  CHECK(capture.count() == 24);
  CHECK(capture.good());
}

}  // namespace drlnet::link::test
