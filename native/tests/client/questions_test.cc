// Questions and answers: clients that ask, one that answers, the server between them.
#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "client/bench.h"

namespace drlnet::test {
namespace {

using Answers = std::vector<std::pair<Asked, std::span<const std::byte>>>;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Answers each question by itself and a mark, until that many are answered.
void echo(Client& client, size_t count) {
  std::vector<std::vector<std::byte>> texts;
  Answers answers;
  uint32_t flags = kAnswersFromNow;
  for (size_t done = 0; done < count;) {
    const AskedQuestions asked = client.answer(answers, flags);
    flags = 0;
    done += answers.size();
    answers.clear();
    texts.clear();
    for (const auto& [from, question] : asked.questions) {
      texts.push_back(bytes_of(text_of(question) + "!"));
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      answers.emplace_back(asked.questions[i].first, texts[i]);
    }
  }
}

// The next questions, waited for.
AskedQuestions next(Client& client, uint32_t flags) {
  AskedQuestions asked = client.answer({}, flags);
  run_until([&] { return !asked.questions.empty() || !asked.gone.empty(); },
            [&] { asked = client.answer({}); });
  return asked;
}

}  // namespace

TEST_CASE("each question has its own answer, once, bare and through a faulty network") {
  constexpr size_t kClients = 4, kQuestions = 200;
  for (const double fault : {0.0, 0.05}) {
    CAPTURE(fault);
    RunningServer server;
    std::vector<std::thread> threads;
    std::atomic<size_t> right = 0;
    for (size_t i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        const auto client = client_of(server, fault, 100 + i);
        for (size_t n = 0; n < kQuestions; ++n) {
          // Some of several frames.
          const std::string question =
              std::to_string(i) + ":" + std::to_string(n) + std::string(n % 7 * 1000, 'x');
          const auto answer = client->ask(bytes_of(question), kPatienceNs);
          right += text_of(answer) == question + "!";
        }
      });
    }
    const auto answering = client_of(server, fault, 7);
    echo(*answering, kClients * kQuestions);
    for (std::thread& thread : threads) thread.join();
    CHECK(right == kClients * kQuestions);
    CHECK(metric(*answering, "inference.questions") == kClients * kQuestions);
    CHECK(metric(*answering, "inference.batches") <= kClients * kQuestions);
    CHECK(metric(*answering, "inference.waiting") == 0);
  }
}

TEST_CASE("a question without an answer is refused, and says what to start") {
  RunningServer server;
  Client client(options_of(server));
  const Error error = error_of([&] { client.ask(bytes_of("?"), 1'000'000); });
  CHECK(error.status() == Status::timeout);
  CHECK(error.cause() == "no inference role answers at this server");
  CHECK(error.remedy().find("drlnet infer") != std::string::npos);
  CHECK(metric(client, "inference.unanswered") == 1);
  Client late(options_of(server));
  std::vector<std::byte> answer;
  std::thread asking([&] { answer = client.ask(bytes_of("now"), kPatienceNs); });
  echo(late, 1);
  asking.join();
  CHECK(text_of(answer) == "now!");
}

TEST_CASE(
    "a client that answers and falls silent holds up others for as long as they have patience") {
  RunningServer server;
  Client silent(options_of(server)), client(options_of(server));
  Error error(Status::ok, "", "");
  std::thread asking([&] { error = error_of([&] { client.ask(bytes_of("?"), 1'000'000); }); });
  CHECK(next(silent, kAnswersFromNow).questions.size() == 1);
  asking.join();
  CHECK(error.status() == Status::timeout);
  CHECK(error.cause() == "the inference role at this server has fallen silent");
}

TEST_CASE("the client that answers next is given what the one before has not answered") {
  RunningServer server;
  Client first(options_of(server)), second(options_of(server)), client(options_of(server));
  std::vector<std::byte> answer;
  std::thread asking([&] { answer = client.ask(bytes_of("q"), kPatienceNs); });
  const AskedQuestions taken = next(first, kAnswersFromNow);
  REQUIRE(taken.questions.size() == 1);
  echo(second, 1);
  asking.join();
  CHECK(text_of(answer) == "q!");
  const auto text = bytes_of("late");
  const Answers late{{taken.questions[0].first, text}};
  const Error error = error_of([&] { first.answer(late); });
  CHECK(error.status() == Status::config);
  CHECK(error.remedy().find("one `drlnet infer`") != std::string::npos);
}

TEST_CASE("a reply that is wanted at once waits for no question") {
  RunningServer server;
  Client answering(options_of(server)), client(options_of(server));
  CHECK(answering.answer({}, kAnswersFromNow | kQuestionsAtOnce).questions.empty());
  std::thread asking([&] { client.ask(bytes_of("q"), kPatienceNs); });
  AskedQuestions asked;
  run_until([&] { return !asked.questions.empty(); },
            [&] { asked = answering.answer({}, kQuestionsAtOnce); });
  // The first is with the client that answers: nothing waits.
  CHECK(answering.answer({}, kQuestionsAtOnce).questions.empty());
  const auto text = bytes_of("a");
  answering.answer(Answers{{asked.questions[0].first, text}}, kQuestionsAtOnce);
  asking.join();
  CHECK(metric(answering, "inference.batches") == 1);
}

TEST_CASE("the client that answers is told which clients have gone") {
  RunningServer server;
  Client answering(options_of(server));
  auto client = std::make_unique<Client>(options_of(server));
  std::thread asking([&] { client->ask(bytes_of("q"), kPatienceNs); });
  const AskedQuestions asked = next(answering, kAnswersFromNow);
  REQUIRE(asked.questions.size() == 1);
  const auto text = bytes_of("a");
  std::thread goes([&] {
    asking.join();
    client.reset();
  });
  AskedQuestions told = answering.answer(Answers{{asked.questions[0].first, text}});
  run_until([&] { return !told.gone.empty(); }, [&] { told = answering.answer({}); });
  goes.join();
  CHECK(told.gone == std::vector{asked.questions[0].first.client});
  CHECK(metric(answering, "inference.clients") == 0);
}

}  // namespace drlnet::test
