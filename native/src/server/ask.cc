#include "base/assert.h"
#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::ask(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  constexpr auto kWaits = static_cast<uint16_t>(Wait::answer);
  ByteReader reader(body);
  const auto header = reader.get<AskHeader>();
  if (!reader.ok()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  if (slot.state != Slot::State::waiting) {
    // It waits in any case, and lies in its slot from then on.
    questions_.ask(peer, slot, slot.body.subspan(sizeof header, body.size() - sizeof header),
                   header.patience_ns, sessions_.clock_ns());
    sessions_.retry();
    return kWaits;
  }
  Questions::Question* question = questions_.find(peer.client);
  DRLNET_ASSERT(question != nullptr && question->request == slot.request);
  if (question->state == Questions::State::answered) {
    question->state = Questions::State::idle;
    slot.bytes.swap(question->answer);
    return 0;
  }
  if (question->state != Questions::State::given_up) return kWaits;
  question->state = Questions::State::idle;
  question->answered_ns = sessions_.clock_ns();
  return refuse(slot, Status::timeout,
                questions_.client() == 0 ? "no inference role answers at this server"
                                         : "the inference role at this server has fallen silent",
                "start `drlnet infer` with the same settings and the same --server");
}

}  // namespace drlnet
