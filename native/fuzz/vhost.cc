// The server's end of a link over shared memory: another process writes there what it wants. The
// input is that process: each step writes into the memory, agrees on another layout of it, or has
// the server receive or send. It writes between calls alone, and between place() and
// send_placed(): what changes within a call is kept harmless by reading it once (PackedRing).
// Nothing outside the memory is touched, what is received lies in its packet, and an honest client
// is served afterwards.
#include "base/assert.h"
#include "environment.h"
#include "fuzz.h"
#include "interface.h"
#include "vhost_client.h"
#include "vhost_library.h"
#include "vhost_port.h"

namespace drlnet::fuzz {
namespace {

using namespace dpdk;
using link::PackedDescriptor;
using link::PackedRing;

constexpr uint16_t kWritable = 1 << 1, kAvailable = 1 << 7, kUsed = 1 << 15;
constexpr uint64_t kAgreed = uint64_t{1} << 32 | uint64_t{1} << 34 | uint64_t{1} << 35;

InterfaceOptions options() {
  InterfaceOptions options;
  options.address = {vhost_host(1).ip, 24};
  options.mac = vhost_host(1).mac;
  options.only_peer = vhost_host(2);
  options.udp_port = kPort;
  options.mtu = 9000;
  options.checksums = link::Checksums::none;
  options.copies_sent = true;
  return options;
}

Pool& pool() {
  static Pool& instance = [&]() -> Pool& {
    Environment::get();
    return *new Pool(256, dpdk::kBufferBytes, true, "fuzz");
  }();
  return instance;
}

class Link {
 public:
  Link()
      : memory_{Bytes(kControlBytes), Bytes(kBuffers * kBufferBytes)},
        port_(std::make_shared<VhostPort>(VhostLibrary::kPath, 256, pool(), "fuzz", reader_)),
        interface_(PortShare(port_), options()) {
    connect();
  }

  void run(std::span<const std::byte> input) {
    ByteReader reader(input);
    for (auto step = reader.get<uint8_t>(); reader.ok(); step = reader.get<uint8_t>()) {
      one(static_cast<Step>(step % static_cast<uint8_t>(Step::count)), reader);
    }
  }

  // A new process has the same socket: frames of any length go both ways.
  void serve_honestly() {
    reconnect();
    connect();
    for (const uint16_t bytes : {1, 100, 8968}) {
      std::ranges::copy(vhost_frame(bytes), memory_[1].begin());
      post(kFromDriver, kAddress + kApart, static_cast<uint32_t>(vhost_frame(bytes).size()), 0, 0);
      DRLNET_ASSERT(receive() == 1);
      for (const bool placed : {false, true}) {
        post(kToDriver, kAddress + kApart, kBufferBytes, 0, 0);
        placed ? place(bytes, false) : send(1, bytes, bytes > 1000);
        const size_t headers = kVirtioBytes + kHeaders;
        DRLNET_ASSERT(posted(kToDriver).length == headers + bytes);
        DRLNET_ASSERT(memory_[1][headers + bytes - 1] == std::byte{9});
      }
    }
    DRLNET_ASSERT(port_->link_up());
  }

 private:
  void one(Step step, ByteReader& reader) {
    switch (step) {
      case Step::receive:
        receive();
        return;
      case Step::send: {
        const auto count = reader.get<uint8_t>();
        const auto bytes = reader.get<uint16_t>();
        return send(count % 40, bytes, reader.get<uint8_t>() % 2 == 1);
      }
      case Step::place: {
        const auto bytes = reader.get<uint16_t>();
        const auto meanwhile = reader.get<uint8_t>();
        return place(bytes, meanwhile % 2 == 1, std::byte{meanwhile});
      }
      case Step::write: {
        Bytes& region = memory_[reader.get<uint8_t>() % memory_.size()];
        const size_t at = reader.get<uint16_t>() % region.size();
        const auto bytes = reader.take(reader.get<uint16_t>());
        std::copy_n(bytes.begin(), std::min(bytes.size(), region.size() - at), &region[at]);
        return;
      }
      case Step::post: {
        const auto ring = reader.get<uint8_t>();
        const auto address = reader.get<uint64_t>();
        const auto bytes = reader.get<uint32_t>();
        const auto id = reader.get<uint16_t>();
        return post(static_cast<Ring>(ring % kRings), address, bytes, id, reader.get<uint16_t>());
      }
      case Step::agree:
        return agree(reader);
      case Step::remap:
        return remap(reader);
      case Step::notice: {
        const auto notice = reader.get<uint8_t>() % static_cast<uint8_t>(Notice::count);
        return tell(static_cast<Notice>(notice), reader.get<uint8_t>());
      }
      case Step::count:
        break;
    }
  }

  size_t receive() {
    std::array<RxFrame, Interface::kMostReceived> frames;
    std::array<rte_mbuf*, Interface::kMostReceived> packets{};
    size_t count = 0;
    interface_.receive(pool().get(), frames, packets, count);
    for (size_t i = 0; i < count; ++i) {
      const auto* const begin = rte_pktmbuf_mtod(packets[i], const std::byte*);
      const std::span<const std::byte> data = frames[i].data;
      DRLNET_ASSERT(!data.empty() && data.size() <= kJumboFrameBytes && data.data() >= begin &&
                    data.data() + data.size() <= begin + rte_pktmbuf_data_len(packets[i]));
    }
    rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(count));
    return count;
  }

  // The bytes that a reply would be: all of them its own, or most of them lent.
  void fill(TxFrame& frame, bool lent) {
    const size_t own = lent ? std::min<size_t>(frame.length, 200) : frame.length;
    std::memset(frame.data, 9, own);
    frame.loans.clear();
    if (own < frame.length) frame.loans.put(frame.data + own, rows_.data(), frame.length - own);
  }

  void send(size_t count, uint16_t bytes, bool lent) {
    std::vector<TxFrame> frames(count);
    for (TxFrame& frame : frames) {
      rte_mbuf* const packet = rte_pktmbuf_alloc(pool().get());
      DRLNET_ASSERT(packet != nullptr);
      frame.data = payload_of(packet);
      frame.length = std::min<uint32_t>(bytes, kJumboFrameBytes);
      fill(frame, lent);
      frame.length = bytes;  // one that is too long is left out
      interface_.send(packet, frame, peer(), 0, pool().get());
    }
    interface_.flush();
  }

  // Between a place and what is sent there, rings and all may become `meanwhile`; 0: they stay.
  void place(uint16_t bytes, bool lent, std::byte meanwhile = {}) {
    TxFrame frame;
    frame.length = bytes;
    interface_.place(frame, peer());
    if (frame.data == nullptr) return;
    fill(frame, lent);
    if ((meanwhile & std::byte{0xfe}) != std::byte{0}) std::ranges::fill(memory_[0], meanwhile);
    interface_.send_placed(frame);
  }

  static PeerAddress peer() { return {vhost_host(2).ip, 0, kPort, 0, {}}; }

  // The next buffer of a ring as its driver last laid it out; the input's flags are turned into
  // those of good ones where they are 0.
  void post(Ring ring, uint64_t address, uint32_t bytes, uint16_t id, uint16_t flags) {
    Driver& driver = drivers_[ring];
    driver.last = driver.next;
    PackedDescriptor& descriptor = descriptors(ring)[driver.next];
    const uint16_t good = static_cast<uint16_t>((driver.turn ? kAvailable : kUsed) |
                                                (ring == kToDriver ? kWritable : 0));
    descriptor = {address, bytes, id, static_cast<uint16_t>(flags ^ good)};
    if (++driver.next < kDescriptors) return;
    driver.next = 0;
    driver.turn = !driver.turn;
  }
  PackedDescriptor* descriptors(Ring ring) {
    return reinterpret_cast<PackedDescriptor*>(&memory_[0][ring * kRingBytes]);
  }
  const PackedDescriptor& posted(Ring ring) { return descriptors(ring)[drivers_[ring].last]; }

  // Another place, size and position of a ring, in a message of the driver's; out of the memory,
  // even: that is looked at here.
  void agree(ByteReader& reader) {
    VhostLibrary::Ring& ring = vhost_library().rings[reader.get<uint8_t>() % kRings];
    const auto at = reader.get<int16_t>(), event = reader.get<int16_t>();
    const auto size = reader.get<uint16_t>(), position = reader.get<uint16_t>();
    in_message([&] {
      ring = ring_at(at, size, event);
      ring.position = position;
    });
  }
  VhostLibrary::Ring ring_at(ptrdiff_t at, uint16_t size, ptrdiff_t event) {
    VhostLibrary::Ring ring;
    const auto begin = reinterpret_cast<uintptr_t>(memory_[0].data());
    ring.addresses.desc_packed =
        reinterpret_cast<vring_packed_desc*>(begin + static_cast<uintptr_t>(at));
    ring.addresses.device_event =
        reinterpret_cast<vring_packed_desc_event*>(begin + static_cast<uintptr_t>(event));
    ring.addresses.size = size;
    ring.position = PackedRing::kTurn;
    return ring;
  }

  // Other addresses of the regions, and no more of them than there is.
  void remap(ByteReader& reader) {
    const auto index = reader.get<uint8_t>() % memory_.size();
    const auto address = reader.get<uint64_t>(), bytes = reader.get<uint64_t>();
    in_message([&] {
      rte_vhost_mem_region& region = vhost_library().regions[index];
      region.guest_phys_addr = address;
      region.size = std::min<uint64_t>(bytes, memory_[index].size());
    });
  }

  template <typename Change>
  void in_message(Change change) {
    const rte_vhost_user_extern_ops& messages = *vhost_library().messages;
    if (messages.pre_msg_handle(VhostLibrary::kDevice, nullptr) == RTE_VHOST_MSG_RESULT_ERR) {
      return reconnect();
    }
    change();
    messages.post_msg_handle(VhostLibrary::kDevice, nullptr);
  }

  void tell(Notice notice, uint8_t argument) {
    const rte_vhost_device_ops& device = *vhost_library().device;
    constexpr int kDevice = VhostLibrary::kDevice;
    switch (notice) {
      case Notice::ready:
        device.vring_state_changed(kDevice, argument % 3, argument / 3 % 2);
        return;
      case Notice::runs:
        device.new_device(kDevice);
        return;
      case Notice::stops:
        return device.destroy_device(kDevice);
      case Notice::refused_message:
        vhost_library().messages->pre_msg_handle(kDevice, nullptr);
        return;
      case Notice::reconnects:
      case Notice::count:
        return reconnect();
    }
  }

  void reconnect() {
    const rte_vhost_device_ops& device = *vhost_library().device;
    device.destroy_device(VhostLibrary::kDevice);
    device.destroy_connection(VhostLibrary::kDevice);
    DRLNET_ASSERT(!port_->link_up());
    DRLNET_ASSERT(device.new_connection(VhostLibrary::kDevice) == 0);
  }

  // What a driver of ours says.
  void connect() {
    VhostLibrary& library = vhost_library();
    const rte_vhost_device_ops& device = *library.device;
    device.destroy_connection(VhostLibrary::kDevice);
    DRLNET_ASSERT(device.new_connection(VhostLibrary::kDevice) == 0);
    DRLNET_ASSERT(device.new_connection(VhostLibrary::kDevice + 1) != 0);  // one has it
    library.features = kAgreed;
    library.regions.clear();
    for (size_t i = 0; i < memory_.size(); ++i) {
      std::ranges::fill(memory_[i], std::byte{0});
      rte_vhost_mem_region region{};
      region.guest_phys_addr = kAddress + i * kApart;
      region.host_user_addr = reinterpret_cast<uintptr_t>(memory_[i].data());
      region.size = memory_[i].size();
      library.regions.push_back(region);
    }
    for (const Ring ring : {kToDriver, kFromDriver}) {
      library.rings[ring] = ring_at(ring * kRingBytes, kDescriptors, kEvents + ring * 4);
      drivers_[ring] = {};
    }
    device.new_device(VhostLibrary::kDevice);
    for (const Ring ring : {kToDriver, kFromDriver}) {
      device.vring_state_changed(VhostLibrary::kDevice, ring, 1);
    }
    DRLNET_ASSERT(port_->link_up());
  }

  struct Driver {
    uint16_t next = 0, last = 0;
    bool turn = true;
  };

  std::array<Bytes, 2> memory_;
  const Bytes rows_ = Bytes(kMaxFrameBytes, std::byte{9});
  WakeFd reader_;
  std::shared_ptr<VhostPort> port_;
  Interface interface_;
  std::array<Driver, kRings> drivers_;
};

}  // namespace

void run(std::span<const std::byte> input) {
  Link link;
  link.run(input);
  link.serve_honestly();
  // Whatever was received, dropped or sent, its packet went back.
  DRLNET_ASSERT(rte_mempool_avail_count(pool().get()) == 256);
}

}  // namespace drlnet::fuzz
