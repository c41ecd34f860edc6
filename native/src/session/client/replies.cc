// The client's side of a session: replies, from their first frame to their last.
#include <algorithm>
#include <cstring>

#include "base/streaming_copy.h"
#include "base/world.h"
#include "session/client/connection.h"
#include "wire/messages.h"

namespace drlnet {
namespace {

// The longest reply that a server of ours gives (PROTOCOL.md).
uint32_t max_reply_bytes(const Call& call, Status status) {
  if (status != Status::ok) return kMaxErrorBytes;
  return call.operation == Operation::fetch ? kMaxParamsBytes + sizeof(FetchReply) : kMaxReplyBytes;
}

}  // namespace

void Connection::on_response(Call& call, const FrameHeader& header, const RxFrame& frame,
                             uint64_t now) {
  if (call.state != Call::State::receiving && !begin_reply(call, header, now)) return;
  const auto status = static_cast<Status>(header.status);
  if (status != call.status && call.status == Status::ok && header.length == header.total_bytes &&
      header.length <= kMaxErrorBytes) {
    // A refusal, whole: what the reply was made of is gone, and so is all that has come of it.
    const auto refusal = frame_payload(frame.data);
    call.status = status;
    pulled_ -= call.asked - call.got;
    call.reply.assign(refusal.begin(), refusal.end());
    call.reply_bytes = call.asked = call.got = 0;
    return finish(call, now);
  }
  if (status != call.status || header.total_bytes != call.reply_bytes ||
      !call.received.fits(header.offset, header.length) ||
      (header.offset > 0 && header.offset >= std::max(call.asked, unasked_bytes(call)))) {
    ++drops_;
    return;
  }
  call.heard_ns = now;
  call.attempts = call.probes = 0;
  call.retry_at_ns = now + patience_with(call);
  if (!call.received.add(header.offset)) {
    ++duplicates_;
    return;
  }
  if (frame.placed_bytes > 0) {
    call.destination.repeat(header.offset, header.length);
  } else if (header.length > 0 && !call.unwanted) {
    place(call, header.offset, frame_payload(frame.data));
  }
  // Bytes beyond what we asked for count as asked for.
  const uint32_t end = header.offset + header.length;
  if (end > call.asked) {
    pulled_ += end - call.asked;
    call.asked = end;
  }
  call.got += header.length;
  pulled_ -= header.length;
  const uint32_t index = header.offset / (static_cast<uint32_t>(frame_bytes_) - kHeaderBytes);
  note_received(call, index, now);
  if (call.received.complete()) return finish(call, now);
  coming_ = {header.lane, call.request};
  coming_fragment_ = index + 1;
}

// False when the frame does not belong to a reply to this call: it is dropped, or fails the
// session.
bool Connection::begin_reply(Call& call, const FrameHeader& header, uint64_t now) {
  const auto status = static_cast<Status>(header.status);
  const uint32_t total = header.total_bytes;
  const bool exact = status == Status::ok && call.expected_bytes != 0;
  const uint32_t most = exact ? call.expected_bytes : max_reply_bytes(call, status);
  if (exact ? total != most : total > most) {
    fail(Error(Status::protocol,
               std::string(operation_name(call.operation)) + ": a reply of " +
                   std::to_string(total) + " bytes, expected " + (exact ? "" : "at most ") +
                   std::to_string(most),
               "install the same drlnet on both sides"));
    return false;
  }
  call.received.begin(total, static_cast<uint32_t>(frame_bytes_) - kHeaderBytes);
  if (!call.received.fits(header.offset, header.length)) {
    ++drops_;
    return false;
  }
  note_arrived(call, 0, call.next_fragment, now);
  answers_[static_cast<size_t>(lane_of(call.operation))].came(call.request);
  for (uint32_t i = 0; i < call.next_fragment; ++i) {
    if (!call.sent.has(i)) in_flight_ -= charge_of(call, i);
  }
  window_ = std::min(window_ + kWindowStepBytes, kMaxWindowBytes);
  call.state = Call::State::receiving;
  call.status = status;
  call.reply_bytes = total;
  call.reply.clear();
  call.asked = call.got = 0;
  if (call.received.count() > 1) {
    const uint32_t fragment = static_cast<uint32_t>(frame_bytes_) - kHeaderBytes;
    const uint64_t asked_by = *std::ranges::max_element(call.orders);
    call.asks.assign(1, {0, (unasked_bytes(call) + fragment - 1) / fragment, asked_by, 0});
  }
  return true;
}

// A reply's memory follows what has come of it: a false claim of its size costs us none.
void Connection::place(Call& call, uint32_t offset, std::span<const std::byte> payload) {
  if (call.placed()) return call.destination.write(offset, payload);
  const size_t end = offset + payload.size();
  if (offset == call.reply.size()) {
    call.reply.insert(call.reply.end(), payload.begin(), payload.end());
    return;
  }
  if (end > call.reply.size()) {
    call.reply.resize(std::min<size_t>(call.reply_bytes, std::max(end, 2 * call.reply.size())));
  }
  std::memcpy(call.reply.data() + offset, payload.data(), payload.size());
}

void Connection::finish(Call& call, uint64_t now) {
  call.state = Call::State::done;
  --active_;
  // A long reply takes a while to put in place: the round's clock is too early for it.
  const bool single = call.received.count() == 1;
  if (!single) streaming_fence();  // before another thread learns that it is there
  const uint64_t ended = call.reply_bytes <= kJumboFrameBytes ? now : now_ns();
  const uint64_t latency =
      ended - std::min(ended, call.issued_ns);  // another thread may have issued it
  auto& of_operation = latency_[static_cast<size_t>(call.operation)];
  if (of_operation == nullptr) of_operation = std::make_unique<Histogram>();
  of_operation->record(latency);
  // A request that waited or was repeated says nothing about the network (Karn and Partridge,
  // 1987), nor does one that waited for such a one.
  const bool repeated =
      call.repeated || repeated_ns_[static_cast<size_t>(lane_of(call.operation))] >= call.issued_ns;
  if (call.wait == 0 && call.last_sent_ns == call.issued_ns && single && !repeated) {
    measured(latency);
  }
  LaneCalls& lane = lanes_[static_cast<size_t>(lane_of(call.operation))];
  lane.active &= ~lane.bit(call.request);
  if (call.unwanted) lane.taken &= ~lane.bit(call.request);
  // The next one is the first whose answer is to come now.
  Call* next = head(lane);
  if (next != nullptr && next->retry_at_ns != 0) {
    next->retry_at_ns = std::min(next->retry_at_ns, now + patience_with(*next));
  }
}

uint32_t Connection::eager_bytes() const { return std::min(pull_window_ / 4, kUnaskedBytes); }

// What the server sends of this reply unasked, in whole frames.
uint32_t Connection::unasked_bytes(const Call& call) const {
  const uint32_t fragment = static_cast<uint32_t>(frame_bytes_) - kHeaderBytes;
  const uint32_t eager = std::max(std::min(call.reply_bytes, eager_bytes()), fragment);
  return std::min(call.reply_bytes, (eager + fragment - 1) / fragment * fragment);
}

// Keeps up to a window of reply bytes on their way to us.
void Connection::send_pulls(Call& call, uint64_t now) {
  if (call.asked == 0) return;  // the first frame is still to come
  const uint32_t fragment = static_cast<uint32_t>(frame_bytes_) - kHeaderBytes;
  const uint32_t most = pull_bytes(pull_window_) / fragment * fragment;
  const uint32_t unasked = unasked_bytes(call);
  if (call.asked < unasked) {
    pulled_ += unasked - call.asked;
    call.asked = unasked;
  }
  while (call.asked < call.reply_bytes && (pulled_ == 0 || pulled_ + fragment <= pull_window_)) {
    const uint32_t room = pulled_ == 0 ? most : (pull_window_ - pulled_) / fragment * fragment;
    const uint32_t length = std::min({most, room, call.reply_bytes - call.asked});
    // Few large pulls rather than many small ones: wait until half of one is free.
    if (length < most / 2 && length < call.reply_bytes - call.asked && pulled_ > 0) break;
    const uint32_t first = call.asked / fragment;
    if (!send_pull(call, first, first + (length + fragment - 1) / fragment, now)) return;
    call.asked += length;
    pulled_ += length;
    call.retry_at_ns = now + patience_with(call);
  }
  held_ |= call.asked < call.reply_bytes;
}

// Asks for fragments [first, end).
bool Connection::send_pull(Call& call, uint32_t first, uint32_t end, uint64_t now) {
  TxFrame* frame = outbox_.next(server_, frames_apart_, sealing());
  if (frame == nullptr) return false;
  FrameHeader header = header_for(FrameKind::pull, call);
  header.total_bytes = call.reply_bytes;
  header.offset = call.received.offset_of(first);
  header.length =
      call.received.offset_of(end - 1) + call.received.length_of(end - 1) - header.offset;
  write_header(frame->data, header);
  frame->length = kHeaderBytes;
  traffic_.sent(frame->length);
  call.asks.push_back({first, end, ++order_, now});
  return true;
}

void Connection::repair_reply(Call& call, uint64_t now) {
  call.asks.clear();  // all that is missing is asked for anew
  const Fragments& have = call.received;
  const uint32_t fragment = static_cast<uint32_t>(frame_bytes_) - kHeaderBytes;
  const uint32_t asked = (call.asked + fragment - 1) / fragment;
  const uint32_t most = pull_bytes(pull_window_);
  uint32_t budget = std::max(pull_window_ / 2, fragment);
  for (uint32_t i = 0; i < asked && budget > 0;) {
    if (have.has(i)) {
      ++i;
      continue;
    }
    uint32_t end = i;
    while (end < asked && !have.has(end) && (end - i) * fragment < std::min(budget, most)) {
      ++end;
    }
    if (!send_pull(call, i, end, now)) return;
    ++repulls_;
    budget -= std::min(budget, (end - i) * fragment);
    i = end;
  }
}

}  // namespace drlnet
