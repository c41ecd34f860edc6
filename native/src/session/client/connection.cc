#include "session/client/connection.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.h"
#include "base/world.h"
#include "wire/messages.h"

namespace drlnet {
namespace {

// Busy machines stall a process for 8 ms; asking again sooner only adds to the load.
constexpr uint64_t kMinTimeoutNs = 20'000'000;
constexpr uint64_t kMaxTimeoutNs = 1'000'000'000;
constexpr uint64_t kKeepAliveNs = 1'000'000'000;  // for requests that the server holds

}  // namespace

Connection::Connection(Connected connected, std::string name, const std::optional<ClientKey>& key)
    : transport_(std::move(connected.transport)),
      server_(connected.server),
      outbox_(*transport_),
      name_(std::move(name)),
      client_(random_secret()),
      checked_(transport_->may_alter_bytes()),
      pull_window_(pull_window_of(*transport_)),
      timeout_ns_(kMinTimeoutNs) {
  for (size_t i = 0; i < kLanes; ++i) {
    lanes_[i].calls.resize(kLaneWindow[i]);
    lanes_[i].window = kLaneWindow[i];
  }
  nonce_ = random_secret();
  if (key && checked_) keyed_ = std::make_unique<Keyed>(*key);
}

Connection::~Connection() {
  if (state_ == State::open) say_bye();
}

void Connection::say_bye() {
  if (TxFrame* frame = outbox_.next(server_, frames_apart_, sealing())) {
    write_header(frame->data, header_for(FrameKind::bye, Call{}));
    frame->length = kHeaderBytes;
    outbox_.flush();
  }
}

Call& Connection::begin(Operation operation) {
  DRLNET_ASSERT(has_room(operation));
  LaneCalls& lane = lanes_[static_cast<size_t>(lane_of(operation))];
  Call& call = lane.call(lane.next);
  // A caller that has not collected its answer must not block others that share the lane.
  if (lane.taken & lane.bit(lane.next)) parked_.push_back(std::exchange(call, Call{}));
  lane.taken |= lane.bit(lane.next);
  call.state = Call::State::idle;
  call.operation = operation;
  call.request = lane.next++;
  call.body.clear();
  call.reply.clear();
  call.destination = {};
  call.unwanted = false;
  call.status = Status::ok;
  return call;
}

void Connection::withdraw(Call& call) {
  LaneCalls& lane = lanes_[static_cast<size_t>(lane_of(call.operation))];
  DRLNET_ASSERT(call.state == Call::State::idle && call.request + 1 == lane.next);
  lane.taken &= ~lane.bit(--lane.next);
}

CallId Connection::submit(Call& call, uint64_t now) {
  DRLNET_ASSERT(call.state == Call::State::idle && call.body.size() <= kMaxRequestBytes);
  call.state = Call::State::sending;
  call.expected_bytes = static_cast<uint32_t>(call.destination.reply_bytes());
  call.wait = 0;
  call.next_fragment = call.attempts = 0;
  call.reply_bytes = call.asked = call.got = 0;
  call.issued_ns = now;
  call.heard_ns = 0;
  call.retry_at_ns = call.last_sent_ns = 0;
  call.probes = 0;
  call.repeated = false;
  ++active_;
  LaneCalls& lane = lanes_[static_cast<size_t>(lane_of(call.operation))];
  lane.active |= lane.bit(call.request);
  if (state_ == State::open) {
    call.begin_sending(static_cast<uint32_t>(frame_bytes_));
    // Behind those that wait already.
    unsent_ = !(unsent_ ? send_requests(now) : send_unsent(call, now));
    outbox_.flush();
  }
  next_deadline_ = 0;
  return {lane_of(call.operation), call.request};
}

CallId Connection::submit(Call& call) { return submit(call, now_ns()); }

Call& Connection::parked(CallId id) {
  const auto parked = std::ranges::find_if(parked_, [&](const Call& other) {
    return other.request == id.request && lane_of(other.operation) == id.lane;
  });
  DRLNET_ASSERT(parked != parked_.end());
  return *parked;
}

void Connection::release(CallId id) {
  Call& released = call(id);
  DRLNET_ASSERT(released.state == Call::State::done);
  LaneCalls& lane = lanes_[static_cast<size_t>(id.lane)];
  if (&released == &lane.call(id.request)) {
    lane.taken &= ~lane.bit(id.request);
  } else {
    parked_.erase(parked_.begin() + (&released - parked_.data()));
  }
}

void Connection::abandon(CallId id) {
  Call& abandoned = call(id);
  if (abandoned.state == Call::State::done) return release(id);
  abandoned.unwanted = true;
  abandoned.destination = {};
}

void Connection::detach(CallId id) {
  Call& detached = call(id);
  if (detached.destination.empty()) return;
  // What has not begun to come will come into `reply`; what was refused lies there already.
  if (detached.status == Status::ok && detached.got > 0) {
    detached.reply.resize(detached.destination.reply_bytes());
    detached.destination.read(0, detached.reply);
  }
  detached.destination = {};
}

void Call::begin_sending(uint32_t frame_bytes) {
  sent.begin(static_cast<uint32_t>(body.size()), frame_bytes - kHeaderBytes);
  orders.assign(sent.count(), 0);
  asks.clear();
}

bool Connection::progress() { return state_ != State::lost && round(receive()); }

bool Connection::glance() {
  if (state_ == State::lost) return false;
  const auto frames = receive();
  return !frames.empty() && round(frames);
}

bool Connection::round(std::span<const RxFrame> frames) {
  prefetch(frames);
  const uint64_t now = now_ns();
  size_t placed = 0;
  for (const RxFrame& frame : frames) {
    std::span<const std::span<std::byte>> parts;
    if (frame.placed_bytes > 0) parts = expected_.frames()[placed++].parts;
    if (frame.from == server_) {
      traffic_.received(frame.data.size() + frame.placed_bytes);
      if (keyed_) {
        on_keyed_frame(frame, now);
      } else if (whole(frame, parts)) {
        on_frame(frame, now);
      }
    }
    if (state_ == State::lost) return true;
  }
  next_deadline_ = now + kKeepAliveNs;
  if (state_ == State::hello) {
    if (sizing_until_ != 0 && now >= sizing_until_) {
      state_ = State::open;
      resume_calls();
    } else if (now >= hello_at_ns_) {
      say_hello(now);
    }
    next_deadline_ = sizing_until_ != 0 ? sizing_until_ : hello_at_ns_;
  }
  held_ = false;
  if (state_ == State::open && active_ > 0) {
    if (unsent_) unsent_ = !send_requests(now);
    look_for_losses(now);
    each_active([&](Call& call) {
      if (call.state == Call::State::receiving) send_pulls(call, now);
      recover(call, now);
      if (call.retry_at_ns != 0 && now >= call.retry_at_ns && !probe(call, now)) repair(call, now);
      if (call.retry_at_ns != 0) next_deadline_ = std::min(next_deadline_, call.retry_at_ns);
    });
  }
  note_window(now);
  if (!outbox_.flush()) next_deadline_ = std::min(next_deadline_, now + 1'000'000);
  return !frames.empty();
}

// A wait for room begins and ends with the round that saw it.
void Connection::note_window(uint64_t now) {
  if (held_ == (held_since_ns_ != 0)) return;
  if (held_) {
    ++window_waits_;
    held_since_ns_ = now;
  } else {
    window_wait_ns_ += now - std::min(now, held_since_ns_);
    held_since_ns_ = 0;
  }
}

// Whether it is as the server sent it, as far as a checksum tells. A refusal may come from another
// version, which has none.
bool Connection::whole(const RxFrame& frame, std::span<const std::span<std::byte>> placed) {
  if (!checked_ || intact(frame.data, placed)) return true;
  FrameHeader header;
  if (!parse_frame(frame.data, header, frame.placed_bytes) && header.version != kVersion &&
      !sealed(frame.data)) {
    return true;
  }
  ++altered_;
  return false;
}

void Connection::on_frame(const RxFrame& received, uint64_t now) {
  const std::span<const std::byte> frame = received.data;
  FrameHeader header;
  if (parse_frame(frame, header, received.placed_bytes)) {
    ++drops_;
    return;
  }
  if (header.kind == FrameKind::welcome) {
    Welcome welcome;
    std::memcpy(&welcome, frame_payload(frame).data(), sizeof welcome);
    return on_welcome(welcome, header, frame.size(), now);
  }
  if (header.kind == FrameKind::refuse && state_ == State::hello && header.request == nonce_) {
    std::string cause, remedy;
    decode_error(frame_payload(frame).first(header.length), cause, remedy);
    if (header.status == static_cast<uint16_t>(Status::loading)) return on_loading(cause, now);
    return fail(Error(static_cast<Status>(header.status), cause, remedy));
  }
  if (header.connection != connection_ || state_ != State::open) {
    ++drops_;
    return;
  }
  if (header.kind == FrameKind::reset) {  // the server forgot us: open the session anew
    state_ = State::hello;
    nonce_ = random_secret();
    hello_at_ns_ = sizing_until_ = 0;
    frame_bytes_ = kMinFrameBytes;
    if (keyed_) forget_handshake();
    ++reconnects_;
    return;
  }
  if (header.credit != 0) credit_ = header.credit;
  Call& call = lanes_[static_cast<size_t>(header.lane)].call(header.request);
  if (call.request != header.request || call.state == Call::State::idle ||
      call.state == Call::State::done || call.operation != header.operation) {
    ++duplicates_;
    return;
  }
  switch (header.kind) {
    case FrameKind::ack:
      return on_ack(call, frame_payload(frame), now);
    case FrameKind::pending:
      if (call.state == Call::State::receiving) return;
      note_arrived(call, 0, call.next_fragment, now);
      for (uint32_t i = 0; i < call.sent.count(); ++i) {
        if (!call.sent.has(i)) {
          if (i < call.next_fragment) in_flight_ -= charge_of(call, i);
          call.sent.add(call.sent.offset_of(i));
        }
      }
      call.state = Call::State::pending;
      call.wait = header.status;
      call.heard_ns = now;
      call.attempts = 0;
      call.retry_at_ns = now + kKeepAliveNs;
      return;
    case FrameKind::response:
      return on_response(call, header, received, now);
    default:
      ++drops_;
  }
}

void Connection::on_ack(Call& call, std::span<const std::byte> payload, uint64_t now) {
  if (payload.size() != kMaxRequestFragments / 8) return;
  // An ack that a later answer has overtaken says nothing new.
  if (call.state == Call::State::receiving || call.state == Call::State::pending) return;
  std::array<uint64_t, kMaxRequestFragments / 64> bitmap;
  std::memcpy(bitmap.data(), payload.data(), sizeof bitmap);
  for (uint32_t i = 0; i < call.sent.count() && i < call.next_fragment; ++i) {
    if (((bitmap[i / 64] >> (i % 64)) & 1) && call.sent.add(call.sent.offset_of(i))) {
      note_arrived(call, i, i + 1, now);
      in_flight_ -= charge_of(call, i);
      window_ = std::min(window_ + kWindowStepBytes, kMaxWindowBytes);
    }
  }
  call.heard_ns = now;
  call.attempts = call.probes = 0;
  if (call.sent.complete()) {
    const bool news = std::exchange(call.state, Call::State::accepted) == Call::State::sending;
    call.retry_at_ns = now + (news && may_probe(call) ? patience_with(call) : kKeepAliveNs);
  } else {
    call.retry_at_ns = now + patience_with(call);
  }
}

void Connection::measured(uint64_t round_trip_ns) {
  // Jacobson (1988); the mean deviation stands in for the standard deviation.
  const double error = static_cast<double>(round_trip_ns) - smoothed_ns_;
  smoothed_ns_ += error / 8;
  variance_ns_ += (std::abs(error) - variance_ns_) / 4;
  timeout_ns_ = std::max(static_cast<uint64_t>(smoothed_ns_ + 4 * variance_ns_), kMinTimeoutNs);
}

uint64_t Connection::timeout_of(const Call& call) const {
  return std::min(timeout_ns_ << std::min(call.attempts, 6u), kMaxTimeoutNs);
}

FrameHeader Connection::header_for(FrameKind kind, const Call& call) {
  FrameHeader header;
  header.kind = kind;
  header.connection = connection_;
  header.packet_number = ++packet_number_;
  header.lane = lane_of(call.operation);
  header.operation = call.operation;
  header.frame_bytes = static_cast<uint16_t>(frame_bytes_);
  header.request = call.request;
  return header;
}

void Connection::fail(Error error) {
  state_ = State::lost;
  failure_ = std::move(error);
}

void Connection::read_metrics(Metrics& metrics, uint64_t now) const {
  const uint64_t held_ns = held_since_ns_ != 0 ? now - std::min(now, held_since_ns_) : 0;
  metrics.set("retransmissions", retransmissions_);
  metrics.set("repulls", repulls_);
  metrics.set("timeouts", timeouts_);
  metrics.set("probes", probes_);
  metrics.set("reconnects", reconnects_);
  metrics.set("server_restarts", restarts_);
  metrics.set("dropped_frames", drops_);
  metrics.set("altered_frames", altered_);
  metrics.set("sealed", uint64_t{keyed_ != nullptr});
  metrics.set("forged_frames", keyed_ ? keyed_->forged : 0);
  metrics.set("replayed_frames", keyed_ ? keyed_->replayed : 0);
  metrics.set("duplicate_frames", duplicates_);
  metrics.set("frame_bytes", static_cast<uint64_t>(frame_bytes_));
  metrics.set("smoothed_round_trip_us", smoothed_ns_ / 1e3);
  metrics.set("credit_bytes", uint64_t{credit_});
  metrics.set("window_bytes", uint64_t{window_});
  metrics.set("pull_window_bytes", uint64_t{pull_window_});
  metrics.set("window_waits", window_waits_);
  metrics.set("window_wait_s", static_cast<double>(window_wait_ns_ + held_ns) / 1e9);
  traffic_.read_metrics("", metrics);
  for (size_t i = 0; i < kOperations; ++i) {
    if (latency_[i] == nullptr) continue;
    metrics.set(std::string(operation_name(static_cast<Operation>(i))) + ".latency", *latency_[i]);
  }
}

}  // namespace drlnet
