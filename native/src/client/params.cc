// Params: published in chunks, by one thread at a time, and fetched whole.
#include <algorithm>

#include "client/client.h"
#include "wire/codec.h"

namespace drlnet {

uint64_t Client::publish(std::span<const std::byte> params) {
  constexpr size_t kChunk = kMaxRequestBytes - sizeof(PublishHeader);
  // The server puts together the chunks of a session: those of two threads would become one.
  struct Turn {
    explicit Turn(Client& of) : client(of) {
      Lock lock = client.take_lock();
      client.run_until(
          lock, deadline_in(client.timeout_ns_), [&] { return !client.publishing_; },
          [] { return std::string("publish: another thread, which publishes by this client"); });
      client.publishing_ = true;
    }
    ~Turn() {
      const Lock lock = client.take_lock();
      client.publishing_ = false;
      client.tell_others();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    Client& client;
  } const turn(*this);
  uint64_t version = 0;
  const auto send = [&](size_t at) {
    const size_t n = std::min(kChunk, params.size() - at);
    call(
        Operation::publish,
        [&](auto& body) {
          ByteWriter writer(body);
          writer.put(PublishHeader{params.size(), at});
          writer.raw(params.subspan(at, n));
        },
        [&](auto reply) { version = record_of<PublishReply>(reply).version; });
    return at + n;
  };
  for (;;) {
    const uint64_t began = reconnects();
    try {
      size_t at = 0;
      do {
        at = send(at);
      } while (at < params.size());
      return version;
    } catch (const Error& error) {
      // In another session the server has none of the chunks.
      if (error.status() != Status::bad_request || reconnects() == began) throw;
    }
  }
}

uint64_t Client::fetch(uint64_t newer_than, std::vector<std::byte>& bytes) {
  uint64_t version = 0;
  call(
      Operation::fetch, [&](auto& body) { ByteWriter(body).put(FetchRequest{newer_than}); },
      [&](auto reply) {
        const auto head = record_of<FetchReply>(reply);
        if (head.version <= newer_than) return;
        version = head.version;
        const auto params = reply.subspan(sizeof head);
        bytes.assign(params.begin(), params.end());
      });
  return version;
}

}  // namespace drlnet
