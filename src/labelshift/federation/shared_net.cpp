#include "labelshift/federation/shared_net.hpp"

#include <fmt/format.h>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

SharedNet::SharedNet(std::unique_ptr<Net> net, bool batch_norms)
    : net_(std::move(net)),
      shared_(*net_, batch_norms),
      fresh_(shared_.gather_local(net_->parameters(), net_->buffers())) {}

void SharedNet::take(std::span<const float> message, std::uint64_t serial) {
  if (std::ssize(message) != shared_.size())
    throw Error(ErrorKind::kPeer, fmt::format("a message has {} weights, expected {}", message.size(), shared_.size()));
  if (serial != 0 && serial == held_) return;
  shared_.scatter(message, net_->parameters(), net_->buffers());
  held_ = serial;
}

}  // namespace labelshift
