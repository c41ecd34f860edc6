#include <doctest/doctest.h>

#include "transport/link/address.h"

namespace drlnet::link::test {

TEST_CASE("IP addresses are read and written as people do") {
  for (const char* text : {"10.7.0.2", "0.0.0.0", "255.255.255.255", "fd00::2", "::", "ff02::1"}) {
    REQUIRE(IpAddress::parse(text).has_value());
    CHECK(IpAddress::parse(text)->text() == text);
    CHECK(IpAddress::parse(text)->v4() == (std::string_view(text).find(':') == std::string::npos));
  }
  CHECK(*IpAddress::parse("10.7.0.2") == IpAddress::from_v4(0x0a070002));
  CHECK(*IpAddress::parse("::ffff:10.7.0.2") == IpAddress::from_v4(0x0a070002));
  for (const std::string_view text : {"", "10.7.0", "10.7.0.256", "10.7.0.2 ", "fd00:::2", "host",
                                      "fe80::1%eth0", "10.7.0.2/24"}) {
    CHECK(!IpAddress::parse(text));
  }
  CHECK(!IpAddress::parse(std::string_view("10.7.0.2\0", 9)));
}

TEST_CASE("the empty address, a group and broadcast belong to no host") {
  for (const char* text : {"10.7.0.1", "127.0.0.1", "240.0.0.1", "fd00::1", "fe80::1", "::1"}) {
    CHECK(IpAddress::parse(text)->one_host());
  }
  for (const char* text :
       {"0.0.0.0", "224.0.0.1", "239.1.2.3", "255.255.255.255", "::", "ff02::1"}) {
    CHECK(!IpAddress::parse(text)->one_host());
  }
}

TEST_CASE("a subnet holds the addresses that share its prefix, of its family") {
  const auto holds = [](const char* subnet, const char* address) {
    REQUIRE(Subnet::parse(subnet).has_value());
    return Subnet::parse(subnet)->contains(*IpAddress::parse(address));
  };
  CHECK(holds("10.7.0.2", "10.7.0.255"));
  CHECK(!holds("10.7.0.2", "10.7.1.0"));
  CHECK(holds("10.7.0.2/23", "10.7.1.0"));
  CHECK(!holds("10.7.0.2/23", "10.7.2.0"));
  CHECK(holds("10.7.0.2/0", "192.168.0.1"));
  CHECK(!holds("10.7.0.2/0", "fd00::1"));
  CHECK(holds("10.7.0.2/32", "10.7.0.2"));
  CHECK(!holds("10.7.0.2/32", "10.7.0.3"));
  CHECK(holds("fd00::2", "fd00::ffff:1"));
  CHECK(!holds("fd00::2", "fd00:0:0:1::2"));
  CHECK(holds("fd00::2/126", "fd00::3"));
  CHECK(!holds("fd00::2/127", "fd00::4"));
  CHECK(holds("::/0", "fd00::1"));
  CHECK(!holds("::/0", "10.7.0.1"));
  for (const char* text : {"10.7.0.2/", "10.7.0.2/33", "10.7.0.2/-1", "10.7.0.2/24 ", "fd00::/129",
                           "/24", "10.7.0.2/256", "10.7.0.2/x"}) {
    CHECK(!Subnet::parse(text));
  }
}

}  // namespace drlnet::link::test
