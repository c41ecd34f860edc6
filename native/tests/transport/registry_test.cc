#include <algorithm>

#include "base/error.h"
#include "transport/variants.h"

namespace drlnet::test {
namespace {

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.status() == Status::transport);
    CHECK_FALSE(error.remedy().empty());
    return error;
  }
  FAIL("no error was thrown");
  return {Status::ok, "", ""};
}

void expect_listen_error(const std::string& address, const std::string& cause_part) {
  CAPTURE(address);
  const Error error = error_of([&] { listen(address); });
  CAPTURE(error.cause());
  CHECK(error.cause().find(cause_part) != std::string::npos);
}

}  // namespace

TEST_CASE(
    "every registered transport listens, is reached by the address it reports, and is named") {
  for_each_variant(local_variants(), [](const Variant& variant) {
    Link link = make_link(variant);
    const std::string address = link.server->local_address();
    const std::string kind(link.server->kind());
    CHECK(address.starts_with(kind.substr(0, kind.find(':')) + ":"));
    CHECK(address != variant.listen_address);  // a port or a name was picked
    CHECK(link.client->describe(link.server_endpoint) == address);
    CHECK(is_loopback(address));
  });
}

TEST_CASE("both ends of shared memory take it for that, by whichever name each knows it") {
  for (const auto& [listens_at, connects_to] :
       {std::pair("virtio-user", "local"), {"local", "virtio-user"}, {"memif", "local"}}) {
    const Variant variant{"dpdk", std::string("dpdk:") + listens_at + ":0"};
    CAPTURE(variant.listen_address);
    if (!available(variant)) continue;
    const auto server = start_listener(variant);
    const std::string address = server->local_address();
    const std::string name = address.substr(address.rfind(':'));
    const Connected client = connect(std::string("dpdk:") + connects_to + name);
    for (const Transport* end : {server.get(), client.transport.get()}) {
      CHECK(
          !end->may_alter_bytes());  // else one wants a checksum, or a key, and the other has none
      CHECK(end->kind() == "dpdk:local");
    }
  }
}

TEST_CASE("an address in use is refused, and free again when its listener is gone") {
  for_each_variant(local_variants(), [](const Variant& variant) {
    auto first = start_listener(variant);
    const std::string address = first->local_address();
    expect_listen_error(address, "in use");
    first.reset();
    CHECK(listen(address)->local_address() == address);
  });
}

TEST_CASE("a process has one port on an interface; it is free again when that is closed") {
  for (const Variant& variant : bare_variants()) {
    if (variant.connect_address.empty() || !available(variant)) continue;
    for (int round = 0; round < 2; ++round) {
      const auto first = listen(variant.listen_address);
      expect_listen_error(variant.listen_address, "this process has");
    }
  }
}

TEST_CASE("unknown transports are refused with the nearest name") {
  const Error near = error_of([] { connect("upd://127.0.0.1:1"); });
  CHECK(near.cause().find("\"upd\"") != std::string::npos);
  CHECK(near.remedy().find("Did you mean \"udp\"?") != std::string::npos);
  const Error far = error_of([] { connect("127.0.0.1:7447"); });
  CHECK(far.remedy().find("udp, dpdk, memory") != std::string::npos);
  expect_listen_error("", "names no transport");
  expect_listen_error("localhost", "names no transport");
  expect_listen_error("dpdk:nowhere", "no DPDK link is called \"nowhere\"");
  const Error asked = error_of([] { is_loopback("dpdk:nowhere,ip=10.0.0.1/8"); });
  CHECK(asked.cause().find("no DPDK link is called \"nowhere,ip=10.0.0.1/8\"") !=
        std::string::npos);
}

TEST_CASE("malformed and impossible addresses are refused") {
  expect_listen_error("udp://", "no host");
  expect_listen_error("udp://:7447", "no host");
  expect_listen_error("udp://[::1", "without");
  expect_listen_error("udp://[::1]7447", ":PORT");
  expect_listen_error("udp://::1", "brackets");
  expect_listen_error("udp://127.0.0.1:", "invalid port");
  expect_listen_error("udp://127.0.0.1:65536", "invalid port");
  expect_listen_error("udp://127.0.0.1:-1", "invalid port");
  expect_listen_error("udp://127.0.0.1:80x", "invalid port");
  expect_listen_error("udp://no-such-host.invalid:0", "cannot resolve \"no-such-host.invalid\"");
  expect_listen_error("udp://192.0.2.1:0", "cannot listen");  // TEST-NET-1: no host's address
  error_of([] { connect("udp://127.0.0.1:0"); });
  error_of([] { connect("memory:unknown"); });
}

TEST_CASE("loopback addresses are those that only this machine reaches") {
  CHECK(is_loopback("udp://127.0.0.1:7447"));
  CHECK(is_loopback("udp://127.9.9.9"));
  CHECK(is_loopback("udp://localhost:0"));
  CHECK(is_loopback("memory:"));
  CHECK_FALSE(is_loopback("udp://0.0.0.0:7447"));
  CHECK_FALSE(is_loopback("udp://192.0.2.1:7447"));
  CHECK_FALSE(is_loopback("udp://[::]:7447"));
  CHECK_FALSE(is_loopback("udp://[::ffff:192.0.2.1]:7447"));
}

}  // namespace drlnet::test
