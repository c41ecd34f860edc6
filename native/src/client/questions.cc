// Questions and answers: calls that may wait for as long as the other side is there.
#include "client/client.h"
#include "wire/codec.h"

namespace drlnet {

void Client::call_held(Operation operation, Fill fill,
                       FunctionRef<void(std::span<const std::byte>)> visit) {
  constexpr uint64_t kPatienceNs = 1'000'000'000;
  const CallId id = start(operation, deadline_in(timeout_ns_), fill);
  try {
    while (!wait(id, deadline_in(kPatienceNs + timeout_ns_), kPatienceNs)) {
    }
  } catch (...) {
    abandon(id);
    throw;
  }
  collect(id, deadline_in(timeout_ns_), [&](Status status, std::span<const std::byte> reply) {
    throw_if_refused(status, reply);
    visit(reply);
  });
}

std::vector<std::byte> Client::ask(std::span<const std::byte> question, uint64_t patience_ns) {
  std::vector<std::byte> answer;
  call_held(
      Operation::ask,
      [&](auto& body) {
        ByteWriter writer(body);
        writer.put(AskHeader{patience_ns});
        writer.raw(question);
      },
      [&](auto reply) { answer.assign(reply.begin(), reply.end()); });
  return answer;
}

AskedQuestions Client::answer(std::span<const std::pair<Asked, std::span<const std::byte>>> answers,
                              uint32_t flags) {
  AskedQuestions asked;
  call_held(
      Operation::answer,
      [&](auto& body) {
        ByteWriter writer(body);
        writer.put(AnswerHeader{static_cast<uint32_t>(answers.size()), flags});
        for (const auto& [to, bytes] : answers) {
          writer.put(Asked{to.client, to.request, static_cast<uint32_t>(bytes.size()), 0});
          writer.raw(bytes);
          writer.align8();
        }
      },
      [&](auto reply) {
        ByteReader reader(reply);
        const auto header = reader.get<QuestionsHeader>();
        const auto gone = reader.records<uint64_t>(header.gone);
        asked.gone.assign(gone.begin(), gone.end());
        for (uint32_t i = 0; i < header.count && reader.ok(); ++i) {
          const auto from = reader.get<Asked>();
          const auto bytes = reader.take(from.bytes);
          reader.align8();
          asked.questions.emplace_back(from, std::vector(bytes.begin(), bytes.end()));
        }
        if (!reader.finished()) {
          throw Error(Status::protocol, "the questions of a reply do not parse",
                      "install the same drlnet on both sides");
        }
      });
  return asked;
}

}  // namespace drlnet
