// Runs a target over its seeds and the files of folders, mutated: fuzz_TARGET [-seed=S] [-first=I]
// [-runs=N] [FOLDER...]; libFuzzer's other flags are ignored. Run I of seed S is always the same
// input, of the same files: a failure is repeated with -first.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/random.h"
#include "fuzz.h"

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace drlnet::fuzz {
namespace {

uint64_t g_seed = 1, g_run = 0;

void report() {
  char text[128];
  const int length =
      std::snprintf(text, sizeof text, "repeat: -seed=%lu -first=%lu\n",
                    static_cast<unsigned long>(g_seed), static_cast<unsigned long>(g_run));
  if (write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(1);
}

void on_signal(int signal) {
  report();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Numbers at which arithmetic on lengths and counts goes wrong.
uint64_t interesting(Random& random) {
  constexpr uint64_t kNumbers[] = {
      0,          1,          2,          7,          8,          63,     64,    127,
      255,        1232,       8968,       65472,      0x7FFF,     0xFFFF, 65536, 1 << 18,
      0x7FFFFFFF, 0xFFFFFFFF, 1ull << 32, 1ull << 40, 1ull << 63, ~0ull};
  const uint64_t number = kNumbers[random.below(std::size(kNumbers))];
  return random.below(4) == 0 ? number + random.below(5) - 2 : number;
}

void mutate_once(Bytes& input, const std::vector<Bytes>& seeds, Random& random) {
  const size_t at = input.empty() ? 0 : random.below(input.size());
  const size_t rest = input.size() - at;
  switch (random.below(7)) {
    case 0:
      if (rest > 0) input[at] ^= std::byte{1} << static_cast<int>(random.below(8));
      break;
    case 1:
    case 2: {  // overwrite a number of 1, 2, 4 or 8 bytes
      const uint64_t number = interesting(random);
      const size_t width = std::min<size_t>(rest, size_t{1} << random.below(4));
      if (width > 0) std::memcpy(&input[at], &number, width);
      break;
    }
    case 3:
      input.resize(at);
      break;
    case 4:
      input.insert(input.end(), random.below(64), static_cast<std::byte>(random.bits()));
      break;
    case 5: {  // a piece of it once more
      const Bytes piece(input.begin() + at, input.begin() + at + random.below(rest + 1));
      input.insert(input.begin() + random.below(input.size() + 1), piece.begin(), piece.end());
      break;
    }
    default: {  // the end of another seed
      const Bytes& other = seeds[random.below(seeds.size())];
      input.resize(at);
      input.insert(input.end(), other.begin() + random.below(other.size() + 1), other.end());
    }
  }
}

Bytes make_input(const std::vector<Bytes>& seeds, uint64_t run) {
  Random random(g_seed ^ (run * 0x9E3779B97F4A7C15u));
  Bytes input = seeds[random.below(seeds.size())];
  for (uint64_t i = random.below(8); i > 0; --i) mutate_once(input, seeds, random);
  return input;
}

void add_files(const std::filesystem::path& folder, std::vector<Bytes>& inputs) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  for (const auto& path : paths) {
    Bytes& input = inputs.emplace_back(std::filesystem::file_size(path));
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(input.data()), static_cast<std::streamsize>(input.size()));
  }
}

int drive(int count, char** arguments) {
  uint64_t runs = 20'000, first = 0;
  std::vector<Bytes> valid = seeds();
  for (const std::string_view argument : std::span(arguments, count).subspan(1)) {
    if (!argument.starts_with('-')) add_files(argument, valid);
    const size_t equals = argument.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = argument.substr(0, equals);
    const uint64_t value = std::strtoull(argument.data() + equals + 1, nullptr, 0);
    if (name == "-seed") g_seed = value;
    if (name == "-first") first = value;
    if (name == "-runs") runs = value;
  }
  std::printf("%s -seed=%lu -runs=%lu\n", arguments[0], static_cast<unsigned long>(g_seed),
              static_cast<unsigned long>(runs));
  std::fflush(stdout);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(report);
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE}) std::signal(signal, on_signal);
  for (const Bytes& input : valid) run(input);
  for (uint64_t i = first; i < first + runs; ++i) {
    g_run = i;
    run(make_input(valid, i));
  }
  return 0;
}

}  // namespace
}  // namespace drlnet::fuzz

int main(int count, char** arguments) { return drlnet::fuzz::drive(count, arguments); }
