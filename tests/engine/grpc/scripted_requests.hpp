#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "labelshift/engine/grpc/peer_messages.hpp"
#include "labelshift/engine/message.hpp"

// What a RawCoordinator of a test says.

namespace labelshift {

inline std::string said(const peer::FromCoordinator& message) {
  return peer::encode(message);
}

/// The messages of a request, all of its pieces among them.
inline std::vector<std::string> request_messages(const Request& request, const Addressee& to,
                                                 const peer::CallId& call) {
  const Bytes own = to_bytes(to), shared = to_bytes(request);
  std::vector<std::string> messages = {
      said(peer::RequestHead{call, own.size(), peer::checksum_of(own), shared.size(), peer::checksum_of(shared)})};
  const auto add = [&](bool is_own, const Bytes& bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += peer::kPieceBytes) {
      const std::size_t size = std::min(peer::kPieceBytes, bytes.size() - at);
      messages.push_back(said(peer::Piece{call, is_own, at, {reinterpret_cast<const char*>(bytes.data() + at), size}}));
    }
  };
  add(true, own);
  add(false, shared);
  return messages;
}

/// The same, one list behind the other.
inline std::vector<std::string> in_turn(const std::vector<std::vector<std::string>>& lists) {
  std::vector<std::string> all;
  for (const std::vector<std::string>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace labelshift
