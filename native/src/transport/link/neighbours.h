// The MAC addresses of the hosts on a link. Threading: one thread. No allocation after it is made.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/link/address.h"

namespace drlnet::link {

class Neighbours {
 public:
  static constexpr size_t kCapacity = 1024;  // beyond, the one heard of longest ago makes place
  static constexpr uint64_t kAskAgainNs = 100'000'000;  // between questions for one address
  // An entry not confirmed for so long is asked for again, and used until the answer comes.
  static constexpr uint64_t kStaleNs = 30'000'000'000;

  struct Answer {
    const MacAddress* mac;  // null: not known yet
    bool ask;               // it is time to ask (again)
  };

  Neighbours();
  // O(1) expected. `ask` is true at most once in kAskAgainNs for an address. `mac` is good until
  // the next call.
  Answer find(const IpAddress& ip, uint64_t now_ns);
  // Heard from that host: by an answer, a question or a datagram. An address that no host can have
  // (a probe's, a group's) is ignored.
  void heard(const IpAddress& ip, const MacAddress& mac, uint64_t now_ns);
  void forget_all();
  size_t size() const { return size_; }

 private:
  static constexpr int kBucketBits = 11;
  static constexpr size_t kBuckets = size_t{1} << kBucketBits;
  static constexpr uint16_t kNone = 0xffff;
  static_assert(kCapacity < kNone);

  struct Entry {
    IpAddress ip;
    MacAddress mac;
    bool resolved = false, asked = false;
    uint64_t heard_ns = 0, asked_ns = 0;
    uint16_t next_in_bucket = kNone;
    uint16_t newer = kNone, older = kNone;  // in the order in which they were heard of
  };

  uint16_t& bucket_of(const IpAddress& ip);
  uint16_t look_up(const IpAddress& ip);
  uint16_t add(const IpAddress& ip);
  void touch(uint16_t index);
  void link_newest(uint16_t index);
  void unlink_age(uint16_t index);

  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<uint16_t[]> buckets_;
  uint64_t seed_;
  size_t size_ = 0;
  uint16_t newest_ = kNone, oldest_ = kNone;
};

}  // namespace drlnet::link
