// Where each shard is, of a server whose shards are in several processes. The process of the first
// shard keeps the directory. Each of the others tells it some twenty times a second where its
// shards listen and what each table has come to there; the answer says the same of all others, so
// that the limiter of each process goes by figures of the others that are some 50 ms old. Clients
// ask where the shards are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "wire/codec.h"

namespace drlnet {

// What some shards of a table have come to.
struct TableTally {
  std::string table;
  uint64_t created = 0, drawn = 0;  // items
  uint64_t live_items = 0, draws_left = 0;
  uint64_t streams = 0;  // leased
};

// A client sets nothing, but for the name of a table whose streams alone are to be counted. A
// process that is to bring shards sets places, and one that has them the rest.
struct DirectoryRequest {
  uint32_t places = 0;                   // for that many shards
  uint32_t first = 0;                    // of its shards
  std::vector<std::string> addresses{};  // of its shards, as other hosts reach them
  std::vector<TableTally> tables{};
};

// A shard, as the client that asks finds it. address: "+N" of the Nth behind the first one, by
// the address at which it found that (which a tunnel or a bridge may have changed); a whole address
// of another host's; or "" of a shard that has not come yet.
struct ShardEntry {
  std::string address;
  bool lost = false;     // for good: with all that it held
  uint64_t streams = 0;  // leased, of the table that was asked for or of all
};

struct DirectoryReply {
  uint64_t lineage = 0;
  uint32_t first = 0;  // of the places
  uint64_t params_version = 0;
  std::vector<ShardEntry> shards;
  std::vector<TableTally> tables;  // of all processes but the one that asks
};

// decode: false for other bytes.
void encode(const DirectoryRequest& request, std::vector<std::byte>& bytes);
bool decode(std::span<const std::byte> bytes, DirectoryRequest& request);
void encode(const DirectoryReply& reply, std::vector<std::byte>& bytes);
bool decode(std::span<const std::byte> bytes, DirectoryReply& reply);

}  // namespace drlnet
