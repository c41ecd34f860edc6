// A transport that passes all to another one: a wrapper says only what it changes. Frames are
// not placed at their receiver: a wrapper may want to look at them, or change them.
#pragma once

#include <utility>

#include "transport/transport.h"

namespace drlnet {

class ForwardingTransport : public Transport {
 public:
  std::span<TxFrame> reserve(size_t count) override { return inner_->reserve(count); }
  size_t send_burst(std::span<const TxFrame> frames) override { return inner_->send_burst(frames); }
  std::span<const RxFrame> recv_burst() override { return inner_->recv_burst(); }
  WaitPoint arm() override { return inner_->arm(); }
  size_t mtu(const Endpoint& to) override { return inner_->mtu(to); }
  bool reliable() const override { return inner_->reliable(); }
  bool may_alter_bytes() const override { return inner_->may_alter_bytes(); }
  bool takes_joined_frames() const override { return inner_->takes_joined_frames(); }
  bool bursts_are_cheap() const override { return inner_->bursts_are_cheap(); }
  size_t receive_capacity_bytes() const override { return inner_->receive_capacity_bytes(); }
  std::string local_address() const override { return inner_->local_address(); }
  std::string describe(const Endpoint& endpoint) const override {
    return inner_->describe(endpoint);
  }
  std::string_view kind() const override { return inner_->kind(); }
  std::string trouble() const override { return inner_->trouble(); }
  TransportCounters counters() const override { return inner_->counters(); }

 protected:
  explicit ForwardingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  Transport& inner() { return *inner_; }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace drlnet
