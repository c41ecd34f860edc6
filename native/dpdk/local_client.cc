// The client's end: one link, made anew when the server has gone and comes back.
#include <rte_cycles.h>

#include "base/error.h"
#include "base/world.h"
#include "local_link.h"
#include "rendezvous.h"

namespace drlnet::dpdk {
namespace {

constexpr uint64_t kLookMs = 10;  // between looks whether the server is still there
constexpr uint32_t kLooksPerClock = 64;
constexpr uint64_t kComeBackMs = 100;                  // between attempts to find it again
constexpr uint64_t kLinkUpPatienceNs = 5'000'000'000;  // then the session's hellos go on trying
constexpr size_t kClientBuffers = 2 * kLocalDescriptors + 1024;

Endpoint local_server() {
  PeerAddress server;
  server.ip = local_host(kServerEnd, 0).ip;
  server.port = kLocalUdpPort;
  return to_endpoint(server);
}

struct LocalClientLink final : Link {
  LocalClientLink(Invited invited_, DoorbellMemory memory_)
      : invited(std::move(invited_)), memory(std::move(memory_)) {}
  ~LocalClientLink() override {
    if (!interface) return;
    if (hung_up(invited.connection.get())) {
      let_driver_notice(*interface, invited.invitation.driver);
    } else {
      wait_until_let_go(invited.connection.get(), invited.invitation.driver);
    }
  }
  Invited invited;
  DoorbellMemory memory;
};

class LocalClient final : public LinkKeeper {
 public:
  LocalClient(const LocalAddress& address, Pool& pool)
      : address_(address), paths_(local_paths(address.name, address.shown)), pool_(pool) {
    arriving_ = open();
    changed_ = true;
  }

  bool changed() override {
    if (changed_) return true;
    // The clock costs as much as a look at the ring.
    if (++looks_ % kLooksPerClock != 0 && connection_ >= 0) return false;
    const uint64_t now = rte_rdtsc();
    if (now < next_look_) return false;
    next_look_ = now + kLookMs * rte_get_tsc_hz() / 1000;
    return changed_ = connection_ < 0 || hung_up(connection_);
  }

  void apply(std::vector<std::unique_ptr<Link>>& links) override {
    changed_ = false;
    links.resize(1);
    links[0].reset();  // its end of the rendezvous is closed: the server lets its device go
    connection_ = -1;
    if (!arriving_) {
      try {
        arriving_ = open();
      } catch (const Error&) {
        // The server is not back yet. Callers have deadlines, and their errors say what they wait
        // for.
        next_look_ = rte_rdtsc() + kComeBackMs * rte_get_tsc_hz() / 1000;
        return;
      }
    }
    connection_ = arriving_->invited.connection.get();
    wake_ = arriving_->invited.client_wake.get();
    links[0] = std::move(arriving_);
  }

  bool shared_memory() const override { return true; }
  void close(std::vector<std::unique_ptr<Link>>& links) override { links.clear(); }
  Endpoint server() const override { return local_server(); }
  int wake_fd() const override { return connection_ < 0 ? -1 : wake_; }

 private:
  std::unique_ptr<LocalClientLink> open() {
    Invited invited = ask_for_invitation(paths_, address_.shown);
    const Invitation& invitation = invited.invitation;
    if (address_.driver && *address_.driver != invitation.driver) {
      throw Error(Status::transport,
                  address_.shown + ": the server of that name speaks " +
                      local_driver_name(invitation.driver),
                  "Pass the address that the server printed when it was ready.");
    }
    auto memory = DoorbellMemory::map(std::move(invited.doorbell_memory));
    if (!memory) {
      throw Error(Status::protocol, address_.shown + ": the server's doorbell is too small",
                  "install the same drlnet on both sides");
    }
    auto interface = open_local(kClientEnd, invitation.driver, invitation.device_path.data(),
                                invitation.number, 0, 0, pool_, address_.shown, nullptr);
    auto link = std::make_unique<LocalClientLink>(std::move(invited), std::move(*memory));
    link->doorbell = Doorbell{link->memory.page(), kClientEnd, link->invited.server_wake.get()};
    link->interface = std::move(interface);
    // Until memif's ends have agreed on their rings, frames are lost, and nothing tells when they
    // have. What virtio-user sends waits in the ring.
    const uint64_t deadline = now_ns() + kLinkUpPatienceNs;
    while (!link->interface->share().port().link_up() && now_ns() < deadline) {
      sleep_until(now_ns() + 1'000'000);
    }
    // memif gives its peer buffers to fill when it looks for packets: without a first look there
    // are none. (There is no packet yet: the server only answers.)
    std::array<rte_mbuf*, 1> none;
    rte_pktmbuf_free_bulk(none.data(),
                          static_cast<unsigned>(link->interface->share().receive(none)));
    return link;
  }

  LocalAddress address_;
  LocalPaths paths_;
  Pool& pool_;
  std::unique_ptr<LocalClientLink> arriving_;
  bool changed_ = false;
  int connection_ = -1, wake_ = -1;
  uint64_t next_look_ = 0;
  uint32_t looks_ = 0;
};

}  // namespace

Connected connect_local(const LocalAddress& address) {
  Environment::get();
  auto pool = std::make_shared<Pool>(kClientBuffers, kBufferBytes, true, address.shown);
  auto keeper = std::make_unique<LocalClient>(address, *pool);
  return {std::make_unique<DpdkTransport>(std::move(pool), std::move(keeper), address.shown),
          local_server()};
}

}  // namespace drlnet::dpdk
