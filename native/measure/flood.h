// What a server has to bear beside its clients: frames that no honest client sends, as fast as one
// thread can make them (`drlnet bench load --flood`).
// Threading: one thread. Errors: those of a transport; Error(timeout) where no session opens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "transport/transport.h"

namespace drlnet::measure {

class Flood {
 public:
  // kind: "garbage" (random bytes, and frames of sessions that there are not), "hellos" (each of
  // another client, which says no more) or "replays" (of a request that has been answered).
  Flood(const std::string& address, const std::string& kind, uint32_t ports);

  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  // For about that long. Returns how many frames went out.
  uint64_t run(uint64_t for_ns);

 private:
  // A source port: its transport, and the connection number of its session, if it has one.
  struct Port {
    Transport* transport;
    Endpoint server;
    uint32_t connection = 0;
  };
  enum class Kind : uint8_t { garbage, hellos, replays };

  void open(Port& port);
  void fill(const Port& port, TxFrame& frame);
  void fill_hello(TxFrame& frame);
  static void fill_ping(const Port& port, TxFrame& frame);

  Kind kind_;
  Random random_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Port> ports_;
  size_t next_ = 0;
};

}  // namespace drlnet::measure
