// A transport on a NIC, and what to do when the interface below it goes and comes back.
#include <rte_cycles.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "base/error.h"
#include "base/world.h"
#include "nic.h"
#include "nic_shared.h"
#include "rendezvous.h"

namespace drlnet::dpdk {
namespace {

constexpr uint64_t kQueuePatienceNs = 1'000'000'000;
constexpr uint64_t kLookMs = 10;       // between looks whether the interface is still there
constexpr uint64_t kComeBackMs = 200;  // between attempts to open it again

// Closes the port when its interface goes (af_packet: or is set down), and opens it when it is
// back: the drivers would stay with the one that is no more.
class NicKeeper final : public LinkKeeper {
 public:
  NicKeeper(const NicAddress& address, uint16_t transports, uint16_t udp_port)
      : address_(address),
        member_(Nic::get(address, transports), udp_port, address.shown),
        kernel_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    opened_index_ = index();
    open_first();
    pool_ = arriving_.pool;
  }
  const std::shared_ptr<Pool>& pool() const { return pool_; }

  bool changed() override {
    if (arriving_.link) return true;
    if (address_.driver == NicDriver::pci) return false;  // its driver sees the cable come and go
    const uint64_t now = rte_rdtsc();
    if (now < next_look_) return false;
    next_look_ = now + kLookMs * rte_get_tsc_hz() / 1000;
    return index() != opened_index_;
  }

  void apply(std::vector<std::unique_ptr<Link>>& links) override {
    links.resize(1);
    if (!arriving_.link) {
      links[0].reset();
      opened_index_ = 0;
      if (const int now_there = index(); now_there != 0) {
        try {
          arriving_ = member_.open(now_there);
          opened_index_ = now_there;
          trouble_.clear();
        } catch (const Error& error) {
          // It may be half made yet. Callers have deadlines, and their errors say what is wrong.
          trouble_ = error.cause();
          next_look_ = rte_rdtsc() + kComeBackMs * rte_get_tsc_hz() / 1000;
          return;
        }
      } else {
        trouble_ = address_.device + " is down or gone";
      }
    }
    if (!arriving_.link) return;
    links[0] = std::move(arriving_.link);
    if (pool_ != arriving_.pool) fresh_ = pool_ = std::move(arriving_.pool);
  }

  std::shared_ptr<Pool> fresh_pool() override { return std::move(fresh_); }
  void close(std::vector<std::unique_ptr<Link>>& links) override { links.clear(); }
  int wake_fd() const override { return -1; }
  std::string trouble() const override { return trouble_; }

 private:
  void open_first() {
    // The kernel frees the queue of an af_xdp socket some time after its owner has ended.
    for (const uint64_t deadline = now_ns() + kQueuePatienceNs;;) {
      try {
        arriving_ = member_.open(opened_index_);
        return;
      } catch (const Error& error) {
        if (address_.driver != NicDriver::af_xdp) throw;
        if (geteuid() != 0 || now_ns() >= deadline) {
          throw Error(error.status(), error.cause(),
                      "It takes root, an MTU of at most 3498 on both ends of a veth pair, and an "
                      "interface that no other XDP program has.");
        }
      }
      sleep_until(now_ns() + kLookMs * 1'000'000);
    }
  }

  int index() const {
    if (address_.driver == NicDriver::pci) return 1;
    // af_xdp outlives an interface set down, and the kernel lets no second one have its queue.
    if (address_.driver == NicDriver::af_xdp && opened_index_ != 0 &&
        kernel_index(kernel_.get(), address_.device) == opened_index_) {
      return opened_index_;
    }
    return kernel_index_when_up(kernel_.get(), address_.device);
  }

  const NicAddress address_;
  NicMember member_;
  std::shared_ptr<Pool> pool_, fresh_;
  Descriptor kernel_;  // of the network namespace in which the interface is
  Nic::Opened arriving_;
  int opened_index_ = 0;
  uint64_t next_look_ = 0;
  std::string trouble_;
};

// transports: as Nic::get() has it.
std::unique_ptr<Transport> open(const NicAddress& address, uint16_t transports, uint16_t udp_port) {
  check_nic(address);
  auto keeper = std::make_unique<NicKeeper>(address, transports, udp_port);
  auto pool = keeper->pool();
  return std::make_unique<DpdkTransport>(std::move(pool), std::move(keeper), address.shown);
}

}  // namespace

std::unique_ptr<Transport> listen_nic(const NicAddress& address, uint32_t shards) {
  return open(address, static_cast<uint16_t>(shards), address.port);
}

Connected connect_nic(const NicAddress& address) {
  if (!address.to) malformed_nic(address.shown, "a client needs the server's address, to=IP:PORT");
  // A port of our own for each client of this process and, by its number, each process.
  static std::atomic<uint32_t> count{0};
  const uint32_t spread = static_cast<uint32_t>(getpid()) * 31 + count++;
  const auto udp_port = static_cast<uint16_t>(49152 + spread % 16384);
  PeerAddress server;
  server.ip = *address.to;
  server.port = address.to_port;
  return {open(address, 0, udp_port), to_endpoint(server)};
}

}  // namespace drlnet::dpdk
