#include "client/sample_stream.h"

#include "base/assert.h"
#include "wire/codec.h"

namespace drlnet {

SampleStream::SampleStream(Client& client, uint32_t table, uint32_t batch,
                           std::vector<Destination> buffers)
    : client_(client), table_(table), batch_(batch), buffers_(std::move(buffers)) {
  DRLNET_ASSERT(!buffers_.empty());
  for (size_t i = 0; i < buffers_.size(); ++i) idle_.push_back(i);
  if (buffers_.size() > 1) client_.keep_moving(buffers_[0].reply_bytes());
}

SampleStream::~SampleStream() {
  for (const Ahead& ahead : ahead_) client_.abandon(ahead.id);
}

void SampleStream::ask(size_t buffer, Deadline deadline) {
  const CallId id = client_.start(
      Operation::sample, deadline,
      [&](auto& body) { ByteWriter(body).put(SampleRequest{table_, batch_}); }, buffers_[buffer]);
  ahead_.push_back({id, buffer});
}

size_t SampleStream::next(Deadline deadline) {
  for (;;) {
    while (!idle_.empty()) {
      ask(idle_.back(), deadline);  // where this throws, the buffer stays idle
      idle_.pop_back();
    }
    const Ahead first = ahead_.front();
    client_.wait(first.id, deadline);  // on a timeout the request stays: next() may be called again
    ahead_.pop_front();
    idle_.push_back(first.buffer);
    Status outcome = Status::ok;
    client_.collect(first.id, deadline, [&](Status status, auto reply) {
      outcome = status;
      if (status != Status::sample_expired) throw_if_refused(status, reply);
    });
    if (outcome == Status::ok) return first.buffer;
    ++expired_;  // drawn too long ago: the next one is younger
  }
}

}  // namespace drlnet
