// Frames of which parts lie elsewhere arrive as if they did not, and what was lent is read by the
// burst that takes the frame, not later: here it is freed at once behind it.
#include <algorithm>
#include <map>
#include <utility>

#include "base/world.h"
#include "transport/variants.h"

namespace drlnet::test {
namespace {

// Memory that other frames borrow from, of a size and at places that vary.
struct Lender {
  std::vector<std::unique_ptr<std::byte[]>> lent;

  // The frame's content, part of it lent: up to `pieces` pieces of `piece` bytes with `gap` bytes
  // of its own between them, the first behind `head` bytes.
  void fill_frame(TxFrame& frame, size_t length, uint64_t tag, size_t head, size_t piece,
                  size_t gap) {
    std::array<std::byte, kMaxFrameBytes> content;
    fill(std::span(content).first(length), tag);
    frame.length = static_cast<uint32_t>(length);
    frame.loans.clear();
    size_t at = 0;
    const auto own = [&](size_t bytes) {
      bytes = std::min(bytes, length - at);
      std::memcpy(frame.data + at, content.data() + at, bytes);
      at += bytes;
    };
    own(head);
    while (at < length) {
      const size_t bytes = std::min(piece, length - at);
      lent.push_back(std::make_unique<std::byte[]>(bytes));
      std::memcpy(lent.back().get(), content.data() + at, bytes);
      std::memset(frame.data + at, 0xEE, bytes);  // what lies there is not sent
      frame.loans.put(frame.data + at, lent.back().get(), bytes);
      at += bytes;
      own(gap);
    }
  }
  // What still reads it sees something else, or is told by the address sanitizer.
  void take_back(std::span<TxFrame> frames) {
    for (TxFrame& frame : frames) frame.loans.clear();
    for (const auto& memory : lent) memory[0] ^= std::byte{0xFF};
    lent.clear();
  }
};

struct Shape {
  size_t head, piece, gap;
};
// Many pieces, so many that the last ones are copied; odd places; a whole frame but its header; one
// piece too short to be lent.
constexpr Shape kShapes[] = {{64, 512, 0},   {64, 1024, 1},           {64, 1024, 0}, {1, 1500, 333},
                             {65, 2049, 77}, {64, kMaxFrameBytes, 0}, {64, 1023, 9}};

Endpoint endpoint_of_client(Link& link) {
  Endpoint client;
  bool known = false;
  for (const uint64_t end = now_ns() + kPatienceNs; !known && now_ns() < end;) {
    send_one(*link.client, link.server_endpoint, 0, 64);
    link.client->recv_burst();  // lets a faulty line move on
    for (const RxFrame& frame : link.server->recv_burst()) {
      client = frame.from;
      known = true;
    }
  }
  REQUIRE(known);
  return client;
}

uint64_t first_word(std::span<const std::byte> data) {
  uint64_t word;
  std::memcpy(&word, data.data(), sizeof word);
  return word;
}

// Bursts of every shape and of several lengths; returns how many frames came, each of them checked.
size_t lend_and_check(Transport& from, const Endpoint& to, Transport& at, bool faulty) {
  const size_t longest = from.mtu(to);
  const size_t burst = std::min<size_t>(at.receive_capacity_bytes() / longest, 40);
  Lender lender;
  uint64_t tag = 1;
  size_t came = 0;
  for (const Shape& shape : kShapes) {
    for (const size_t length : {longest, longest - 1, longest / 2}) {
      std::map<uint64_t, std::pair<uint64_t, size_t>> sent;  // by its first word: tag, length
      const auto frames = from.reserve(burst);
      REQUIRE(frames.size() == burst);
      for (TxFrame& frame : frames) {
        frame.to = to;
        const size_t of_this = &frame == &frames.back() ? longest / 3 : length;
        lender.fill_frame(frame, of_this, tag, shape.head, shape.piece, shape.gap);
        std::array<std::byte, kMaxFrameBytes> content;
        fill(std::span(content).first(of_this), tag);
        sent[first_word(content)] = {tag++, of_this};
      }
      REQUIRE(from.send_burst(frames) == burst);
      lender.take_back(frames);
      const auto check = [&](const RxFrame& frame) {
        const auto found = sent.find(first_word(frame.data));
        if (found == sent.end()) return;  // one of endpoint_of_client's
        CHECK(frame.data.size() == found->second.second);
        CHECK(holds(frame.data, found->second.first));
        ++came;
      };
      if (!faulty) {
        CHECK(receive(at, burst, check) == burst);
        continue;
      }
      for (int look = 0; look < 3; ++look) {
        from.recv_burst();
        std::ranges::for_each(at.recv_burst(), check);
      }
    }
  }
  return came;
}

}  // namespace

TEST_CASE("what was lent is sent in its place, and given back when the burst has gone") {
  for_each_variant(all_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    const Endpoint client = endpoint_of_client(link);
    while (!link.server->recv_burst().empty()) {
    }
    const size_t to_server =
        lend_and_check(*link.client, link.server_endpoint, *link.server, variant.faulty);
    // So much that a link that has two ways of copying has used both.
    size_t to_client = 0;
    for (int i = 0; i < (variant.faulty ? 1 : 3); ++i) {
      to_client += lend_and_check(*link.server, client, *link.client, variant.faulty);
    }
    CHECK(to_server > 0);
    CHECK(to_client > 0);
  });
}

}  // namespace drlnet::test
