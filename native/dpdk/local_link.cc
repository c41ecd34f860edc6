#include "local_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <bit>

#include "base/world.h"
#include "eal_port.h"
#include "vhost_port.h"

namespace drlnet::dpdk {
namespace {

constexpr int kPatienceMs = 200;  // with the other end of a link that is closed
// The ring of vhost's end holds the fewest: see VhostPort.
static_assert(kLocalDescriptors - link::PackedRing::kMostUntold == DpdkTransport::kLeastFrames);

// Names of devices are unique in a process, over all its links and reconnects.
std::string device_name(const std::string& driver) {
  static std::atomic<unsigned> number{0};
  return driver + std::to_string(number++);
}

std::shared_ptr<Port> open_port(int end, LocalDriver driver, const std::string& path, Pool& pool,
                                const std::string& shown, WakeFd* reader) {
  if (driver == LocalDriver::virtio_user && end == kServerEnd) {
    return std::make_shared<VhostPort>(path, kLocalDescriptors, pool, shown, *reader);
  }
  PortOptions port;
  port.shown = shown;
  port.descriptors = kLocalDescriptors;
  if (driver == LocalDriver::memif) {
    port.device = device_name("net_memif");
    port.arguments = std::string("role=") + (end == kServerEnd ? "server" : "client") +
                     ",id=0,socket-abstract=no,bsize=9216,rsize=" +
                     std::to_string(std::countr_zero(kLocalDescriptors)) + ",socket=" + path;
  } else {
    port.device = device_name("net_virtio_user");
    // Packed rings move fewer cache lines between the ends: pings took 1.26 us where split ones
    // took 1.39, in alternated runs. Every frame fits a buffer, so that none need be merged, which
    // lets the driver handle them as vectors where the processor has AVX-512: another 0.1 us.
    port.arguments = "queues=1,packed_vq=1,mrg_rxbuf=0,vectorized=1,queue_size=" +
                     std::to_string(kLocalDescriptors) + ",path=" + path;
  }
  return std::make_shared<EalPort>(port, pool);
}

}  // namespace

link::Host local_host(int end, uint32_t number) {
  const uint32_t host = end == kServerEnd ? 1 : 2 + number % 250;
  link::Host result;
  result.ip = link::IpAddress::from_v4((169u << 24) | (254u << 16) | (77u << 8) | host);
  // 02: locally administered.
  result.mac.bytes = {
      0x02, 0x64, 0x72, 0x6c, static_cast<uint8_t>(end), static_cast<uint8_t>(number)};
  return result;
}

void let_driver_notice(Interface& interface, LocalDriver driver) {
  if (driver != LocalDriver::memif) return;
  const uint64_t deadline = now_ns() + kPatienceMs * 1'000'000;
  // Nothing tells when the driver has noticed but the state of the link.
  while (interface.share().port().link_up() && now_ns() < deadline) {
    sleep_until(now_ns() + 1'000'000);
  }
  Environment::get().settle_interrupts();
}

void wait_until_let_go(int connection, LocalDriver driver) {
  if (driver != LocalDriver::memif) return;
  shutdown(connection, SHUT_WR);
  pollfd other{connection, POLLIN, 0};
  ::poll(&other, 1, kPatienceMs);  // what is readable is its end: servers send nothing now
}

std::unique_ptr<Interface> open_local(int end, LocalDriver driver, const std::string& path,
                                      uint32_t number, uint16_t slot, uint32_t generation,
                                      Pool& pool, const std::string& shown, WakeFd* reader) {
  InterfaceOptions options;
  const link::Host self = local_host(end, number);
  options.address = {self.ip, 24};
  options.udp_port = kLocalUdpPort;
  options.mtu = kLocalMtu;
  options.checksums = link::Checksums::none;  // memory has checksums of its own
  options.only_peer = local_host(1 - end, number);
  options.mac = self.mac;
  options.slot = slot;
  options.generation = generation;
  // vhost and memif do; virtio-user's other end reads from our buffers whenever it looks.
  options.copies_sent = end == kServerEnd || driver == LocalDriver::memif;
  return std::make_unique<Interface>(PortShare(open_port(end, driver, path, pool, shown, reader)),
                                     options);
}

}  // namespace drlnet::dpdk
