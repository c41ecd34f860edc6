// What every transport does, bare; over a faulty one, what it never does: change a frame.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "base/world.h"
#include "transport/variants.h"

namespace drlnet::test {
namespace {

// Sends frames of these lengths (tag = index) and lets `receiver` see each burst before the next.
void send_all(Transport& from, const Endpoint& to, std::span<const size_t> lengths, size_t burst,
              const std::function<void(size_t)>& after_burst) {
  for (size_t done = 0; done < lengths.size();) {
    const auto frames = from.reserve(std::min(burst, lengths.size() - done));
    REQUIRE(!frames.empty());
    for (size_t i = 0; i < frames.size(); ++i) {
      frames[i].to = to;
      frames[i].length = static_cast<uint32_t>(lengths[done + i]);
      fill({frames[i].data, lengths[done + i]}, done + i);
    }
    REQUIRE(from.send_burst(frames) == frames.size());
    done += frames.size();
    after_burst(frames.size());
  }
}

size_t longest_frame(Link& link) { return link.client->mtu(link.server_endpoint); }

// Bare: every frame arrives once, in order, byte for byte, when a burst fits the receive buffer
// (which may be small: net.core.rmem_max).
void expect_exact(Transport& from, const Endpoint& to, Transport& at,
                  std::span<const size_t> lengths, size_t burst) {
  size_t next = 0, wrong = 0;
  burst = std::min(burst, at.receive_capacity_bytes() / from.mtu(to));
  send_all(from, to, lengths, burst, [&](size_t sent) {
    const size_t came = receive(at, sent, [&](const RxFrame& frame) {
      wrong += frame.data.size() != lengths[next] || !holds(frame.data, next);
      ++next;
    });
    REQUIRE(came == sent);
  });
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("frames of every length from 1 to the longest arrive byte for byte") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    const size_t longest = longest_frame(link);
    std::vector<size_t> lengths;
    for (size_t length = 1; length <= longest; length += length < 1600 ? 1 : 31) {
      lengths.push_back(length);
    }
    lengths.push_back(longest);
    expect_exact(*link.client, link.server_endpoint, *link.server, lengths, 64);
    std::ranges::reverse(lengths);
    expect_exact(*link.client, link.server_endpoint, *link.server, lengths, 64);
  });
}

TEST_CASE("bursts of every size, of equal lengths, with a shorter and a longer last") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    const size_t longest = longest_frame(link);
    for (const size_t length : {size_t{1}, size_t{2}, size_t{64}, size_t{1015}, size_t{1232},
                                size_t{1472}, longest - 1, longest}) {
      for (size_t burst = 1; burst <= 64; burst = burst < 9 ? burst + 1 : burst * 2 - 3) {
        std::vector<size_t> lengths(burst, length);
        expect_exact(*link.client, link.server_endpoint, *link.server, lengths, 64);
        lengths.back() = 1;
        expect_exact(*link.client, link.server_endpoint, *link.server, lengths, 64);
        lengths.back() = longest;
        expect_exact(*link.client, link.server_endpoint, *link.server, lengths, 64);
      }
    }
  });
}

TEST_CASE("mixed lengths in random runs") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    Random random(20);
    std::vector<size_t> lengths;
    while (lengths.size() < 3000) {
      const size_t length = 1 + random.below(longest_frame(link));
      lengths.insert(lengths.end(), 1 + random.below(12), length);
    }
    for (const size_t burst : {1u, 7u, 64u}) {
      expect_exact(*link.client, link.server_endpoint, *link.server, lengths, burst);
    }
  });
}

TEST_CASE("many endpoints: a burst to all of them, each gets its own, from the expected sender") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    const auto server = start_listener(variant);
    std::vector<Connected> clients;
    std::vector<Endpoint> seen;
    for (size_t i = 0; i < variant.clients; ++i) {
      clients.push_back(start_client(variant, *server));
      send_one(*clients[i].transport, clients[i].server, i, 100);
      REQUIRE(receive(*server, 1, [&](const RxFrame& frame) {
                CHECK(holds(frame.data, i));
                seen.push_back(frame.from);
              }) == 1);
    }
    std::set<std::string> names;
    for (const Endpoint& endpoint : seen) names.insert(server->describe(endpoint));
    CHECK(names.size() == variant.clients);
    const auto frames = server->reserve(variant.clients);
    for (size_t i = 0; i < variant.clients; ++i) {
      frames[i].to = seen[i / 2 * 2];  // two equal frames in a row to every other client
      frames[i].length = 500;
      fill({frames[i].data, 500}, i);
    }
    REQUIRE(server->send_burst(frames) == variant.clients);
    for (size_t i = 0; i < variant.clients; i += 2) {
      size_t next = i;
      CHECK(receive(*clients[i].transport, 2, [&](const RxFrame& frame) {
              CHECK(frame.from == clients[i].server);
              CHECK(holds(frame.data, next++));
            }) == 2);
      CHECK(clients[i + 1].transport->recv_burst().empty());
    }
  });
}

TEST_CASE("a listener without a client promises no more room than its first one will find") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    const auto server = start_listener(variant);
    const size_t promised = server->receive_capacity_bytes();
    CHECK(promised > 0);
    const Connected client = start_client(variant, *server);
    CHECK(promised <= server->receive_capacity_bytes());
  });
}

TEST_CASE("a fresh client's first frame reaches a listener that waits") {
  for_each_variant(local_variants(), [](const Variant& variant) {
    const auto server = start_listener(variant);
    const Connected client = connect(server->local_address());
    send_one(*client.transport, client.server, 1, 64);
    CHECK(receive(*server, 1, [](const RxFrame& frame) { CHECK(holds(frame.data, 1)); }) == 1);
  });
}

TEST_CASE("received frames stay as they are until the next receive, whatever arrives") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    for (uint64_t i = 0; i < 20; ++i) send_one(*link.client, link.server_endpoint, i, 3000);
    REQUIRE(wait_readable(*link.server, now_ns() + kPatienceNs));
    const auto frames = link.server->recv_burst();
    REQUIRE(!frames.empty());
    for (uint64_t i = 0; i < 200; ++i) send_one(*link.client, link.server_endpoint, 1000 + i, 3000);
    for (size_t i = 0; i < frames.size(); ++i) CHECK(holds(frames[i].data, i));
  });
}

TEST_CASE("arm() wakes a waiting thread when a frame arrives") {
  for_each_variant(all_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    for (uint64_t round = 0; round < 50; ++round) {
      // The faulty link may lose some: the sender repeats until the receiver has one.
      std::atomic<bool> got{false};
      std::thread waiter([&] {
        got = receive(*link.server, 1, [](const RxFrame&) {}) > 0;
        got.notify_one();
      });
      const uint64_t deadline_ns = now_ns() + kPatienceNs;
      do {
        send_one(*link.client, link.server_endpoint, round, 64);
        link.client->recv_burst();  // lets a faulty line move on
      } while (variant.faulty && !got && now_ns() < deadline_ns);
      waiter.join();
      REQUIRE(got);
    }
  });
}

TEST_CASE("arm() after frames came reports them at once, and blocks when they are taken") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    const auto readable_now = [&] {
      const WaitPoint point = link.server->arm();
      if (point.fd < 0) return point.look_again_ns <= now_ns();
      pollfd entry{point.fd, POLLIN, 0};
      return poll(&entry, 1, 0) == 1;
    };
    // A listener with a link for each client may be woken for the new one as well.
    const auto blocks = [&] {
      const uint64_t end_ns = now_ns() + kPatienceNs;
      while (readable_now()) {
        if (now_ns() > end_ns || !link.server->recv_burst().empty()) return false;
      }
      return true;
    };
    CHECK(blocks());
    send_one(*link.client, link.server_endpoint, 1, 64);
    REQUIRE(wait_readable(*link.server, now_ns() + kPatienceNs));
    CHECK(readable_now());
    CHECK(link.server->recv_burst().size() == 1);
    CHECK(blocks());
    CHECK(link.server->recv_burst().empty());
  });
}

TEST_CASE("frames that are placed at their receiver come among the others, as long as they ended") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    send_one(*link.client, link.server_endpoint, 0, 100);
    Endpoint client;
    REQUIRE(receive(*link.server, 1, [&](const RxFrame& frame) { client = frame.from; }) == 1);
    const size_t longest = link.server->mtu(client);
    const auto send_placed = [&](uint64_t tag, size_t length) {
      const auto frames = link.server->reserve(1);
      frames[0].to = client;
      frames[0].length = static_cast<uint32_t>(longest);
      link.server->place(frames[0]);
      std::vector<std::byte> content(length);
      fill(content, tag);
      // The second half of a long one is lent.
      frames[0].length = static_cast<uint32_t>(length);
      frames[0].loans.clear();
      std::memcpy(frames[0].data, content.data(), length / 2);
      frames[0].loans.put(frames[0].data + length / 2, content.data() + length / 2,
                          length - length / 2);
      CHECK(link.server->send_burst(frames) == 1);
    };
    size_t next = 0, wrong = 0;
    const auto check = [&](const RxFrame& frame) { wrong += !holds(frame.data, next++); };
    for (uint64_t tag = 0; tag < 1200; tag += 3) {
      send_placed(tag, 1 + tag % longest);
      send_one(*link.server, client, tag + 1, longest);
      send_placed(tag + 2, longest);
      REQUIRE(receive(*link.client, 3, check) == 3);
    }
    CHECK(wrong == 0);
    // Where the receiver has no place left they are lost, like any.
    for (uint64_t tag = 0; tag < 4096; ++tag) send_placed(tag, longest);
    while (!link.client->recv_burst().empty()) {
    }
    send_placed(next, 100);
    CHECK(receive(*link.client, 1, check) == 1);
    CHECK(wrong == 0);
  });
}

TEST_CASE("reserving again drops what was not sent; an empty burst sends nothing") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    CHECK(link.client->reserve(1000).size() >= 64);
    CHECK(link.client->reserve(0).empty());
    CHECK(link.client->send_burst({}) == 0);
    fill({link.client->reserve(1)[0].data, 10}, 7);
    send_one(*link.client, link.server_endpoint, 8, 20);
    CHECK(receive(*link.server, 1, [](const RxFrame& frame) { CHECK(holds(frame.data, 8)); }) == 1);
    CHECK(link.server->recv_burst().empty());
  });
}

TEST_CASE("what the receive capacity promises is never lost, unread or read bit by bit") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    for (const size_t wanted :
         {size_t{64}, size_t{1024}, size_t{1472}, size_t{2100}, kJumboFrameBytes, kMaxFrameBytes}) {
      Link link = make_link(variant);
      const size_t length = std::min(wanted, longest_frame(link));
      size_t sent = 0, next = 0, wrong = 0;
      const auto send = [&](size_t count) {
        while (count-- > 0) send_one(*link.client, link.server_endpoint, sent++, length);
      };
      const auto check = [&](const RxFrame& frame) { wrong += !holds(frame.data, next++); };
      const size_t room = link.server->receive_capacity_bytes() / std::max(length, kMinFrameCharge);
      send(room);
      for (int round = 0; round < 100; ++round) {
        const auto frames = link.server->recv_burst();
        std::ranges::for_each(frames, check);
        send(frames.size());
      }
      receive(*link.server, room, check);
      CHECK(next == sent);
      CHECK(wrong == 0);
      CHECK(link.server->counters().receive_overflow == 0);
    }
  });
}

TEST_CASE("a receiver that never reads costs frames, not the sender") {
  for_each_variant(bare_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    const size_t count = 8 * link.server->receive_capacity_bytes() / kMaxFrameBytes;
    const std::vector<size_t> lengths(std::max<size_t>(count, 4096), longest_frame(link));
    send_all(*link.client, link.server_endpoint, lengths, 64, [](size_t) {});
    // Lost where the buffer is: at the receiver, or before a ring that both see.
    CHECK(link.server->counters().receive_overflow + link.client->counters().send_failed > 0);
    CHECK_FALSE(link.server->reliable());
    size_t came = 0;
    while (const size_t burst = link.server->recv_burst().size()) came += burst;
    CHECK(came < lengths.size());
    CHECK(came >= link.server->receive_capacity_bytes() / kMaxFrameBytes);
  });
}

TEST_CASE("a faulty link loses, doubles and reorders, but never changes a frame") {
  for_each_variant(all_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    constexpr size_t kFrames = 4000;
    std::map<uint64_t, size_t> seen;  // tag -> times
    uint64_t previous = 0, backwards = 0, wrong = 0;
    const std::vector<size_t> lengths(kFrames, 700);
    const auto drain = [&](size_t) {
      link.client->recv_burst();
      for (const RxFrame& frame : link.server->recv_burst()) {
        uint64_t tag;
        std::memcpy(&tag, frame.data.data(), sizeof tag);
        wrong += frame.data.size() != 700;
        ++seen[tag];
        backwards += tag < previous;
        previous = tag;
      }
    };
    for (uint64_t tag = 0; tag < kFrames; ++tag) {
      const auto frame = link.client->reserve(1);
      frame[0].to = link.server_endpoint;
      frame[0].length = 700;
      std::memcpy(frame[0].data, &tag, sizeof tag);
      REQUIRE(link.client->send_burst(frame) == 1);
      drain(1);
    }
    for (int i = 0; i < 4; ++i) drain(0);
    const auto doubled = std::ranges::count_if(seen, [](auto& entry) { return entry.second > 1; });
    CHECK(wrong == 0);
    if (variant.faulty) {  // two lines of 5% each: 0.0975 of the frames meet each fault
      CHECK(seen.size() == doctest::Approx(kFrames * 0.9025).epsilon(0.02));
      CHECK(doubled == doctest::Approx(kFrames * 0.088).epsilon(0.2));
      CHECK(backwards > kFrames / 50);
    } else {
      CHECK(seen.size() == kFrames);
      CHECK(doubled == 0);
      CHECK(backwards == 0);
    }
  });
}

}  // namespace drlnet::test
