// "dpdk:local": shared memory between processes of one machine, without privileges. Each client has
// a link of its own, by memif or by vhost and virtio-user.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "rendezvous.h"
#include "transport/transport.h"

namespace drlnet::dpdk {

constexpr const char* kDefaultLocalName = "default";

struct LocalAddress {
  std::optional<LocalDriver> driver;  // nothing: the default of the server
  std::string name;                   // "0": a fresh one
  std::string shown;                  // as the user wrote it
};

std::unique_ptr<Transport> listen_local(const LocalAddress& address);
Connected connect_local(const LocalAddress& address);

}  // namespace drlnet::dpdk
