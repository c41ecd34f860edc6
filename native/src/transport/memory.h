// Carries frames between endpoints of one process, for tests and the serial mode. A listener makes
// a hub with a name of its own ("memory:1"); clients attach to it by that name. Threading: each
// endpoint is used by one thread at a time; different endpoints may be on different threads.
#pragma once

#include "transport/transport.h"

namespace drlnet::memory {

// An empty `name` asks for a fresh one.
std::unique_ptr<Transport> listen(const std::string& name, uint32_t shards);
Connected connect(const std::string& name);
bool is_loopback(const std::string& name);
std::string shard(const std::string& name, uint32_t shard);
std::string at(const std::string& rest, const std::string& host, uint16_t port);

}  // namespace drlnet::memory
