// The client's side of a session: what is sent, when, and sent again.
#include <algorithm>

#include "base/printable.h"
#include "session/client/connection.h"

namespace drlnet {
namespace {

constexpr uint64_t kHelloEveryNs = 100'000'000;
// How long a smaller frame size waits for the welcome of a larger one.
constexpr uint64_t kSizingNs = 5'000'000;
// A server that reads its state: how often it is asked, after what silence it does no longer,
// and how long in all it is waited for.
constexpr uint64_t kLoadingEveryNs = 250'000'000;
constexpr uint64_t kLoadingSilenceNs = 3'000'000'000;
constexpr uint64_t kMostLoadingNs = 1'800'000'000'000;

}  // namespace

Hello Connection::make_hello() const {
  Hello hello;
  hello.client = client_;
  hello.nonce = nonce_;
  if (!transport_->takes_joined_frames()) hello.capabilities |= kFramesApart;
  for (size_t i = 0; i < kLanes; ++i) {
    // The session goes on with the oldest request that is not answered; later ones may be.
    const LaneCalls& lane = lanes_[i];
    const auto finished = [&](uint64_t request) {
      return !(lane.taken & lane.bit(request)) ||
             lane.calls[lane.place(request)].state == Call::State::done;
    };
    uint64_t first = lane.next > lane.window ? lane.next - lane.window : 1;
    while (first < lane.next && finished(first)) ++first;
    for (uint64_t request = first; request < lane.next; ++request) {
      if (finished(request)) hello.finished[i] |= 1u << (request - first);
    }
    hello.first_request[i] = first;
  }
  std::copy_n(name_.begin(), std::min(name_.size(), sizeof hello.name), hello.name);
  return hello;
}

void Connection::say_hello(uint64_t now) {
  hello_at_ns_ = now + kHelloEveryNs;
  if (keyed_) return say_keyed_hello();
  const Hello hello = make_hello();
  probe_sizes(FrameKind::hello, std::as_bytes(std::span(&hello, 1)));
}

// Sends the hello in a frame of each size that the path may carry.
void Connection::probe_sizes(FrameKind kind, std::span<const std::byte> hello) {
  const auto probe = [&](size_t frame_bytes) {
    TxFrame* frame = outbox_.next(server_, true);  // the server may be one that takes no other
    if (frame == nullptr) return;
    FrameHeader header;
    header.kind = kind;
    header.frame_bytes = static_cast<uint16_t>(frame_bytes);
    header.request = nonce_;
    header.length = static_cast<uint32_t>(hello.size());
    write_header(frame->data, header);
    std::memset(frame->data + kHeaderBytes, 0, frame_bytes - kHeaderBytes);
    std::memcpy(frame->data + kHeaderBytes, hello.data(), hello.size());
    frame->length = static_cast<uint32_t>(frame_bytes);
    traffic_.sent(frame->length);
  };
  const size_t most = longest_frame_to(*transport_, server_);
  probe(most);
  for (const size_t usual : kFrameSizes) {
    if (usual < most) probe(usual);
  }
}

// Anybody on the way may say so, as it is not sealed: that is believed for a time at most.
void Connection::on_loading(const std::string& cause, uint64_t now) {
  if (sizing_until_ != 0) return;  // overtaken by a welcome
  if (loading(now).empty()) loading_heard_ns_ = now;
  loading_for_ns_ += now - loading_heard_ns_;
  loading_heard_ns_ = now;
  loading_ = printable(cause);
  hello_at_ns_ = now + kLoadingEveryNs;
  if (loading_for_ns_ < kMostLoadingNs) return;
  fail(Error(Status::session_lost, "for half an hour " + loading_,
             "see whether it gets on, with `drlnet stats`, and start its clients again"));
}

std::string Connection::loading(uint64_t now) const {
  const bool says_so = state_ == State::hello && sizing_until_ == 0 && !loading_.empty();
  return says_so && now < loading_heard_ns_ + kLoadingSilenceNs ? loading_ : std::string();
}

// probed: bytes of its frame.
void Connection::on_welcome(const Welcome& welcome, const FrameHeader& header, size_t probed,
                            uint64_t now) {
  if (welcome.nonce != nonce_ || state_ != State::hello) return;
  if (lineage_ != 0 && welcome.lineage != lineage_) {
    // The session that this hello has opened stays unused: it must not look like a client.
    connection_ = header.connection;
    say_bye();
    return fail(Error(Status::session_lost,
                      "another server is in the place of this session's: its tables and streams "
                      "are gone",
                      "start the clients of this server again; `drlnet serve --state DIR` keeps "
                      "what it has"));
  }
  loading_.clear();
  loading_for_ns_ = 0;
  lineage_ = welcome.lineage;
  if (incarnation_ != 0 && incarnation_ != welcome.incarnation) ++restarts_;
  incarnation_ = welcome.incarnation;
  shard_ = welcome.shard;
  shards_ = welcome.shards;
  connection_ = header.connection;
  credit_ = header.credit;
  frames_apart_ = (welcome.capabilities & kFramesApart) != 0;
  const size_t most = longest_frame_to(*transport_, server_);
  // Requests go in frames of that length, too.
  frame_bytes_ =
      std::max(frame_bytes_, std::min({probed, most, longest_frame_of(2, credit_)}) & ~size_t{7});
  if (sizing_until_ == 0) sizing_until_ = now + kSizingNs;
  // No larger one can come.
  if (probed >= most) sizing_until_ = now;
}

void Connection::resume_calls() {
  in_flight_ = pulled_ = 0;
  answers_ = {};  // of another session
  sizing_until_ = 0;
  window_ = std::max(kFirstWindowBytes, 2 * static_cast<uint32_t>(frame_bytes_));
  unsent_ = true;
  each_active([&](Call& call) {
    call.state = Call::State::sending;
    call.next_fragment = 0;
    call.asked = call.got = 0;
    call.retry_at_ns = 0;
    call.begin_sending(static_cast<uint32_t>(frame_bytes_));
  });
}

// Sends the fragments that were never sent, oldest request of each lane first, within the credit.
// One fragment may always be in flight, so that a small credit cannot stop a session. False when
// some are left.
bool Connection::send_requests(uint64_t now) {
  for (LaneCalls& lane : lanes_) {
    if (lane.active == 0) continue;
    // The oldest request's place in the window; from the window's end it goes on at its beginning.
    const uint32_t older = ~0u << lane.place(lane.next);
    for (const uint32_t part : {lane.active & older, lane.active & ~older}) {
      for (uint32_t left = part; left != 0; left &= left - 1) {
        Call& call = lane.calls[static_cast<size_t>(std::countr_zero(left))];
        if (!send_unsent(call, now)) return false;
      }
    }
  }
  return true;
}

// False when credit or device take no more.
bool Connection::send_unsent(Call& call, uint64_t now) {
  if (call.state != Call::State::sending) return true;
  while (call.next_fragment < call.sent.count()) {
    const uint32_t charge = charge_of(call, call.next_fragment);
    if (in_flight_ > 0 && in_flight_ + charge > std::min(credit_, window_)) {
      held_ = true;
      return false;
    }
    if (!send_fragment(call, call.next_fragment, now)) return false;
    in_flight_ += charge;
    ++call.next_fragment;
    if (call.retry_at_ns == 0) call.retry_at_ns = now + patience_with(call);
  }
  return true;
}

bool Connection::send_fragment(Call& call, uint32_t index, uint64_t now) {
  TxFrame* frame = outbox_.next(server_, frames_apart_, sealing());
  if (frame == nullptr) return false;
  FrameHeader header = header_for(FrameKind::request, call);
  header.total_bytes = static_cast<uint32_t>(call.body.size());
  header.offset = call.sent.offset_of(index);
  header.length = call.sent.length_of(index);
  header.credit = eager_bytes();
  write_header(frame->data, header);
  if (header.length > 0) {
    std::memcpy(frame->data + kHeaderBytes, call.body.data() + header.offset, header.length);
  }
  frame->length = kHeaderBytes + header.length;
  traffic_.sent(frame->length);
  call.orders[index] = ++order_;
  if (call.last_sent_ns == 0) call.issued_ns = now;  // the clock starts with the first frame
  call.last_sent_ns = now;
  return true;
}

// Nothing was heard of the call for a timeout: ask again for what is missing.
void Connection::repair(Call& call, uint64_t now) {
  ++call.attempts;
  call.repeated = true;
  repeated_ns_[static_cast<size_t>(lane_of(call.operation))] = now;
  call.retry_at_ns = now + timeout_of(call);
  timeouts_ += call.state == Call::State::sending || call.state == Call::State::receiving;
  if (call.state == Call::State::receiving) return repair_reply(call, now);
  ++retransmissions_;
  if (call.state == Call::State::sending && call.next_fragment > 0) {
    window_ = std::max(window_ / 2, least_window());
  }
  uint32_t budget = std::min(credit_, window_);
  for (uint32_t i = 0; i < call.next_fragment; ++i) {
    if (call.sent.has(i)) continue;
    const uint32_t charge = charge_of(call, i);
    if (!send_fragment(call, i, now)) return;
    if (charge >= budget) return;
    budget -= charge;
  }
  // All of it arrived and is held: any fragment asks how things stand.
  if (call.sent.complete()) send_fragment(call, 0, now);
}

}  // namespace drlnet
