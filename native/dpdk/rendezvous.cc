#include "rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace drlnet::dpdk {
namespace {

constexpr int kInvitationPatienceMs = 5000;  // the server attaches a device meanwhile
constexpr size_t kDescriptors = 3;

Error system_error(const std::string& shown, const std::string& what, const std::string& remedy) {
  return {Status::transport, shown + ": " + what + ": " + std::strerror(errno), remedy};
}

std::string private_directory(const std::string& shown) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string directory = runtime != nullptr && *runtime != '\0'
                                    ? std::string(runtime) + "/drlnet"
                                    : "/tmp/drlnet-" + std::to_string(geteuid());
  const std::string remedy = "Set XDG_RUNTIME_DIR to a directory of your own.";
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    throw system_error(shown, "cannot make " + directory, remedy);
  }
  struct stat facts{};
  if (lstat(directory.c_str(), &facts) != 0) {
    throw system_error(shown, "cannot look at " + directory, remedy);
  }
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 0077) != 0) {
    throw Error(Status::transport, shown + ": " + directory + " is open to other users", remedy);
  }
  return directory;
}

bool is_at(const Descriptor& file, const std::string& path) {
  struct stat held{}, found{};
  return fstat(file.get(), &held) == 0 && lstat(path.c_str(), &found) == 0 &&
         held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

// The process that was given a name for want of one, PID-NUMBER, perhaps with a shard behind it;
// nothing for other names.
std::optional<pid_t> owner_of(std::string_view name) {
  pid_t process = 0;
  unsigned number = 0;
  const char* const end = name.data() + name.size();
  const auto [dash, error] = std::from_chars(name.data(), end, process);
  if (error != std::errc{} || dash == end || *dash != '-') return {};
  const auto [rest, wrong] = std::from_chars(dash + 1, end, number);
  if (wrong != std::errc{}) return {};
  if (rest != end && !std::string_view(rest, end).starts_with(kShardSuffix)) return {};
  return process;
}

// Removes what killed servers with fresh names have left: those names are not taken again.
void remove_stale(const std::filesystem::path& directory) {
  std::error_code ignored;  // of files that another server removes meanwhile
  std::vector<std::filesystem::path> files;
  for (auto entry = std::filesystem::directory_iterator(directory, ignored);
       entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    files.push_back(entry->path());
  }
  for (const auto& file : files) {
    const auto owner = owner_of(file.stem().native());
    // A server that is starting has made its lock, and may not hold it yet.
    if (file.extension() != ".lock" || !owner || kill(*owner, 0) == 0) continue;
    const Descriptor lock(open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (lock.get() < 0 || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    for (const auto& other : files) {
      if (other.stem() == file.stem() && other != file) std::filesystem::remove(other, ignored);
    }
    std::filesystem::remove(file, ignored);  // last: it tells of the others
  }
}

}  // namespace

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}
Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

std::optional<DoorbellMemory> DoorbellMemory::create() {
  Descriptor memory(memfd_create("drlnet-doorbell", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Sealed: to look at memory that a client has cut off would end us (SIGBUS).
  if (memory.get() < 0 || ftruncate(memory.get(), sizeof(DoorbellPage)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return std::nullopt;
  }
  auto mapped = map(std::move(memory));
  if (mapped) new (mapped->page()) DoorbellPage;
  return mapped;
}

std::optional<DoorbellMemory> DoorbellMemory::map(Descriptor memory) {
  struct stat facts{};
  if (fstat(memory.get(), &facts) != 0 ||
      facts.st_size < static_cast<off_t>(sizeof(DoorbellPage))) {
    return std::nullopt;
  }
  void* address =
      mmap(nullptr, sizeof(DoorbellPage), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (address == MAP_FAILED) return std::nullopt;
  return DoorbellMemory(std::move(memory), static_cast<DoorbellPage*>(address));
}

DoorbellMemory::~DoorbellMemory() {
  if (page_ != nullptr) munmap(page_, sizeof(DoorbellPage));
}
DoorbellMemory::DoorbellMemory(DoorbellMemory&& other) noexcept
    : memory_(std::move(other.memory_)), page_(std::exchange(other.page_, nullptr)) {}

LocalPaths local_paths(const std::string& name, const std::string& shown) {
  const std::string meeting = private_directory(shown) + "/" + name;
  constexpr size_t kRoomForNumber = 12;
  if (meeting.size() + kRoomForNumber >= sizeof(sockaddr_un::sun_path)) {
    throw Error(Status::transport, shown + ": the name is too long", "Choose a shorter one.");
  }
  return {meeting, meeting + ".lock"};
}

MeetingPoint::MeetingPoint(const LocalPaths& paths_, const std::string& shown) : paths(paths_) {
  do {
    lock = Descriptor(open(paths.lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock.get() < 0) throw system_error(shown, "cannot make " + paths.lock, "Remove that file.");
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      throw Error(Status::transport, shown + ": the name is in use by another server",
                  "Stop it, choose another name, or 0 for a free one.");
    }
  } while (!is_at(lock, paths.lock));  // a server that ended meanwhile has removed it
  remove_stale(std::filesystem::path(paths.meeting).parent_path());
  unlink(paths.meeting.c_str());  // left by a server that was killed: its lock is free
  socket = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = unix_address(paths.meeting);
  const bool bound =
      socket.get() >= 0 &&
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      chmod(paths.meeting.c_str(), 0600) == 0;  // its directory is private already
  if (!bound || listen(socket.get(), 64) != 0) {
    throw system_error(shown, "cannot listen at " + paths.meeting, "Remove that file.");
  }
}

MeetingPoint::~MeetingPoint() {
  if (socket.get() >= 0) unlink(paths.meeting.c_str());
  unlink(paths.lock.c_str());  // it is ours until the descriptor is closed
}

bool invite(int connection, const Invitation& invitation, std::span<const int> descriptors) {
  iovec part{const_cast<Invitation*>(&invitation), sizeof invitation};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kDescriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof invitation);
}

Invited ask_for_invitation(const LocalPaths& paths, const std::string& shown) {
  Invited invited;
  invited.connection = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(paths.meeting);
  if (connect(invited.connection.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof address) != 0) {
    throw Error(Status::transport, shown + ": no server of that name runs here",
                "start it with `drlnet serve --listen " + shown + "`, or correct the address");
  }
  pollfd readable{invited.connection.get(), POLLIN, 0};
  if (poll(&readable, 1, kInvitationPatienceMs) != 1) {
    throw Error(Status::transport, shown + ": the server does not answer", "Restart the server.");
  }
  Invitation& invitation = invited.invitation;
  iovec part{&invitation, sizeof invitation};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kDescriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t length = recvmsg(invited.connection.get(), &message, MSG_CMSG_CLOEXEC);
  cmsghdr* header = length > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::array<int, kDescriptors> fds{-1, -1, -1};
    std::memcpy(fds.data(), CMSG_DATA(header),
                std::min(header->cmsg_len - CMSG_LEN(0), sizeof fds));
    invited.doorbell_memory = Descriptor(fds[0]);
    invited.server_wake = Descriptor(fds[1]);
    invited.client_wake = Descriptor(fds[2]);
  }
  if (length != static_cast<ssize_t>(sizeof invitation) || invitation.magic != Invitation{}.magic) {
    throw Error(Status::protocol, shown + ": another version of drlnet answers",
                "install the same drlnet on both sides");
  }
  invitation.cause.back() = invitation.remedy.back() = invitation.device_path.back() = '\0';
  if (!invitation.accepted) {
    const std::string cause = invitation.cause.data();  // the server may have named itself
    throw Error(Status::server_full, cause.starts_with(shown) ? cause : shown + ": " + cause,
                invitation.remedy.data());
  }
  if (invited.client_wake.get() < 0) {
    throw Error(Status::transport, shown + ": the server's descriptors did not come through",
                "Raise the limit on open files (ulimit -n).");
  }
  return invited;
}

bool hung_up(int connection) {
  char byte;
  const ssize_t length = recv(connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace drlnet::dpdk
