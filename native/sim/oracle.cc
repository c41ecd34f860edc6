#include "oracle.h"

#include <cstring>

#include "spec/sample_layout.h"
#include "world.h"

namespace drlnet::sim {
namespace {

// The columns, in the table's order.
enum Column : size_t { kName, kPayload };

std::string text(const RowName& name) {
  return "step " + std::to_string(name.step) + " of stream " + std::to_string(name.token);
}

void require(bool kept, const std::string& promise) {
  if (!kept) broken(promise);
}

template <typename T>
T read(std::span<const std::byte> bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.subspan(at, sizeof value).data(), sizeof value);
  return value;
}

}  // namespace

void fill_row(const RowName& name, std::span<std::byte> payload) {
  uint64_t word = splitmix64(name.token ^ splitmix64(name.step + kSplitMixStep));
  for (size_t i = 0; i < payload.size(); ++i) {
    if (i % 8 == 0) word = splitmix64(word + kSplitMixStep);
    payload[i] = static_cast<std::byte>(word >> i % 8 * 8);
  }
}

void Oracle::leased(uint64_t lineage, const Lease& lease) {
  require(lease.next_step == 0, "(1) a new stream begins at its first step");
  require(streams_.emplace(lease.token, StreamLog{.lineage = lineage}).second,
          "(1) a stream is leased to one client");
}

void Oracle::resumed(uint64_t lineage, const Lease& lease) {
  StreamLog& log = streams_.at(lease.token);
  require(log.lineage == lineage, "(1) a stream is resumed where it was leased");
  const std::string here = ": resumed at step " + std::to_string(lease.next_step) + ", " +
                           std::to_string(log.acknowledged) + " acknowledged, " +
                           std::to_string(log.sent) + " sent";
  require(lease.next_step >= log.acknowledged, "(1) what is acknowledged is stored" + here);
  require(lease.next_step <= log.sent, "(1) nothing is stored that was not sent" + here);
  // Their items may have been on their way in another request.
  while (log.acknowledged < lease.next_step) log.uncertain.insert(log.acknowledged++);
}

void Oracle::acknowledged(uint64_t token, uint64_t steps) {
  StreamLog& log = streams_.at(token);
  log.acknowledged = std::max(log.acknowledged, steps);
}

void Oracle::items(uint64_t lineage, std::span<const std::byte> reply, uint32_t count, bool drawn) {
  const SampleLayout layout(spec_);
  const uint64_t payload_bytes = spec_.columns[kPayload].bytes();
  std::vector<std::byte> expected(payload_bytes);
  for (uint32_t i = 0; i < count; ++i) {
    const auto key = read<uint64_t>(reply, layout.keys(count) + 8 * i);
    if (key == kNoKey) {
      require(!drawn, "(1) a drawn item is one that the server holds");
      continue;
    }
    const uint64_t at = layout.window(count, layout.views()[kName].window) + 16 * i;
    const RowName name{read<uint64_t>(reply, at), read<uint64_t>(reply, at + 8)};
    const auto stream = streams_.find(name.token);
    require(stream != streams_.end() && stream->second.lineage == lineage,
            "(1) what is stored was sent: " + text(name));
    require(name.step < stream->second.sent, "(1) what is stored was sent: " + text(name));
    fill_row(name, expected);
    const auto payload = reply.subspan(
        layout.window(count, layout.views()[kPayload].window) + payload_bytes * i, payload_bytes);
    require(std::memcmp(payload.data(), expected.data(), payload_bytes) == 0,
            "(1) a row is stored as it was sent: " + text(name));
    const auto known = rows_.emplace(Key{lineage, key}, name).first;
    require(known->second == name, "(2) a key stays one row's: " + text(name));
  }
}

// Each row, and each key, has one of its own, or nearly so.
float Oracle::initial_priority(const RowName& name) {
  return 1.0f + static_cast<float>(splitmix64(name.token + name.step) % 4096) / 4096;
}

float Oracle::updated_priority(uint64_t key) {
  return 4.0f + static_cast<float>(splitmix64(key) % 65'536) / 65'536;
}

void Oracle::fill_params(uint64_t number, std::vector<std::byte>& params) {
  params.resize(8 + 8 * (splitmix64(number) % 6000));
  for (size_t at = 0; at < params.size(); at += 8) {
    const uint64_t word = at == 0 ? number : splitmix64(number + at);
    std::memcpy(params.data() + at, &word, sizeof word);
  }
}

void Oracle::published(uint64_t lineage, uint64_t version, uint64_t number) {
  const auto known = params_.emplace(Key{lineage, version}, number).first;
  require(known->second == number, "(6) a version of the params is one publication");
}

void Oracle::fetched(uint64_t lineage, uint64_t before, uint64_t version,
                     std::span<const std::byte> params) {
  require(version > before, "(6) params come in order");
  require(params.size() >= 8, "(6) params are whole");
  const auto number = read<uint64_t>(params, 0);
  std::vector<std::byte> expected;
  fill_params(number, expected);
  require(std::ranges::equal(expected, params), "(6) params are whole");
  published(lineage, version, number);
}

void Oracle::stored(uint64_t lineage, uint64_t key, float priority) {
  const RowName& name = rows_.at({lineage, key});
  require(held_[lineage].insert(name).second, "(1) an append is applied once: " + text(name));
  const auto update = updates_.find({lineage, key});
  const unsigned told = update == updates_.end() ? 0 : update->second;
  const bool first = priority == initial_priority(name), later = priority == updated_priority(key);
  require((first && (told & 2) == 0) || (later && told != 0),
          "(2) a priority touches the item that it was meant for, and no other: " + text(name) +
              " has " + std::to_string(priority));
}

void Oracle::complete(uint64_t lineage, uint64_t held_rows) {
  uint64_t rows = 0;
  for (const auto& [token, log] : streams_) rows += log.lineage == lineage ? log.sent : 0;
  if (rows > held_rows) return World::current().mark("rows evicted");
  for (const auto& [token, log] : streams_) {
    if (log.lineage != lineage) continue;
    for (uint64_t step = 0; step < log.acknowledged; ++step) {
      if (log.uncertain.contains(step) || step % kEpisodeSteps == kEpisodeSteps - 1) continue;
      const RowName name{token, step};
      require(held_[lineage].contains(name), "(1) what is acknowledged is stored: " + text(name));
    }
  }
}

}  // namespace drlnet::sim
