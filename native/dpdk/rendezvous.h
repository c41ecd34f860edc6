// Where the ends of a shared-memory link meet: a Unix socket in a directory of this user's own. The
// server tells a client which device to attach and passes the doorbell; either notices by its end
// of the connection that the other is gone.
#pragma once

#include <sys/un.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "doorbell.h"
#include "transport/dpdk_address.h"

namespace drlnet::dpdk {

sockaddr_un unix_address(const std::string& path);

// An owned descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }

 private:
  int fd_;
};

// The doorbell's memory, mapped.
class DoorbellMemory {
 public:
  static std::optional<DoorbellMemory> create();  // nothing when the system refuses
  static std::optional<DoorbellMemory> map(Descriptor memory);
  ~DoorbellMemory();
  DoorbellMemory(DoorbellMemory&& other) noexcept;
  DoorbellMemory& operator=(DoorbellMemory&&) = delete;
  DoorbellPage* page() const { return page_; }
  int fd() const { return memory_.get(); }

 private:
  DoorbellMemory(Descriptor memory, DoorbellPage* page) : memory_(std::move(memory)), page_(page) {}
  Descriptor memory_;
  DoorbellPage* page_;
};

// What the server sends to a client that has connected; three descriptors come along: the
// doorbell's memory, the server's and the client's eventfd.
struct Invitation {
  std::array<char, 8> magic = {'d', 'r', 'l', 'n', 'e', 't', 'L', '1'};
  uint32_t accepted = 0;  // else cause and remedy say why not
  LocalDriver driver{};
  uint32_t number = 0;  // of the client: its addresses follow from it
  uint32_t descriptors = 0;
  std::array<char, 108> device_path{};
  std::array<char, 160> cause{}, remedy{};
};

struct Invited {
  Descriptor connection;
  Invitation invitation;
  Descriptor doorbell_memory, server_wake, client_wake;
};

// Paths of a name, in a directory that only this user may enter (made when it is missing).
// Throws Error(transport).
struct LocalPaths {
  std::string meeting, lock;
  std::string device(uint32_t number) const { return meeting + "." + std::to_string(number); }
};
LocalPaths local_paths(const std::string& name, const std::string& shown);

// The server's socket, mode 0600. Throws when another process has the name.
struct MeetingPoint {
  MeetingPoint(const LocalPaths& paths, const std::string& shown);
  ~MeetingPoint();
  LocalPaths paths;
  Descriptor lock, socket;
};

bool invite(int connection, const Invitation& invitation, std::span<const int> descriptors);
// Connects and waits for the invitation. Throws Error(transport, server_full).
Invited ask_for_invitation(const LocalPaths& paths, const std::string& shown);
// The other end has closed the connection, or died.
bool hung_up(int connection);

}  // namespace drlnet::dpdk
