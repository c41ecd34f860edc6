// The server's end: a thread of its own meets clients, attaches a device for each, and hands the
// link to the thread that polls; links of clients that are gone go the other way.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/wake_fd.h"
#include "local_link.h"
#include "rendezvous.h"
#include "vhost_bell.h"

namespace drlnet::dpdk {
namespace {

// Buffers lent to the caller, kept back while arming and reserved for sending.
constexpr size_t kServerBuffers = 4096;

struct LocalServerLink final : Link {
  LocalServerLink(LocalDriver driver_, Descriptor connection_, DoorbellMemory memory_,
                  Descriptor client_wake_)
      : driver(driver_),
        connection(std::move(connection_)),
        memory(std::move(memory_)),
        client_wake(std::move(client_wake_)) {}
  ~LocalServerLink() override {
    if (!interface || !hung_up(connection.get())) return;
    shutdown(connection.get(),
             SHUT_WR);  // for wait_until_let_go(): this end is not polled any more
    let_driver_notice(*interface, driver);
  }
  LocalDriver driver;
  Descriptor connection;
  DoorbellMemory memory;
  Descriptor client_wake;
};

}  // namespace

class LocalServer final : public LinkKeeper {
 public:
  LocalServer(std::unique_ptr<MeetingPoint> meeting, LocalDriver driver, std::string shown,
              Pool& pool);
  ~LocalServer() override;

  bool changed() override { return changed_.load(std::memory_order_relaxed); }
  void apply(std::vector<std::unique_ptr<Link>>& links) override;
  bool shared_memory() const override { return true; }
  void close(std::vector<std::unique_ptr<Link>>& links) override;
  int wake_fd() const override { return wake_.fd(); }

 private:
  // A client as this thread knows it; its link itself belongs to the polling thread until it comes
  // back through departed_.
  struct Client {
    int connection = -1;
    bool leaving = false;
  };

  void serve();
  void meet();
  std::unique_ptr<LocalServerLink> open(uint16_t slot, Descriptor connection,
                                        Invitation& invitation);
  void look_after(size_t slot);
  void bury();

  std::unique_ptr<MeetingPoint> meeting_;
  std::optional<VhostBell> vhost_bell_;
  LocalDriver driver_;
  std::string shown_;
  Pool& pool_;
  WakeFd wake_;   // the polling thread's
  WakeFd nudge_;  // this thread's
  std::array<Client, DpdkTransport::kMaxLinks> clients_;
  uint32_t generation_ = 0;
  std::atomic<bool> changed_{false}, stopping_{false};
  std::mutex mutex_;  // of what follows: what the threads hand each other
  std::vector<std::unique_ptr<LocalServerLink>> arrived_, departed_;
  std::vector<uint16_t> leaving_;
  std::thread thread_;
};

namespace {

void refuse(const Descriptor& connection, const std::string& cause, const std::string& remedy) {
  Invitation invitation;
  cause.copy(invitation.cause.data(), invitation.cause.size() - 1);
  remedy.copy(invitation.remedy.data(), invitation.remedy.size() - 1);
  invite(connection.get(), invitation, {});  // a client that is gone needs no answer
}

}  // namespace

LocalServer::LocalServer(std::unique_ptr<MeetingPoint> meeting, LocalDriver driver,
                         std::string shown, Pool& pool)
    : meeting_(std::move(meeting)), driver_(driver), shown_(std::move(shown)), pool_(pool) {
  if (driver_ == LocalDriver::virtio_user) vhost_bell_.emplace(meeting_->paths.meeting + ".bell");
  thread_ = std::thread([this] { serve(); });
}

LocalServer::~LocalServer() = default;

void LocalServer::serve() {
  while (!stopping_.load(std::memory_order_acquire)) {
    std::vector<pollfd> fds = {{nudge_.fd(), POLLIN, 0}, {meeting_->socket.get(), POLLIN, 0}};
    std::vector<size_t> slots;
    for (size_t slot = 0; slot < clients_.size(); ++slot) {
      if (clients_[slot].connection < 0 || clients_[slot].leaving) continue;
      fds.push_back({clients_[slot].connection, POLLIN, 0});
      slots.push_back(slot);
    }
    ::poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) nudge_.clear();
    for (size_t i = 0; i < slots.size(); ++i) {
      if (fds[2 + i].revents != 0) look_after(slots[i]);
    }
    bury();
    if (fds[1].revents != 0) meet();
  }
}

void LocalServer::meet() {
  Descriptor connection(
      accept4(meeting_->socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection.get() < 0) return;
  const auto free = std::find_if(clients_.begin(), clients_.end(),
                                 [](const Client& client) { return client.connection < 0; });
  const std::string advice = "end some of its clients, or connect over udp://";
  if (free == clients_.end()) {
    return refuse(connection,
                  "the server has " + std::to_string(clients_.size()) +
                      " clients on shared memory, the most that it takes",
                  advice);
  }
  const auto slot = static_cast<uint16_t>(free - clients_.begin());
  const int fd = connection.get();
  try {
    Invitation invitation;
    auto link = open(slot, std::move(connection), invitation);
    const std::array<int, 3> descriptors = {link->memory.fd(), wake_.fd(), link->client_wake.get()};
    *free = {fd, false};
    {
      std::lock_guard lock(mutex_);
      arrived_.push_back(std::move(link));
    }
    changed_ = true;
    wake_.wake();
    // Last: the client's first frames must find a link that is polled. Its descriptors are closed
    // by this thread only. A client that is gone meanwhile is noticed like any other.
    invite(fd, invitation, descriptors);
  } catch (const Error&) {
    return;  // open() has told the client
  }
}

std::unique_ptr<LocalServerLink> LocalServer::open(uint16_t slot, Descriptor connection,
                                                   Invitation& invitation) {
  const uint32_t number = generation_++;
  invitation.accepted = 1;
  invitation.driver = driver_;
  invitation.number = number;
  const std::string path = meeting_->paths.device(slot);
  path.copy(invitation.device_path.data(), invitation.device_path.size() - 1);
  try {
    auto memory = DoorbellMemory::create();
    Descriptor client_wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!memory || client_wake.get() < 0) {
      throw Error(Status::transport, "the server has no descriptor or memory left for a link",
                  "Raise the limit on open files (ulimit -n) for the server.");
    }
    unlink(path.c_str());  // left by a server that was killed
    auto interface =
        open_local(kServerEnd, driver_, path, number, slot, number, pool_, shown_, &wake_);
    if (vhost_bell_) vhost_bell_->ring();
    auto link = std::make_unique<LocalServerLink>(driver_, std::move(connection),
                                                  std::move(*memory), std::move(client_wake));
    link->doorbell = Doorbell{link->memory.page(), kServerEnd, link->client_wake.get()};
    link->interface = std::move(interface);
    return link;
  } catch (const Error& error) {
    refuse(connection, error.cause(), error.remedy());
    throw;
  }
}

void LocalServer::look_after(size_t slot) {
  if (!hung_up(clients_[slot].connection)) return;
  clients_[slot].leaving = true;
  {
    std::lock_guard lock(mutex_);
    leaving_.push_back(static_cast<uint16_t>(slot));
  }
  changed_ = true;
  wake_.wake();
}

// Closes links that the polling thread has let go.
void LocalServer::bury() {
  std::vector<std::unique_ptr<LocalServerLink>> departed;
  {
    std::lock_guard lock(mutex_);
    departed.swap(departed_);
  }
  for (auto& link : departed) {
    const uint16_t slot = link->interface->options().slot;
    link.reset();
    clients_[slot] = {};
  }
}

void LocalServer::apply(std::vector<std::unique_ptr<Link>>& links) {
  changed_ = false;
  std::lock_guard lock(mutex_);
  links.resize(clients_.size());
  for (auto& link : arrived_) {
    const uint16_t slot = link->interface->options().slot;
    links[slot] = std::move(link);
  }
  arrived_.clear();
  for (const uint16_t slot : leaving_) {
    if (!links[slot]) continue;
    departed_.emplace_back(static_cast<LocalServerLink*>(links[slot].release()));
  }
  leaving_.clear();
  if (!departed_.empty()) nudge_.wake();
}

void LocalServer::close(std::vector<std::unique_ptr<Link>>& links) {
  stopping_.store(true, std::memory_order_release);
  nudge_.wake();
  thread_.join();
  links.clear();
  arrived_.clear();
  departed_.clear();
}

std::unique_ptr<Transport> listen_local(const LocalAddress& address) {
  std::string name = address.name;
  if (name == "0") {
    static std::atomic<unsigned> fresh{0};
    name = std::to_string(getpid());
    name += '-';
    name += std::to_string(fresh++);
  }
  const LocalDriver driver = address.driver.value_or(kDefaultLocalDriver);
  auto meeting = std::make_unique<MeetingPoint>(local_paths(name, address.shown), address.shown);
  Environment::get();
  auto pool = std::make_shared<Pool>(kServerBuffers, kBufferBytes, true, address.shown);
  const std::string kind = address.driver ? local_driver_name(driver) : "local";
  const std::string shown = "dpdk:" + kind + (name == kDefaultLocalName ? "" : ":" + name);
  auto keeper = std::make_unique<LocalServer>(std::move(meeting), driver, shown, *pool);
  return std::make_unique<DpdkTransport>(std::move(pool), std::move(keeper), shown);
}

}  // namespace drlnet::dpdk
