#include "vhost_bell.h"

#include <rte_vhost.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "environment.h"
#include "rendezvous.h"

namespace drlnet::dpdk {

VhostBell::VhostBell(std::string path) : path_(std::move(path)) {
  unlink(path_.c_str());  // left by a server that was killed
  Environment::get().run([this] {
    static constexpr rte_vhost_device_ops kNothingToDo{};
    if (rte_vhost_driver_register(path_.c_str(), 0) != 0 ||
        rte_vhost_driver_callback_register(path_.c_str(), &kNothingToDo) != 0 ||
        rte_vhost_driver_start(path_.c_str()) != 0) {
      throw Error(Status::transport, "DPDK's vhost cannot listen at " + path_ + ": " + last_log(),
                  "Remove that file.");
    }
  });
}

VhostBell::~VhostBell() {
  Environment::get().run([this] { rte_vhost_driver_unregister(path_.c_str()); });
}

void VhostBell::ring() const {
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = unix_address(path_);
  // Unheard, the thread still looks by itself within a second.
  [[maybe_unused]] const int connected =
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

}  // namespace drlnet::dpdk
