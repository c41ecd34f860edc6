// The client's side of a session: long replies, received where they belong.
#include "session/client/connection.h"

namespace drlnet {
namespace {

// On their way. Of fewer bytes the second copy costs less than it takes to tell where they go.
constexpr uint32_t kPlacedBytes = 64 * 1024;

}  // namespace

std::span<const RxFrame> Connection::receive() {
  // What is sealed is opened first.
  return keyed_ || pulled_ < kPlacedBytes ? transport_->recv_burst() : receive_in_place();
}

// A place is told for this receive alone, and only of fragments that are missing: whatever comes
// later finds no place that holds received bytes, or is the caller's again.
std::span<const RxFrame> Connection::receive_in_place() {
  const size_t most_bytes = transport_->placed_most_bytes();
  const Call* call = most_bytes == 0 ? nullptr : coming_call();
  if (call == nullptr) return transport_->recv_burst();
  const bool same = call->request == coming_.request && lane_of(call->operation) == coming_.lane;
  expected_.find(call->received, call->asked, same ? coming_fragment_ : 0, call->destination,
                 most_bytes);
  if (expected_.empty()) return transport_->recv_burst();
  const auto is = [&](size_t index, std::span<const std::byte> head) {
    FrameHeader header;
    std::memcpy(&header, head.data(), sizeof header);
    return header.kind == FrameKind::response && header.connection == connection_ &&
           header.lane == lane_of(call->operation) && header.operation == call->operation &&
           header.request == call->request &&
           header.status == static_cast<uint16_t>(call->status) &&
           header.total_bytes == call->reply_bytes && header.offset == expected_.offset(index) &&
           header.length == expected_.frames()[index].bytes;
  };
  return transport_->recv_placed({kHeaderBytes, expected_.frames(), is});
}

// The call whose frames come at present, or the next one of which frames have been asked for.
const Call* Connection::coming_call() {
  const auto expects = [](const Call& call) {
    return call.state == Call::State::receiving && call.placed() && call.got < call.asked;
  };
  const Call& last = lanes_[static_cast<size_t>(coming_.lane)].call(coming_.request);
  if (last.request == coming_.request && expects(last)) return &last;
  const Call* next = nullptr;
  each_active([&](const Call& call) {
    if (expects(call) && (next == nullptr || call.request < next->request)) next = &call;
  });
  return next;
}

}  // namespace drlnet
