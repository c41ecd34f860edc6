#include "settings.h"

#include <algorithm>
#include <iterator>

#include "base/random.h"
#include "transport/transport.h"

namespace drlnet::sim {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TableSpec draw_spec(Random& random, uint64_t capacity, std::initializer_list<uint32_t> payloads) {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = capacity;
  const uint32_t payload = payloads.begin()[random.below(payloads.size())];
  spec.columns = {{"name", DataType::u64, {2}}, {"payload", DataType::u8, {payload}}};
  spec.item.views = {{"name", 0, 0, 0}, {"payload", 1, 0, 0}};
  spec.sampler.priority_exponent = 1;
  spec.seed = random.bits();
  return spec;
}

// Items of several rows: stacks of the rows before, returns of those behind, up to an episode's end
// or over it. Their rows are checked by what windows hold.
void draw_item(Random& random, ItemSpec& item) {
  constexpr int32_t kHorizons[] = {1, 3, 5};
  const int32_t horizon = kHorizons[random.below(std::size(kHorizons))];
  const int32_t back = random.below(2) == 0 ? 3 : 0;
  const Pad pad = random.below(2) == 0 ? Pad::repeat : Pad::zero;
  item.views = {{"name", 0, -back, horizon, pad},
                {"payload", 1, 0, 0},
                {"last_name", 0, horizon, horizon, pad, Align::end},
                {"last_payload", 1, horizon, horizon, pad, Align::end}};
  if (random.below(4) == 0) item.boundary = Boundary::cross;
  if (random.below(4) == 0) item.period = 2;
}

// Error buffers of the least size that settings may have: of what the clients ask for at most.
void draw_limiter(Random& random, LimiterSpec& limiter) {
  constexpr double kRatios[] = {0.25, 1, 2.5};
  limiter.samples_per_insert = kRatios[random.below(std::size(kRatios))];
  limiter.min_size = 1 + random.below(8);
  limiter.batch = kMostDraws;
  limiter.append_burst = kMostAppended;
  limiter.error_buffer = limiter.least_error_buffer();
}

Settings draw_few(Random& random, bool checked) {
  Settings settings;
  settings.span_ns = 3 * kSecond;
  settings.shards = random.below(3) == 0 ? 2 : 1;
  settings.writers = 1 + static_cast<uint32_t>(random.below(3));
  settings.learners = 1 + static_cast<uint32_t>(random.below(2));
  settings.fetchers = 1 + static_cast<uint32_t>(random.below(2));
  constexpr size_t kFrames[] = {1472, kJumboFrameBytes, kMaxFrameBytes};
  settings.frame_bytes = kFrames[random.below(std::size(kFrames))];
  settings.table_bytes = uint64_t{64} << 20;
  const bool few_rows = random.below(4) == 0;
  settings.spec = draw_spec(random, 4096, {8, 200, 3000});
  if (random.below(2) == 0) draw_item(random, settings.spec.item);
  if (few_rows) settings.spec.capacity = uint64_t{128} * settings.spec.item.window();
  if (random.below(2) == 0) settings.durability_ns = random.below(3) == 0 ? 0 : kSecond;
  if (random.below(4) == 0) {
    draw_limiter(random, settings.spec.limiter);
    settings.draw_pause_ns = random.below(2) * kSecond / 16;
    settings.learners = std::max(settings.learners, settings.shards);  // one draws from each
  }
  if (random.below(6) == 0 && checked) {
    settings.keyed = true;
    settings.viewers = 1;
  }
  return settings;
}

// Its server keeps no state: a life of it begins with nothing. Each bound is low in some: what the
// dead hold is then missed by the living.
Settings draw_crowd(Random& random, uint32_t clients) {
  Settings settings;
  constexpr uint64_t kSpans[] = {20, 100, 300};
  settings.span_ns = kSpans[random.below(std::size(kSpans))] * kSecond;
  settings.pause_ns = settings.span_ns / 300;
  settings.shards = random.below(3) == 0 ? 2 : 1;
  settings.learners = 1 + static_cast<uint32_t>(random.below(2));
  settings.watchers = settings.shards;
  settings.actors = clients;
  settings.frame_bytes = 1472;
  settings.table_bytes = uint64_t{2} << 30;
  const bool few_rows = random.below(3) == 0;
  settings.spec = draw_spec(random, uint64_t{clients} * (few_rows ? 3 : 1024) + 64, {8, 64});
  const bool few_sessions = random.below(3) == 0, few_streams = random.below(3) == 0;
  if (few_sessions) settings.limits.sessions = 16 + clients / 2;
  if (random.below(3) == 0) settings.limits.half_open = 64;
  if (few_streams) settings.limits.streams = 16 + clients;
  settings.limited = few_rows || few_sessions || few_streams;
  return settings;
}

}  // namespace

Settings draw_settings(const Wanted& wanted) {
  Random random(wanted.seed ^ 0x5E771465);
  return wanted.clients == 0 ? draw_few(random, wanted.checked)
                             : draw_crowd(random, wanted.clients);
}

std::vector<Fault> faults_of(const Wanted& wanted) {
  const Settings settings = draw_settings(wanted);
  const uint64_t seed = wanted.seed ^ 0xFA17;
  return wanted.clients == 0
             ? draw_faults(seed, settings.hosts(), settings.span_ns,
                           settings.durability_ns.has_value(), settings.keyed)
             : draw_crowd(seed, settings.first_actor(), settings.hosts(), settings.span_ns);
}

}  // namespace drlnet::sim
