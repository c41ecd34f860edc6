#include "transport/link/neighbours.h"

#include <algorithm>
#include <cstring>

#include "base/world.h"

namespace drlnet::link {

Neighbours::Neighbours()
    : entries_(std::make_unique<Entry[]>(kCapacity)),
      buckets_(std::make_unique<uint16_t[]>(kBuckets)),
      seed_(random_secret()) {
  forget_all();
}

void Neighbours::forget_all() {
  std::fill_n(buckets_.get(), kBuckets, kNone);
  size_ = 0;
  newest_ = oldest_ = kNone;
}

// Two multiplications by odd numbers; the seed keeps a stranger from choosing what collides.
uint16_t& Neighbours::bucket_of(const IpAddress& ip) {
  uint64_t halves[2];
  std::memcpy(halves, ip.bytes.data(), sizeof halves);
  uint64_t mixed = (halves[0] ^ seed_) * 0x9E3779B97F4A7C15u;
  mixed = (mixed ^ (mixed >> 32) ^ halves[1]) * 0xBF58476D1CE4E5B9u;
  return buckets_[mixed >> (64 - kBucketBits)];
}

uint16_t Neighbours::look_up(const IpAddress& ip) {
  uint16_t index = bucket_of(ip);
  while (index != kNone && entries_[index].ip != ip) index = entries_[index].next_in_bucket;
  return index;
}

void Neighbours::unlink_age(uint16_t index) {
  const Entry& entry = entries_[index];
  (entry.newer == kNone ? newest_ : entries_[entry.newer].older) = entry.older;
  (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = entry.newer;
}

void Neighbours::link_newest(uint16_t index) {
  Entry& entry = entries_[index];
  entry.newer = kNone;
  entry.older = newest_;
  (newest_ == kNone ? oldest_ : entries_[newest_].newer) = index;
  newest_ = index;
}

void Neighbours::touch(uint16_t index) {
  if (index == newest_) return;
  unlink_age(index);
  link_newest(index);
}

uint16_t Neighbours::add(const IpAddress& ip) {
  uint16_t index;
  if (size_ < kCapacity) {
    index = static_cast<uint16_t>(size_++);
  } else {
    index = oldest_;
    uint16_t* link = &bucket_of(entries_[index].ip);
    while (*link != index) link = &entries_[*link].next_in_bucket;
    *link = entries_[index].next_in_bucket;
    unlink_age(index);
  }
  uint16_t& bucket = bucket_of(ip);
  entries_[index] = {};
  entries_[index].ip = ip;
  entries_[index].next_in_bucket = bucket;
  bucket = index;
  link_newest(index);
  return index;
}

Neighbours::Answer Neighbours::find(const IpAddress& ip, uint64_t now_ns) {
  uint16_t index = look_up(ip);
  if (index == kNone) index = add(ip);
  Entry& entry = entries_[index];
  const bool fresh = entry.resolved && now_ns < entry.heard_ns + kStaleNs;
  const bool ask = !fresh && (!entry.asked || now_ns >= entry.asked_ns + kAskAgainNs);
  if (ask) {
    entry.asked = true;
    entry.asked_ns = now_ns;
    // Else a full table would forget a question before its answer comes.
    if (!entry.resolved) touch(index);
  }
  return {entry.resolved ? &entry.mac : nullptr, ask};
}

void Neighbours::heard(const IpAddress& ip, const MacAddress& mac, uint64_t now_ns) {
  if (!ip.one_host() || mac.multicast() || mac == MacAddress{}) return;
  uint16_t index = look_up(ip);
  if (index == kNone) index = add(ip);
  Entry& entry = entries_[index];
  entry.mac = mac;
  entry.resolved = true;
  entry.heard_ns = now_ns;
  touch(index);
}

}  // namespace drlnet::link
