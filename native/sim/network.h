// The simulated network: what the seed says of each frame. It takes the place of
// transport/registry.cc. Addresses are sim://server, and sim://server/1, ... of further shards.
// Threading: one thread.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <vector>

#include "faults.h"
#include "transport/transport.h"
#include "world.h"

namespace drlnet::sim {

class Port;

class Network {
 public:
  Network(World& world, uint64_t seed, size_t frame_bytes, bool checked);
  ~Network();
  static Network& current();

  World& world() { return world_; }
  size_t frame_bytes() const { return frame_bytes_; }
  bool checked() const { return checked_; }
  // From now on, until its end.
  void begin(const Fault& fault);
  void heal() { faults_.clear(); }
  void change_address(uint32_t host);
  uint64_t frames() const { return frames_; }

  std::unique_ptr<Transport> listen(uint64_t address);
  Connected connect(uint64_t address);

 private:
  friend class Port;
  struct Active {
    Fault fault;
    Random random;
  };

  void send(Port& from, uint64_t to, std::vector<std::byte> data);
  bool hits(Active& active, uint32_t from, uint32_t to);
  void alter(Active& active, std::vector<std::byte>& data);
  void carry(uint64_t from, uint64_t to, uint32_t host, std::vector<std::byte> data,
             uint64_t delay_ns);

  World& world_;
  Random random_;
  const size_t frame_bytes_;
  const bool checked_;
  std::vector<Active> faults_;
  std::map<uint64_t, Port*> ports_;  // by address
  uint64_t next_address_ = 1000, frames_ = 0;
};

}  // namespace drlnet::sim
