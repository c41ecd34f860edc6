#include "replay/streams.h"

#include <doctest/doctest.h>

#include <vector>

namespace drlnet::test {
namespace {

struct Fixture {
  std::vector<uint32_t> ended;
  Streams streams{3, [this](Stream& stream) { ended.push_back(stream.epoch); }};
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "leases take the lowest free ordinal and a new epoch") {
  const Lease a = streams.lease(1, 0), b = streams.lease(1, 0), c = streams.lease(1, 0);
  CHECK(a.ordinal == 0);
  CHECK(b.ordinal == 1);
  CHECK(c.ordinal == 2);
  CHECK(a.token != b.token);
  CHECK(streams.leased_count() == 3);
  CHECK_THROWS_WITH_AS(streams.lease(1, 0), doctest::Contains("all 3 streams"), Error);
  CHECK(streams.release(b.ordinal, b.epoch, b.token));
  CHECK(ended.size() == 1);
  const Lease again = streams.lease(2, 0);
  CHECK(again.ordinal == 1);
  CHECK(again.epoch == b.epoch + 1);
  CHECK(again.next_step == 0);
  // The former holder is known by its epoch, and cannot end what is not its own.
  CHECK(streams.find(b.ordinal, b.epoch, b.token) == nullptr);
  CHECK(streams.find(b.ordinal, again.epoch, b.token) == nullptr);
  CHECK_FALSE(streams.release(b.ordinal, b.epoch, b.token));
  CHECK(streams.find(again.ordinal, again.epoch, again.token) != nullptr);
  CHECK(streams.find(17, 1, 1) == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "a stream is resumed from anywhere with its token, where it was") {
  const Lease lease = streams.lease(1, 0);
  streams.find(lease.ordinal, lease.epoch)->next_step = 42;
  const Lease resumed = streams.resume(lease.ordinal, lease.token, 2);
  CHECK(resumed.next_step == 42);
  CHECK(resumed.epoch == lease.epoch);
  CHECK(streams.at(lease.ordinal).holder == 2);
  CHECK_THROWS_AS(streams.resume(lease.ordinal, lease.token + 1, 2), Error);
  CHECK_THROWS_AS(streams.resume(99, lease.token, 2), Error);
  streams.release(lease.ordinal, lease.epoch, lease.token);
  CHECK_THROWS_AS(streams.resume(lease.ordinal, lease.token, 2), Error);
}

TEST_CASE_FIXTURE(Fixture, "orphans wait for their holder, then make room") {
  const Lease a = streams.lease(1, 0), b = streams.lease(1, 0);
  streams.lease(2, 0);
  streams.orphan(1, 1000);
  CHECK(streams.orphaned_count() == 2);
  CHECK(streams.leased_count() == 3);
  const uint64_t within = 1000 + Streams::kOrphanGraceNs, after = within + 1;
  CHECK_THROWS_AS(streams.lease(3, within), Error);
  // An append with the token adopts; one that names no session only uses the stream.
  CHECK(streams.find(a.ordinal, a.epoch, a.token) != nullptr);
  CHECK(streams.orphaned_count() == 2);
  CHECK(streams.find(a.ordinal, a.epoch, a.token, 4) != nullptr);
  CHECK(streams.orphaned_count() == 1);
  const Lease taken = streams.lease(3, after);
  CHECK(taken.ordinal == b.ordinal);
  CHECK(taken.epoch == b.epoch + 1);
  CHECK(ended.size() == 1);
  CHECK(streams.find(b.ordinal, b.epoch, b.token) == nullptr);
  CHECK_THROWS_AS(streams.lease(3, after), Error);
}

TEST_CASE_FIXTURE(Fixture,
                  "orphans make room where fewer streams are allowed than there could be") {
  constexpr uint64_t kMost = 2, kAfter = 1001 + Streams::kOrphanGraceNs;
  streams.lease(1, 0, kMost);
  streams.lease(1, 0, kMost);
  CHECK_FALSE(streams.has_room(1, kMost, 0));
  CHECK_THROWS_AS(streams.lease(2, 0, kMost), Error);
  streams.orphan(1, 1000);
  CHECK_FALSE(streams.has_room(1, kMost, 1000));
  CHECK(streams.has_room(2, kMost, kAfter));
  CHECK_FALSE(streams.has_room(3, kMost, kAfter));
  const Lease a = streams.lease(2, kAfter, kMost), b = streams.lease(2, kAfter, kMost);
  CHECK(a.ordinal + b.ordinal == 1);
  CHECK(ended.size() == 2);
  CHECK(streams.count() == 2);
  CHECK(streams.leased_count() == 2);
  CHECK_FALSE(streams.has_room(1, kMost, kAfter));
}

TEST_CASE_FIXTURE(Fixture, "a session that ends leaves behind what it holds then") {
  const Lease kept = streams.lease(1, 0), moved = streams.lease(1, 0), given = streams.lease(1, 0);
  streams.resume(moved.ordinal, moved.token, 2);
  streams.release(given.ordinal, given.epoch, given.token);
  const Lease others = streams.lease(2, 0);
  CHECK(others.ordinal == given.ordinal);
  streams.orphan(1, 1000);
  CHECK(streams.orphaned_count() == 1);
  CHECK(streams.at(kept.ordinal).holder == 0);
  streams.orphan(1, 1000);
  streams.orphan(2, 1000);
  CHECK(streams.orphaned_count() == 3);
  // Adopted, they are its own again.
  CHECK(streams.find(moved.ordinal, moved.epoch, moved.token, 1) != nullptr);
  streams.orphan(1, 2000);
  CHECK(streams.at(moved.ordinal).orphaned_at_ns == 2000);
  CHECK(streams.at(others.ordinal).orphaned_at_ns == 1000);
}

}  // namespace drlnet::test
