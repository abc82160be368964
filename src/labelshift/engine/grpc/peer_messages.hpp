#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/engine/grpc/run_card.hpp"
#include "labelshift/engine/wire.hpp"

// The messages of federation.proto as plain structs, checked as far as one message alone can be. What came over the
// network becomes one of these or is refused by Error{kPeer}.

namespace labelshift::peer {

inline constexpr std::size_t kPieceBytes = 256 * 1024;
inline constexpr std::size_t kMostOwnBytes = 32 * 1024;  // of the part for one node, in a head
inline constexpr std::size_t kMostMessageBytes = std::max(kMostSettingsBytes, kPieceBytes + kMostOwnBytes) + 32 * 1024;
inline constexpr std::size_t kMostNameBytes = 256;
inline constexpr std::size_t kMostSentenceBytes = 1000;

using Digest = std::array<std::byte, 32>;  // SHA-256
using SessionId = std::array<std::byte, 16>;

Digest digest_of(std::span<const std::byte> bytes);
/// 64 hexadecimal digits.
std::string hexadecimal(const Digest& digest);

/// TLS keeps messages from being changed. This tells faults of ours and of memory, at the speed of memory: it is XXH3
/// of 64 bits.
std::uint64_t checksum_of(std::span<const std::byte> bytes);

struct CallId {
  std::string run;
  std::uint64_t serial = 0;
  std::uint64_t round = 0;
  bool operator==(const CallId&) const = default;
};

struct Piece {
  CallId call;
  bool own = false;
  std::uint64_t offset = 0;
  std::string data;  // not empty
  bool operator==(const Piece&) const = default;
};

struct Hello {
  std::uint32_t protocol = 0;
  std::string name;
  SessionId session{};
  bool operator==(const Hello&) const = default;
};

struct AnswerHead {
  CallId call;
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
  std::string data = {};  // its first bytes, or nothing
  bool operator==(const AnswerHead&) const = default;
};

struct Failure {
  CallId call;
  std::optional<ErrorKind> kind;  // nothing: a bug
  Remedy remedy = Remedy::kNone;
  std::string sentence;  // fit for a terminal
  bool operator==(const Failure&) const = default;
};

using FromNode = std::variant<Hello, AnswerHead, Piece, Failure>;

struct Card {
  RunCard run;
  Index node = 0;
  Index nodes = 0;
  bool operator==(const Card&) const = default;
};

struct RequestHead {
  CallId call;
  std::uint64_t own_size = 0;
  std::uint64_t own_checksum = 0;
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
  std::string own = {}, data = {};  // the first bytes of both parts, or nothing
  bool operator==(const RequestHead&) const = default;
};

struct Cancel {
  CallId call;
  bool operator==(const Cancel&) const = default;
};

struct Done {
  std::string run;
  bool operator==(const Done&) const = default;
};

using FromCoordinator = std::variant<Card, RequestHead, Piece, Cancel, Done>;

FromNode parse_from_node(std::span<const std::byte> bytes);
FromCoordinator parse_from_coordinator(std::span<const std::byte> bytes);
std::string encode(const FromNode& message);
std::string encode(const FromCoordinator& message);

/// For gRPC. Copies of a buffer share its bytes.
grpc::ByteBuffer to_buffer(std::string bytes);
FromNode from_node(const grpc::ByteBuffer& buffer);
FromCoordinator from_coordinator(const grpc::ByteBuffer& buffer);

/// The messages that carry an answer, the head first. The bytes are not copied: buffers share them.
std::vector<grpc::ByteBuffer> answer_messages(const CallId& call, const std::shared_ptr<const Bytes>& bytes);

/// A request on its way to many nodes.
class OutgoingRequest {
 public:
  OutgoingRequest(CallId call, Bytes shared);
  /// The messages that carry it to a node, the head first. What is for all is not copied: buffers share it.
  std::vector<grpc::ByteBuffer> messages(const std::shared_ptr<const Bytes>& own) const;
  std::size_t size() const { return shared_->size(); }  // of what is for all

 private:
  CallId call_;
  std::shared_ptr<const Bytes> shared_;
  std::uint64_t checksum_;
};

/// Puts a message together whose length and checksum were announced.
class Assembly {
 public:
  /// Throws Error{kPeer} if that is more than `most`, and allocates nothing.
  Assembly(std::uint64_t size, std::uint64_t checksum, std::uint64_t most);

  /// Throws Error{kPeer} unless the piece begins where the last ended and ends where the message does at the latest.
  void add(std::uint64_t offset, std::string data);
  bool complete() const { return bytes_.size() == size_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t missing() const { return size_ - bytes_.size(); }
  /// The memory that it takes now: at most some MiB, or twice the bytes that have come.
  std::uint64_t held() const { return bytes_.capacity(); }
  /// Throws Error{kPeer} if the bytes have another checksum.
  std::string take();

 private:
  std::uint64_t size_;
  std::uint64_t checksum_;
  std::string bytes_;
};

}  // namespace labelshift::peer
