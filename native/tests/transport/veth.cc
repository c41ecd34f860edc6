#include "transport/veth.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace drlnet::test {
namespace {

bool run(const std::string& command) { return std::system((command + " >&2").c_str()) == 0; }

bool join(const VethPair& pair) {
  const std::string mtu = " mtu " + std::to_string(pair.mtu);
  const std::string ends[] = {pair.server, pair.client};
  if (!run("ip link add " + ends[0] + mtu + " type veth peer name " + ends[1] + mtu)) return false;
  for (const std::string& end : ends) {
    // The kernel shall send nothing of its own.
    if (!run("ip link set " + end + " addrgenmode none") || !run("ip link set " + end + " up")) {
      return false;
    }
  }
  return true;
}

std::string join_all() {
  if (!run("ip -V >/dev/null")) return "it takes ip(8): apt-get install iproute2";
  if (unshare(CLONE_NEWNET) != 0) {
    return std::string("a network namespace of its own takes root: ") + std::strerror(errno);
  }
  if (!run("ip link set lo up") || !join(kPacketPair) || !join(kXdpPair)) {
    return "this kernel makes no veth interfaces";
  }
  return {};
}

// Before main(): a thread keeps the namespace that it was started in, and DPDK's are started by the
// first test that opens one of its links.
const std::string g_trouble = join_all();

}  // namespace

void join_again(const VethPair& pair) {
  REQUIRE(run(std::string("ip link delete ") + pair.server));
  REQUIRE(join(pair));
}

const std::string& veth_trouble() { return g_trouble; }

}  // namespace drlnet::test
