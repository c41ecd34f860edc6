#include "eal_port.h"

#include <rte_dev.h>
#include <rte_errno.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace drlnet::dpdk {
namespace {

Error failed(const PortOptions& options, const std::string& what, int code) {
  const std::string said = last_log();
  std::string cause = options.shown + ": " + what + ": " + rte_strerror(code < 0 ? -code : code);
  if (!said.empty()) cause += " (" + said + ")";
  std::string remedy = "DRLNET_DPDK_LOG=1 prints what DPDK says.";
  if (code == -ENOMEM) remedy = "Free some memory, or reserve hugepages (vm.nr_hugepages).";
  if (code == -EPERM || code == -EACCES) remedy = "That driver needs privileges: run as root.";
  if (options.bus == "pci") {
    remedy = "Bind the device to vfio-pci (dpdk-devbind.py --bind=vfio-pci " + options.device +
             ") and see that this user may open it.";
  }
  return {Status::transport, cause, remedy};
}

rte_ether_addr to_rte(const link::MacAddress& mac) {
  rte_ether_addr address{};
  std::memcpy(address.addr_bytes, mac.bytes.data(), mac.bytes.size());
  return address;
}

}  // namespace

EalPort::EalPort(const PortOptions& options, Pool& pool)
    : bus_(options.bus), device_(options.device) {
  Environment::get(bus_ == "pci" ? device_ : "").run([&] {
    attach(options);
    try {
      // On this thread alone ports are opened: what appears meanwhile is this one's.
      const auto before = xdp_sockets();
      configure(options, pool.get());
      xdp_sockets_ = opened_between(before, xdp_sockets());
    } catch (...) {
      close();
      throw;
    }
  });
}

EalPort::~EalPort() {
  Environment::get().run([this] { close(); });
}

void EalPort::attach(const PortOptions& options) {
  // A PCI device that the environment was started for is there already.
  if (rte_eth_dev_get_port_by_name(device_.c_str(), &id_) == 0) return;
  if (rte_eth_dev_count_total() >= RTE_MAX_ETHPORTS) {
    throw Error(Status::server_full,
                options.shown + ": the process has " + std::to_string(RTE_MAX_ETHPORTS) +
                    " DPDK ports, the most that this DPDK is built for",
                "End some of its clients, or connect over udp://.");
  }
  const int code = rte_eal_hotplug_add(bus_.c_str(), device_.c_str(), options.arguments.c_str());
  if (code != 0) throw failed(options, "DPDK cannot open the device", code);
  if (rte_eth_dev_get_port_by_name(device_.c_str(), &id_) != 0) {
    rte_eal_hotplug_remove(bus_.c_str(), device_.c_str());
    throw failed(options, "the device is not a network port", -ENODEV);
  }
}

void EalPort::configure(const PortOptions& options, rte_mempool* pool) {
  rte_eth_dev_info info{};
  int code = rte_eth_dev_info_get(id_, &info);
  if (code != 0) throw failed(options, "cannot ask the device what it can", code);
  rte_eth_conf conf{};
  conf.rxmode.mtu = options.mtu;
  constexpr uint64_t kReceiveChecks = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
  verifies_checksums_ = bus_ == "pci" && (info.rx_offload_capa & kReceiveChecks) == kReceiveChecks;
  if (verifies_checksums_) conf.rxmode.offloads |= kReceiveChecks;
  queues_ = std::min(options.queues, info.max_rx_queues);
  send_queues_ = std::min(options.send_queues, info.max_tx_queues);
  if (queues_ > 1) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf =
        info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
  }
  code = rte_eth_dev_configure(id_, queues_, send_queues_, &conf);
  if (code != 0 && !std::has_single_bit(queues_)) {  // vmxnet3 takes powers of two of them
    queues_ = std::bit_floor(queues_);
    send_queues_ = std::min(send_queues_, queues_);
    code = rte_eth_dev_configure(id_, queues_, send_queues_, &conf);
  }
  if (code != 0) throw failed(options, "cannot configure the device", code);
  uint16_t receive = options.descriptors, transmit = options.descriptors;
  code = rte_eth_dev_adjust_nb_rx_tx_desc(id_, &receive, &transmit);
  if (code != 0) throw failed(options, "cannot size the device's rings", code);
  receive_descriptors_ = static_cast<uint16_t>(receive * queues_);
  for (uint16_t queue = 0; queue < queues_; ++queue) {
    code = rte_eth_rx_queue_setup(id_, queue, receive, SOCKET_ID_ANY, nullptr, pool);
    if (code != 0) throw failed(options, "cannot set up receiving", code);
  }
  for (uint16_t queue = 0; queue < send_queues_; ++queue) {
    code = rte_eth_tx_queue_setup(id_, queue, transmit, SOCKET_ID_ANY, nullptr);
    if (code != 0) throw failed(options, "cannot set up sending", code);
  }
  code = rte_eth_dev_start(id_);
  if (code != 0) throw failed(options, "cannot start the device", code);
  make_turns();
  if (!options.groups.empty()) listen_to_groups(options);
}

// The filter that passes least among those that the driver offers. -ENOTSUP of both: there is none
// to set.
void EalPort::listen_to_groups(const PortOptions& options) {
  std::vector<rte_ether_addr> groups(options.groups.size());
  std::ranges::transform(options.groups, groups.begin(), to_rte);
  int code = rte_eth_dev_set_mc_addr_list(id_, groups.data(), static_cast<uint32_t>(groups.size()));
  if (code == -ENOTSUP) code = rte_eth_allmulticast_enable(id_);
  if (code != 0 && code != -ENOTSUP) throw failed(options, "cannot listen to IPv6's groups", code);
}

void EalPort::close() {
  if (id_ == RTE_MAX_ETHPORTS) return;
  rte_eth_dev_stop(id_);
  // Closing and removing are one for a virtual device; a device that is gone is not an error here.
  rte_eal_hotplug_remove(bus_.c_str(), device_.c_str());
  close_left(xdp_sockets_);
  id_ = RTE_MAX_ETHPORTS;
}

link::MacAddress EalPort::mac() const {
  rte_ether_addr address{};
  rte_eth_macaddr_get(id_, &address);
  link::MacAddress result;
  std::memcpy(result.bytes.data(), address.addr_bytes, result.bytes.size());
  return result;
}

bool EalPort::link_up() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

uint64_t EalPort::missed() const {
  rte_eth_stats stats{};
  if (rte_eth_stats_get(id_, &stats) != 0) return 0;
  return stats.imissed + stats.rx_nombuf;
}

}  // namespace drlnet::dpdk
