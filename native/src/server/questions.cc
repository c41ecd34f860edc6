#include "server/questions.h"

#include <algorithm>
#include <utility>

#include "wire/codec.h"

namespace drlnet {

Questions::Question* Questions::find(uint64_t client) {
  const auto found = std::ranges::find(questions_, client, &Question::client);
  return found == questions_.end() ? nullptr : &*found;
}

void Questions::ask(const Peer& peer, const Slot& slot, std::span<const std::byte> body,
                    uint64_t patience_ns, uint64_t now) {
  Question* question = find(peer.client);
  if (question == nullptr) question = &questions_.emplace_back();
  question->client = peer.client;
  question->request = slot.request;
  question->connection = peer.connection;
  question->body = body;
  question->patience_ns = patience_ns;
  question->asked_ns = now;
  ++asked_;
  to_line(*question);
}

void Questions::to_line(Question& question) {
  question.state = State::waiting;
  line_.push_back(question.client);
}

void Questions::begin(const Peer& peer) {
  if (waits_) ready_.push_back(connection_);  // to be refused
  waits_ = time_up_ = false;
  client_ = peer.client;
  connection_ = peer.connection;
  gone_.clear();  // it knew none of them
  for (Question& question : questions_) {
    if (question.state == State::taken) to_line(question);
  }
}

void Questions::answer(const Asked& asked, std::span<const std::byte> bytes, uint64_t now) {
  Question* question = find(asked.client);
  if (question == nullptr || question->request != asked.request) return;
  if (question->state != State::taken) return;
  question->state = State::answered;
  question->answered_ns = now;
  question->answer.assign(bytes.begin(), bytes.end());
  ready_.push_back(question->connection);
}

bool Questions::take(Bytes& reply, bool at_once) {
  waits_ = false;
  const bool time_up = std::exchange(time_up_, false);
  if (line_.empty() && gone_.empty() && !time_up && !at_once) return false;
  ByteWriter writer(reply);
  writer.put(QuestionsHeader{0, static_cast<uint32_t>(gone_.size())});
  writer.raw(std::as_bytes(std::span(gone_)));
  gone_.clear();
  uint32_t count = 0;
  for (; !line_.empty() && reply.size() < kMaxQuestionsBytes; ++count) {
    Question& question = *find(line_.front());
    line_.pop_front();
    question.state = State::taken;
    writer.put(
        Asked{question.client, question.request, static_cast<uint32_t>(question.body.size()), 0});
    writer.raw(question.body);
    writer.align8();
  }
  std::memcpy(reply.data(), &count, sizeof count);
  batches_ += count > 0;
  return true;
}

void Questions::wait(const Peer& peer) {
  connection_ = peer.connection;
  waits_ = true;
}

void Questions::ended(const Peer& peer) {
  std::erase(ready_, peer.connection);
  if (peer.client == client_) {
    client_ = 0;
    waits_ = false;
    gone_.clear();
  }
  if (find(peer.client) == nullptr) return;
  std::erase(line_, peer.client);
  std::erase_if(questions_, [&](const Question& one) { return one.client == peer.client; });
  if (client_ != 0) gone_.push_back(peer.client);
}

bool Questions::keep_house(uint64_t heard, uint64_t now) {
  time_up_ = waits_;
  bool retry = waits_;
  for (Question& question : questions_) {
    if (question.state != State::waiting && question.state != State::taken) continue;
    if (now <= std::max(heard, question.asked_ns) + question.patience_ns) continue;
    std::erase(line_, question.client);
    question.state = State::given_up;
    ready_.push_back(question.connection);
    ++given_up_;
    retry = true;
  }
  return retry;
}

std::optional<uint32_t> Questions::next_ready() {
  if (!ready_.empty()) {
    const uint32_t connection = ready_.back();
    ready_.pop_back();
    return connection;
  }
  if (!waits_ || (line_.empty() && gone_.empty() && !time_up_)) return std::nullopt;
  return connection_;
}

void Questions::read_metrics(Metrics& metrics, uint64_t now) const {
  if (client_ == 0 && asked_ == 0) return;  // no client asks, none answers
  uint64_t idle_since = now;
  for (const Question& question : questions_) {
    if (question.state == State::idle) idle_since = std::min(idle_since, question.answered_ns);
  }
  metrics.set("inference.clients", uint64_t{questions_.size()});
  metrics.set("inference.questions", asked_);
  metrics.set("inference.batches", batches_);
  metrics.set("inference.waiting", uint64_t{line_.size()});
  metrics.set("inference.unanswered", given_up_);
  metrics.set("inference.straggler_s", static_cast<double>(now - idle_since) / 1e9);
}

}  // namespace drlnet
