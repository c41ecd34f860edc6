// The simulated disk: files that a power cut takes back to what was synced, more or less, as the
// seed says. Its disk.cc takes the place of storage/file.cc. Threading: one thread.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "faults.h"
#include "world.h"

namespace drlnet::sim {

// A file or a folder, whatever its name.
struct Content {
  bool folder = false;
  bool locked = false;
  std::vector<std::byte> bytes;
  uint64_t synced = 0;           // of them
  std::vector<uint64_t> writes;  // where those that are not synced end
};

class Disk {
 public:
  Disk(World& world, uint64_t seed, const std::string& folder);  // that is there
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  static Disk& current();

  // From now on, until its end. A full disk takes nothing, one with errors not all; a bit that rots
  // is one of a synced file below the folder, but for its own files.
  void begin(const Fault& fault);
  void heal() { failing_ = {}; }
  uint64_t failed_ns() const { return failed_ns_; }  // last, some call of it

  // Once no process runs that has files open. Of what was not synced any part may be there.
  void lose_power();

  // For storage/file.h. A process may be killed in each of them. Errors are errno's, negative where
  // there would be a descriptor.
  int create(const std::string& path);
  int open(const std::string& path);
  void close(int descriptor);
  bool try_lock(int descriptor);
  const Content& content(int descriptor) const { return *open_.at(descriptor).content; }
  int append(int descriptor, std::span<const std::byte> bytes);
  int sync(int descriptor);
  void look();  // before anything is read
  int rename(const std::string& from, const std::string& to);
  int sync_folder(const std::string& path);
  void remove(const std::string& path);
  int make_folder(const std::string& path);
  const Content* find(const std::string& path) const;
  std::vector<std::string> list(const std::string& folder) const;

 private:
  using Names = std::map<std::string, std::shared_ptr<Content>>;
  // A change of a folder: `to` names the content, `from` does so no more. Either may be empty.
  struct Change {
    std::string from, to;
    std::shared_ptr<Content> content;
  };
  struct Open {
    std::shared_ptr<Content> content;
    bool locks = false;
  };

  void change(Change change);
  static void apply(const Change& change, Names& names);
  int open(std::shared_ptr<Content> content);
  void take_time(uint64_t most_ns);
  int error(bool takes_room);
  void say(const char* what, const std::string& path) const;
  void rot(uint64_t seed);
  void write(Content& content, std::span<const std::byte> bytes);
  void tear(Content& content);

  World& world_;
  Random random_;
  const uint64_t slowness_;
  Names names_, synced_;         // as they are; as a power cut would leave them
  std::vector<Change> changes_;  // between the two
  std::map<int, Open> open_;
  int next_descriptor_ = 1;
  Fault failing_{};
  uint64_t failed_ns_ = 0;
};

}  // namespace drlnet::sim
