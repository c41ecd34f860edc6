// DPDK's vhost thread looks at a new socket only when something else wakes it, up to a second
// later. A socket that it knows already, and that a connection can be made to, wakes it at once.
#pragma once

#include <string>

namespace drlnet::dpdk {

class VhostBell {
 public:
  explicit VhostBell(std::string path);  // throws Error(transport)
  ~VhostBell();
  VhostBell(const VhostBell&) = delete;
  VhostBell& operator=(const VhostBell&) = delete;
  // After a vhost device was attached.
  void ring() const;

 private:
  std::string path_;
};

}  // namespace drlnet::dpdk
