#include "wire/directory.h"

namespace drlnet {
namespace {

constexpr uint32_t kMostShards = 64, kMostTables = 256;

void put(ByteWriter& writer, const std::vector<TableTally>& tables) {
  writer.put(static_cast<uint32_t>(tables.size()));
  for (const TableTally& one : tables) {
    writer.text(one.table);
    for (const uint64_t figure :
         {one.created, one.drawn, one.live_items, one.draws_left, one.streams}) {
      writer.put(figure);
    }
  }
}

bool get(ByteReader& reader, std::vector<TableTally>& tables) {
  const auto count = reader.get<uint32_t>();
  if (count > kMostTables) return false;
  tables.clear();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    TableTally& one = tables.emplace_back();
    one.table = reader.text();
    for (uint64_t* figure :
         {&one.created, &one.drawn, &one.live_items, &one.draws_left, &one.streams}) {
      *figure = reader.get<uint64_t>();
    }
  }
  return reader.ok();
}

}  // namespace

void encode(const DirectoryRequest& request, std::vector<std::byte>& bytes) {
  ByteWriter writer(bytes);
  writer.put(request.places);
  writer.put(request.first);
  writer.put(static_cast<uint32_t>(request.addresses.size()));
  for (const std::string& address : request.addresses) writer.text(address);
  put(writer, request.tables);
}

bool decode(std::span<const std::byte> bytes, DirectoryRequest& request) {
  ByteReader reader(bytes);
  request.places = reader.get<uint32_t>();
  request.first = reader.get<uint32_t>();
  const auto count = reader.get<uint32_t>();
  if (count > kMostShards) return false;
  request.addresses.clear();
  for (uint32_t i = 0; i < count; ++i) request.addresses.emplace_back(reader.text());
  return get(reader, request.tables) && reader.finished();
}

void encode(const DirectoryReply& reply, std::vector<std::byte>& bytes) {
  ByteWriter writer(bytes);
  writer.put(reply.lineage);
  writer.put(reply.first);
  writer.put(reply.params_version);
  writer.put(static_cast<uint32_t>(reply.shards.size()));
  for (const ShardEntry& shard : reply.shards) {
    writer.text(shard.address);
    writer.put(uint32_t{shard.lost});
    writer.put(shard.streams);
  }
  put(writer, reply.tables);
}

bool decode(std::span<const std::byte> bytes, DirectoryReply& reply) {
  ByteReader reader(bytes);
  reply.lineage = reader.get<uint64_t>();
  reply.first = reader.get<uint32_t>();
  reply.params_version = reader.get<uint64_t>();
  const auto count = reader.get<uint32_t>();
  if (count > kMostShards) return false;
  reply.shards.clear();
  for (uint32_t i = 0; i < count; ++i) {
    ShardEntry& shard = reply.shards.emplace_back();
    shard.address = reader.text();
    shard.lost = reader.get<uint32_t>() != 0;
    shard.streams = reader.get<uint64_t>();
  }
  return get(reader, reply.tables) && reader.finished();
}

}  // namespace drlnet
