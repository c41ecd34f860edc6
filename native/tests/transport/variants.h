// The transports that the suite runs over: every registered one, each IP version, each driver of
// DPDK that needs no hardware, bare and faulty.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "patience.h"
#include "transport/faulty.h"
#include "transport/transport.h"

namespace drlnet::test {

struct Variant {
  std::string name;
  std::string listen_address;        // asks for a fresh port or name
  size_t clients = 40;               // as many of them as a test may start, an even number
  std::string connect_address = {};  // of clients; empty: the listener's
  std::string trouble = {};          // why it cannot be had here
  bool faulty = false;
};

struct Link {
  std::unique_ptr<Transport> server;
  std::unique_ptr<Transport> client;
  Endpoint server_endpoint;
};

// False, with a message, where the machine lacks what the variant needs (IPv6, root).
bool available(const Variant& variant);

// Listeners on this machine alone, each of which picks a free port or name.
const std::vector<Variant>& local_variants();
// Those and listeners on an Ethernet interface.
const std::vector<Variant>& bare_variants();
// Those and each behind a faulty transport.
std::vector<Variant> all_variants();

// Bare ones. A client and its listener know the way to each other when they are returned.
std::unique_ptr<Transport> start_listener(const Variant& variant);
Connected start_client(const Variant& variant, Transport& listener);
Link make_link(const Variant& variant);

// Waits by poll(2) on arm(); false when `deadline_ns` passes first.
bool wait_readable(Transport& transport, uint64_t deadline_ns);

using OnFrame = std::function<void(const RxFrame&)>;
// Receives until `count` frames have come or patience ends; returns how many came.
size_t receive(Transport& transport, size_t count, const OnFrame& on_frame);

// Content that tells which frame it is: a generator seeded with (tag, length).
void fill(std::span<std::byte> data, uint64_t tag);
bool holds(std::span<const std::byte> data, uint64_t tag);

void send_one(Transport& transport, const Endpoint& to, uint64_t tag, size_t length);

template <typename Body>
void for_each_variant(const std::vector<Variant>& variants, const Body& body) {
  for (const Variant& variant : variants) {
    SUBCASE(variant.name.c_str()) {
      if (available(variant)) body(variant);
    }
  }
}

}  // namespace drlnet::test
