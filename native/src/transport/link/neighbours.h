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
  // O(1) expected. `ask` is true at most once in kAskAgainNs for an address.
  Answer find(const IpAddress& ip, uint64_t now_ns);
  // Heard from that host: by an answer, a question or a datagram.
  void heard(const IpAddress& ip, const MacAddress& mac, uint64_t now_ns);
  void forget_all();
  size_t size() const { return size_; }

 private:
  struct Entry {
    IpAddress ip;
    MacAddress mac;
    bool used = false, resolved = false;
    uint64_t heard_ns = 0, asked_ns = 0;
  };
  std::unique_ptr<Entry[]> entries_;
  size_t size_ = 0;
};

}  // namespace drlnet::link
