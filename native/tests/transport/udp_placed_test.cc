// What kernel UDP receives where it is expected, and what comes instead.
#include <algorithm>
#include <vector>

#include "base/random.h"
#include "base/world.h"
#include "transport/variants.h"

namespace drlnet::test {
namespace {

constexpr size_t kHead = 64, kLength = 5000, kGap = 16;
constexpr std::byte kUntouched{0xA5};

// Frames of one length but for the last; what follows the head of each lies in two parts, with gaps
// around them.
class Reply {
 public:
  Reply(size_t count, size_t last) : received_(count) {
    memory_.resize(count * kStride, kUntouched);
    parts_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      frames_.emplace_back(i + 1 < count ? kLength : last);
      fill(frames_[i], i);
      const size_t bytes = frames_[i].size() - kHead, first = std::min<size_t>(bytes, 1000);
      std::byte* place = memory_.data() + i * kStride + kGap;
      parts_[i].emplace_back(place, first);
      if (bytes > first) parts_[i].emplace_back(place + first + kGap, bytes - first);
    }
  }

  // Those of the missing ones from `next` on are expected. Returns how many frames came.
  size_t receive(Transport& transport, size_t next = 0) {
    std::vector<size_t> indices;
    std::vector<Expected::Frame> frames;
    for (size_t i = next; i < frames_.size() && frames.size() < 9; ++i) {
      if (received_[i]) continue;
      indices.push_back(i);
      frames.push_back({parts_[i], frames_[i].size() - kHead});
    }
    const auto is = [&](size_t index, std::span<const std::byte> head) {
      return begins(indices[index], head);
    };
    const auto burst = transport.recv_placed({kHead, frames, is});
    size_t placed = 0;
    for (const RxFrame& frame : burst) {
      if (frame.placed_bytes == 0) {
        copy(frame.data);
        continue;
      }
      REQUIRE(frame.data.size() == kHead);
      REQUIRE(begins(indices[placed], frame.data));
      REQUIRE(frame.placed_bytes == frames[placed].bytes);
      received_[indices[placed++]] = true;
    }
    placed_ += placed;
    return burst.size();
  }

  // Every received frame is in its place, and nothing lies between them.
  void check() const {
    for (size_t i = 0; i < frames_.size(); ++i) {
      size_t at = kHead;
      for (const auto part : parts_[i]) {
        const auto whole = std::span(frames_[i]).subspan(at, part.size());
        REQUIRE((!received_[i] || std::ranges::equal(part, whole)));
        at += part.size();
      }
    }
    std::vector<std::byte> between = memory_;
    for (const auto& parts : parts_) {
      for (const auto part : parts) {
        std::fill_n(between.begin() + (part.data() - memory_.data()), part.size(), kUntouched);
      }
    }
    REQUIRE(std::ranges::count(between, kUntouched) == static_cast<ptrdiff_t>(between.size()));
  }

  std::span<const std::byte> frame(size_t index) const { return frames_[index]; }
  size_t placed() const { return placed_; }
  size_t strays() const { return strays_; }
  static constexpr uint64_t kStray = 1000;  // the tag of frames that are not ours
  size_t received() const { return static_cast<size_t>(std::ranges::count(received_, true)); }

 private:
  static constexpr size_t kStride = kLength + 2 * kGap;

  bool begins(size_t index, std::span<const std::byte> head) const {
    return std::ranges::equal(head, std::span(frames_[index]).first(kHead));
  }
  void copy(std::span<const std::byte> data) {
    for (size_t i = 0; i < frames_.size(); ++i) {
      if (!std::ranges::equal(data, frames_[i])) continue;
      auto from = data.subspan(kHead);
      for (const auto part : parts_[i]) {
        std::ranges::copy(from.first(part.size()), part.begin());
        from = from.subspan(part.size());
      }
      received_[i] = true;
      return;
    }
    CHECK(holds(data, kStray));  // whole, too
    ++strays_;
  }

  size_t placed_ = 0, strays_ = 0;
  std::vector<bool> received_;
  std::vector<std::byte> memory_;
  std::vector<std::vector<std::byte>> frames_;
  std::vector<std::vector<std::span<std::byte>>> parts_;
};

struct Sent {
  std::vector<std::byte> bytes;
  bool apart;
};

void send(Link& link, const std::vector<Sent>& burst) {
  const auto frames = link.client->reserve(burst.size());
  REQUIRE(frames.size() == burst.size());
  for (size_t i = 0; i < burst.size(); ++i) {
    frames[i].to = link.server_endpoint;
    frames[i].length = static_cast<uint32_t>(burst[i].bytes.size());
    frames[i].apart = burst[i].apart;
    std::ranges::copy(burst[i].bytes, frames[i].data);
  }
  REQUIRE(link.client->send_burst(frames) == frames.size());
}

Sent sent(std::span<const std::byte> bytes, bool apart = false) {
  return {{bytes.begin(), bytes.end()}, apart};
}

Link udp_link() { return make_link({"udp", "udp://127.0.0.1:0"}); }

}  // namespace

TEST_CASE("frames that come as they are expected lie in their places, joined or apart") {
  for (const bool apart : {false, true}) {
    for (const size_t last : {size_t{65}, size_t{1500}, kLength}) {
      CAPTURE(apart);
      CAPTURE(last);
      Link link = udp_link();
      Reply reply(9, last);
      std::vector<Sent> burst;
      for (size_t i = 0; i < 9; ++i) burst.push_back(sent(reply.frame(i), apart));
      send(link, burst);
      while (reply.received() < 9) {
        if (reply.receive(*link.server) == 0)
          REQUIRE(wait_readable(*link.server, now_ns() + kPatienceNs));
      }
      CHECK(reply.placed() == 9);
      reply.check();
    }
  }
}

TEST_CASE("what comes instead of an expected frame is whole, and nothing else is written") {
  size_t placed = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Link link = udp_link();
    Reply reply(30, 65 + random.below(kLength - 64));
    size_t frames = 0, strays = 0;
    for (int round = 0; round < 12; ++round) {
      std::vector<Sent> burst;
      const size_t first = random.below(30);
      for (size_t next = first, left = 1 + random.below(12); left > 0; --left) {
        const bool apart = random.below(4) == 0;
        const size_t what = random.below(16);
        if (what == 0) {  // of another length, or of this one
          std::vector<std::byte> stray(random.below(2) ? kLength : 1 + random.below(8000));
          fill(stray, Reply::kStray);
          burst.push_back({stray, apart});
          ++strays;
          continue;
        }
        if (what == 1) next = random.below(30);
        if (what != 2) burst.push_back(sent(reply.frame(next % 30), apart));
        if (what != 3) ++next;
      }
      if (burst.empty()) continue;
      frames += burst.size();
      send(link, burst);
      while (frames > 0) {
        const size_t came = reply.receive(*link.server, random.below(4) ? first : 0);
        if (came == 0) REQUIRE(wait_readable(*link.server, now_ns() + kPatienceNs));
        frames -= came;
        reply.check();
      }
    }
    CHECK(reply.strays() == strays);
    placed += reply.placed();
  }
  CHECK(placed > 500);
}

TEST_CASE("places are worth a call for each message while messages are long") {
  Link link = udp_link();
  CHECK(link.server->placed_most_bytes() == 0);
  const Reply reply(9, kLength);
  const auto take = [&](size_t count) {
    CHECK(receive(*link.server, count, [](const RxFrame&) {}) == count);
  };
  std::vector<Sent> burst;
  for (size_t i = 0; i < 9; ++i) burst.push_back(sent(reply.frame(i)));
  send(link, burst);
  take(9);
  CHECK(link.server->placed_most_bytes() > 0);
  send(link, {burst[0]});
  take(1);
  CHECK(link.server->placed_most_bytes() > 0);
  for (int i = 0; i < 10; ++i) {
    send(link, {burst[0]});
    take(1);
  }
  CHECK(link.server->placed_most_bytes() == 0);
}

}  // namespace drlnet::test
