#include "network.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/error.h"

namespace drlnet::sim {
namespace {

Network* g_network = nullptr;
constexpr uint64_t kLeastDelayNs = 20'000, kJitterNs = 30'000;
constexpr size_t kInboxFrames = 512;
constexpr size_t kBurstFrames = 64;
constexpr uint64_t kFirstServer = 1;

Endpoint endpoint_of(uint64_t address) {
  Endpoint endpoint;
  std::memcpy(endpoint.bytes.data(), &address, sizeof address);
  return endpoint;
}

uint64_t address_of(const Endpoint& endpoint) {
  uint64_t address;
  std::memcpy(&address, endpoint.bytes.data(), sizeof address);
  return address;
}

}  // namespace

class Port final : public Transport {
 public:
  Port(Network& network, Process& process, uint64_t address)
      : network_(network),
        process_(process),
        address_(address),
        descriptor_(network.world_.open_descriptor()),
        arena_(std::make_unique_for_overwrite<std::byte[]>(kBurstFrames * network.frame_bytes_)),
        tx_frames_(kBurstFrames) {
    for (size_t i = 0; i < kBurstFrames; ++i) {
      tx_frames_[i].data = arena_.get() + i * network.frame_bytes_;
    }
    if (!network.ports_.emplace(address, this).second) {
      network.world_.close_descriptor(descriptor_);
      throw Error(Status::transport, local_address() + " is in use", "choose another one");
    }
  }
  ~Port() override {
    network_.ports_.erase(address_);
    network_.world_.close_descriptor(descriptor_);
  }

  std::span<TxFrame> reserve(size_t count) override {
    return std::span(tx_frames_).first(std::min(count, kBurstFrames));
  }
  size_t send_burst(std::span<const TxFrame> frames) override {
    for (const TxFrame& frame : frames) {
      frame.loans.copy_out();
      network_.world_.step();
      if (process_.dead) continue;
      network_.send(*this, address_of(frame.to), {frame.data, frame.data + frame.length});
    }
    return frames.size();
  }
  std::span<const RxFrame> recv_burst() override {
    network_.world_.step();
    lent_.clear();
    rx_frames_.clear();
    while (!inbox_.empty() && lent_.size() < kBurstFrames) {
      const Held& held = lent_.emplace_back(std::move(inbox_.front()));
      rx_frames_.push_back({endpoint_of(held.from), held.data});
      inbox_.pop_front();
    }
    if (inbox_.empty()) network_.world_.clear(descriptor_);
    return rx_frames_;
  }
  WaitPoint arm() override { return {descriptor_, 0}; }
  size_t mtu(const Endpoint&) override { return network_.frame_bytes_; }
  bool reliable() const override { return false; }
  bool may_alter_bytes() const override { return network_.checked_; }
  size_t receive_capacity_bytes() const override { return kInboxFrames * kMinFrameCharge; }
  std::string local_address() const override {
    return "sim://server" +
           (address_ == kFirstServer ? "" : "/" + std::to_string(address_ - kFirstServer));
  }
  std::string describe(const Endpoint& endpoint) const override {
    return "sim://" + std::to_string(address_of(endpoint));
  }
  std::string_view kind() const override { return "sim"; }
  TransportCounters counters() const override {
    return {.refused = refused_, .receive_overflow = overflow_};
  }

  void receive(uint64_t from, std::vector<std::byte> data) {
    if (process_.dead) return;
    if (inbox_.size() == kInboxFrames) {
      ++overflow_;
      return network_.world_.mark("receive buffer overflows");
    }
    inbox_.push_back({from, std::move(data)});
    network_.world_.set(descriptor_);
  }
  void be_refused() { ++refused_; }
  void move_to(uint64_t address) { address_ = address; }
  uint64_t address() const { return address_; }
  uint32_t host() const { return process_.host; }

 private:
  struct Held {
    uint64_t from;
    std::vector<std::byte> data;
  };

  Network& network_;
  Process& process_;
  uint64_t address_;
  int descriptor_;
  std::unique_ptr<std::byte[]> arena_;
  std::vector<TxFrame> tx_frames_;
  std::deque<Held> inbox_, lent_;
  std::vector<RxFrame> rx_frames_;
  uint64_t refused_ = 0, overflow_ = 0;
};

Network::Network(World& world, uint64_t seed, size_t frame_bytes, bool checked)
    : world_(world), random_(seed), frame_bytes_(frame_bytes), checked_(checked) {
  g_network = this;
}

Network::~Network() { g_network = nullptr; }

Network& Network::current() {
  DRLNET_ASSERT(g_network != nullptr);
  return *g_network;
}

void Network::begin(const Fault& fault) {
  world_.note(fault_name(fault.kind), fault.host, fault.amount);
  std::erase_if(faults_, [&](const Active& one) {
    return one.fault.begin_ns + one.fault.length_ns < world_.time_ns();
  });
  faults_.push_back({fault, Random(fault.seed)});
  faults_.back().fault.begin_ns = world_.time_ns();
}

void Network::change_address(uint32_t host) {
  std::vector<Port*> moved;
  for (const auto& [address, port] : ports_) {
    if (port->host() == host) moved.push_back(port);
  }
  for (Port* port : moved) {
    world_.note("new address", host);
    world_.mark("addresses changed");
    ports_.erase(port->address());
    port->move_to(next_address_++);
    ports_.emplace(port->address(), port);
  }
}

bool Network::hits(Active& active, uint32_t from, uint32_t to) {
  const Fault& fault = active.fault;
  if (world_.time_ns() >= fault.begin_ns + fault.length_ns) return false;
  return from - fault.host < fault.hosts || to - fault.host < fault.hosts;
}

void Network::alter(Active& active, std::vector<std::byte>& data) {
  if (active.fault.kind == FaultKind::truncation) {
    world_.mark("frames cut off");
    data.resize(active.random.below(data.size() + 1));
    return;
  }
  world_.mark("bits flipped");
  for (uint64_t flips = 1 + active.random.below(3); flips > 0 && !data.empty(); --flips) {
    const uint64_t bit = active.random.below(8 * data.size());
    data[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

void Network::send(Port& from, uint64_t to, std::vector<std::byte> data) {
  ++frames_;
  DRLNET_ASSERT(data.size() <= frame_bytes_);
  const auto port = ports_.find(to);
  if (port == ports_.end()) {
    world_.mark("frames to where nothing listens");
    return from.be_refused();
  }
  const uint32_t host = port->second->host();
  uint64_t delay_ns = kLeastDelayNs + random_.below(kJitterNs), again_ns = 0;
  for (Active& active : faults_) {
    if (!hits(active, from.host(), host)) continue;
    const Fault& fault = active.fault;
    const bool struck = active.random.uniform() < fault.probability;
    switch (fault.kind) {
      case FaultKind::partition:
        return world_.mark("frames lost to a partition");
      case FaultKind::small_frames:
        if (data.size() > fault.amount) return world_.mark("frames too long for the path");
        break;
      case FaultKind::loss:
        if (struck) return world_.mark("frames lost");
        break;
      case FaultKind::duplicates:
        if (struck) again_ns = delay_ns + active.random.below(20'000'000);
        break;
      case FaultKind::replay:
        if (struck) {
          world_.mark("recorded frames sent again");
          carry(from.address(), to, host, data, delay_ns + active.random.below(fault.amount));
        }
        break;
      case FaultKind::reordering:
        if (struck) delay_ns += active.random.below(fault.amount);
        break;
      case FaultKind::delay:
        delay_ns += fault.amount;
        break;
      default:
        if (struck) alter(active, data);
    }
  }
  if (again_ns != 0) {
    world_.mark("frames doubled");
    carry(from.address(), to, host, data, again_ns);
  }
  carry(from.address(), to, host, std::move(data), delay_ns);
}

void Network::carry(uint64_t from, uint64_t to, uint32_t host, std::vector<std::byte> data,
                    uint64_t delay_ns) {
  if (data.empty()) return;
  world_.at(world_.time_ns() + delay_ns, [this, from, to, host, data = std::move(data)]() mutable {
    world_.note("frame", from << 16 | to, data.size(), crc32c(data));
    const auto port = ports_.find(to);
    if (port != ports_.end() && port->second->host() == host) {
      port->second->receive(from, std::move(data));
    }
  });
}

std::unique_ptr<Transport> Network::listen(uint64_t address) {
  return std::make_unique<Port>(*this, *world_.running(), address);
}

Connected Network::connect(uint64_t address) {
  return {std::make_unique<Port>(*this, *world_.running(), next_address_++), endpoint_of(address)};
}

}  // namespace drlnet::sim

namespace drlnet {
namespace {

uint64_t number_of(const std::string& address) {
  const size_t slash = address.find('/', std::string("sim://").size());
  return 1 + (slash == std::string::npos ? 0 : std::stoull(address.substr(slash + 1)));
}

}  // namespace

std::span<const TransportKind> transport_kinds() { return {}; }
std::unique_ptr<Transport> listen(const std::string& address, uint32_t) {
  return sim::Network::current().listen(number_of(address));
}
Connected connect(const std::string& address) {
  return sim::Network::current().connect(number_of(address));
}
std::string shard_address(const std::string& address, uint32_t shard) {
  return shard == 0 ? address : address + "/" + std::to_string(shard);
}
std::string address_told(const std::string& found, const std::string& told) {
  return shard_address(found, static_cast<uint32_t>(std::stoul(told)));
}
bool is_loopback(const std::string&) { return true; }

}  // namespace drlnet
