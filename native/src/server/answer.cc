#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::answer(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto header = reader.get<AnswerHeader>();
  const bool first_run = slot.state != Slot::State::waiting;
  // It answered an earlier life of this server, too.
  const bool goes_on = recovered_ && questions_.client() == 0;
  if (first_run && ((header.flags & kAnswersFromNow) != 0 || goes_on)) questions_.begin(peer);
  if (!questions_.answers(peer)) {
    return refuse(slot, Status::config,
                  questions_.client() != 0 ? "another client answers this server's questions now"
                                           : "the server has not heard of this client for a minute",
                  "run one `drlnet infer` for a server; start it again where there is none");
  }
  // Answers are taken once, and before it waits: those that asked wait for them.
  for (uint32_t i = 0; first_run && i < header.count && reader.ok(); ++i) {
    const auto asked = reader.get<Asked>();
    const auto bytes = reader.take(asked.bytes);
    reader.align8();
    if (reader.ok()) questions_.answer(asked, bytes, sessions_.clock_ns());
  }
  if (!reader.ok()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  if (first_run) sessions_.retry();
  if (questions_.take(slot.bytes, (header.flags & kQuestionsAtOnce) != 0)) return 0;
  questions_.wait(peer);
  return static_cast<uint16_t>(Wait::questions);
}

uint64_t Server::answering_heard_ns() {
  for (const Peer* peer : sessions_.peers()) {
    if (questions_.answers(*peer)) return peer->last_heard_ns;
  }
  return 0;
}

}  // namespace drlnet
