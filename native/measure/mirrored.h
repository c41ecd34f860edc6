// A learner that mirrors the table: its access to the replay, and what it could be without a
// network. Threading: one thread.
#pragma once

#include <memory>

#include "client/mirror.h"
#include "measure/replay.h"

namespace drlnet::measure {

// In the network, but for the rows: the server draws and names them, and they lie here.
class MirroredReplay final : public Replay {
 public:
  // The client has opened the table, and outlives this. Waits until all rows are here.
  MirroredReplay(Client& client, const ClientOptions& options, const TableSpec& spec);
  void update(std::span<const uint64_t> keys, std::span<const float> priorities) override;

 private:
  void draw(uint32_t batch, std::span<std::byte> out) override;

  std::unique_ptr<MirroredTable> mirrored_;
};

// Batches of items at random places of a mirror that is full, gathered by the code that gathers
// samples by reference, whose references are there already.
size_t gathers(const TableSpec& spec, uint32_t batch, const Loop& loop);

}  // namespace drlnet::measure
