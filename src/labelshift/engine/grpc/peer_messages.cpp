#include "labelshift/engine/grpc/peer_messages.hpp"

#include <fmt/format.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <algorithm>
#include <new>

#include "federation.pb.h"
#include "labelshift/core/base/printable.hpp"
#include "labelshift/engine/engine.hpp"

namespace labelshift::peer {
namespace {

namespace pb = labelshift::wire::v1;

constexpr std::size_t kFirstRoom = std::size_t{4} << 20;  // of a message that comes in pieces

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kPeer, "a message has " + what + "; do both sides run the same version?");
}

template <typename Array>
Array fixed(const std::string& bytes, const char* what) {
  Array result;
  if (bytes.size() != result.size())
    refuse(fmt::format("{} of {} bytes, expected {}", what, bytes.size(), result.size()));
  std::memcpy(result.data(), bytes.data(), result.size());
  return result;
}

std::string text(const std::string& bytes, std::size_t most, const char* what) {
  if (bytes.size() > most) refuse(fmt::format("{} of {} bytes, expected at most {}", what, bytes.size(), most));
  return bytes;
}

template <typename Array>
std::string raw(const Array& array) {
  return {reinterpret_cast<const char*>(array.data()), array.size()};
}

CallId read(const pb::Call& from) {
  return {text(from.run(), kMostRunBytes, "a run"), from.serial(), from.round()};
}

Piece read(pb::Piece& from) {
  if (from.data().empty() || from.data().size() > kPieceBytes)
    refuse(fmt::format("a piece of {} bytes, expected 1 to {}", from.data().size(), kPieceBytes));
  return {read(from.call()), from.own(), from.offset(), std::move(*from.mutable_data())};
}

Failure read(const pb::Failure& from) {
  Failure failure{.call = read(from.call())};
  if (from.kind() > static_cast<std::uint32_t>(last_of(ErrorKind{})) + 1) refuse("a kind of error that is not known");
  if (from.kind() > 0) failure.kind = static_cast<ErrorKind>(from.kind() - 1);
  if (from.remedy() > static_cast<std::uint32_t>(last_of(Remedy{}))) refuse("a remedy that is not known");
  failure.remedy = static_cast<Remedy>(from.remedy());
  failure.sentence = printable(text(from.sentence(), kMostSentenceBytes, "a sentence"));
  return failure;
}

Card read(const pb::Card& from) {
  Card card{.run = {.run = text(from.run(), kMostRunBytes, "a run"),
                    .settings = text(from.settings(), kMostSettingsBytes, "settings"),
                    .protocol = from.protocol()},
            .node = from.node(),
            .nodes = from.nodes()};
  if (card.node >= card.nodes) refuse(fmt::format("a node {} of {}", card.node + 1, card.nodes));
  return card;
}

void write(const CallId& from, pb::Call& to) {
  to.set_run(from.run);
  to.set_serial(from.serial);
  to.set_round(from.round);
}

void write(const Piece& from, pb::Piece& to) {
  write(from.call, *to.mutable_call());
  to.set_own(from.own);
  to.set_offset(from.offset);
  to.set_data(from.data);
}

void write(const AnswerHead& from, pb::AnswerHead& to) {
  write(from.call, *to.mutable_call());
  to.set_size(from.size);
  to.set_checksum(from.checksum);
  to.set_data(from.data);
}

void write(const RequestHead& from, pb::RequestHead& to) {
  write(from.call, *to.mutable_call());
  to.set_own_size(from.own_size);
  to.set_own_checksum(from.own_checksum);
  to.set_size(from.size);
  to.set_checksum(from.checksum);
  to.set_own(from.own);
  to.set_data(from.data);
}

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

[[noreturn]] void refuse_bytes() {
  refuse("bytes that are none of the protocol");
}

template <typename Message>
Message parse_bytes(std::span<const std::byte> bytes) {
  Message message;
  if (bytes.size() > kMostMessageBytes || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    refuse_bytes();
  return message;
}

/// The same without a copy of what lies in many places.
template <typename Message>
Message parse_buffer(const grpc::ByteBuffer& buffer) {
  grpc::ByteBuffer same(buffer);
  grpc::ProtoBufferReader reader(&same);
  Message message;
  if (!reader.status().ok() || !message.ParseFromZeroCopyStream(&reader)) refuse_bytes();
  return message;
}

std::string limited(std::string* bytes, std::size_t most, const char* what) {
  if (bytes->size() > most)
    refuse(fmt::format("{} of {} bytes with a head, expected at most {}", what, bytes->size(), most));
  return std::move(*bytes);
}

void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

/// A message of which `kind` is the field: what `inner` has already, and so many of the bytes from `at` on as one may
/// have as its last field `data`.
template <typename Inner>
grpc::ByteBuffer with_bytes(int kind, const Inner& inner, const std::shared_ptr<const Bytes>& bytes, std::size_t at) {
  constexpr auto tag = [](int field) { return static_cast<char>(field << 3 | 2); };  // of a field with a length
  const std::size_t size = std::min(kPieceBytes, bytes->size() - at);
  std::string head = inner.SerializeAsString() + tag(Inner::kDataFieldNumber);
  put_varint(head, size);
  std::string outer(1, tag(kind));
  put_varint(outer, head.size() + size);
  // gRPC takes bytes that it may not change, by a pointer that does not say so.
  auto* const held = new std::shared_ptr<const Bytes>(bytes);
  const grpc::Slice slices[] = {grpc::Slice(outer + head),
                                grpc::Slice(
                                    const_cast<std::byte*>(bytes->data() + at), size,
                                    [](void* one) { delete static_cast<std::shared_ptr<const Bytes>*>(one); }, held)};
  return {slices, 2};
}

/// The same for both directions, since a piece has the same number in FromNode and FromCoordinator.
void add_pieces(std::vector<grpc::ByteBuffer>& messages, const CallId& call, bool own,
                const std::shared_ptr<const Bytes>& bytes, std::size_t from) {
  static_assert(static_cast<int>(pb::FromNode::kPiece) == static_cast<int>(pb::FromCoordinator::kPiece));
  for (std::size_t at = from; at < bytes->size(); at += kPieceBytes) {
    pb::Piece piece;
    write(call, *piece.mutable_call());
    piece.set_own(own);
    piece.set_offset(at);
    messages.push_back(with_bytes(pb::FromNode::kPiece, piece, bytes, at));
  }
}

FromNode read(pb::FromNode from) {
  switch (from.kind_case()) {
    case pb::FromNode::kHello: {
      const pb::Hello& hello = from.hello();
      return Hello{hello.protocol(), text(hello.name(), kMostNameBytes, "a name"),
                   fixed<SessionId>(hello.session(), "a session")};
    }
    case pb::FromNode::kAnswer: {
      pb::AnswerHead& head = *from.mutable_answer();
      return AnswerHead{read(head.call()), head.size(), head.checksum(),
                        limited(head.mutable_data(), kPieceBytes, "a piece")};
    }
    case pb::FromNode::kPiece:
      return read(*from.mutable_piece());
    case pb::FromNode::kFailure:
      return read(from.failure());
    case pb::FromNode::KIND_NOT_SET:
      break;
  }
  refuse("no kind that is known");
}

FromCoordinator read(pb::FromCoordinator from) {
  switch (from.kind_case()) {
    case pb::FromCoordinator::kCard:
      return read(from.card());
    case pb::FromCoordinator::kRequest: {
      pb::RequestHead& head = *from.mutable_request();
      return RequestHead{read(head.call()),
                         head.own_size(),
                         head.own_checksum(),
                         head.size(),
                         head.checksum(),
                         limited(head.mutable_own(), kMostOwnBytes, "a part for this node"),
                         limited(head.mutable_data(), kPieceBytes, "a piece")};
    }
    case pb::FromCoordinator::kPiece:
      return read(*from.mutable_piece());
    case pb::FromCoordinator::kCancel:
      return Cancel{read(from.cancel().call())};
    case pb::FromCoordinator::kDone:
      return Done{text(from.done().run(), kMostRunBytes, "a run")};
    case pb::FromCoordinator::KIND_NOT_SET:
      break;
  }
  refuse("no kind that is known");
}

}  // namespace

Digest digest_of(std::span<const std::byte> bytes) {
  Digest digest;
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(),
                 nullptr) != 1)
    throw std::bad_alloc();
  return digest;
}

std::string hexadecimal(const Digest& digest) {
  std::string digits;
  for (const std::byte byte : digest) digits += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return digits;
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

FromNode parse_from_node(std::span<const std::byte> bytes) {
  return read(parse_bytes<pb::FromNode>(bytes));
}

FromCoordinator parse_from_coordinator(std::span<const std::byte> bytes) {
  return read(parse_bytes<pb::FromCoordinator>(bytes));
}

std::string encode(const FromNode& message) {
  pb::FromNode to;
  std::visit(Overloaded{[&](const Hello& from) {
                          to.mutable_hello()->set_protocol(from.protocol);
                          to.mutable_hello()->set_name(from.name);
                          to.mutable_hello()->set_session(raw(from.session));
                        },
                        [&](const AnswerHead& from) { write(from, *to.mutable_answer()); },
                        [&](const Piece& from) { write(from, *to.mutable_piece()); },
                        [&](const Failure& from) {
                          write(from.call, *to.mutable_failure()->mutable_call());
                          to.mutable_failure()->set_kind(from.kind ? static_cast<std::uint32_t>(*from.kind) + 1 : 0);
                          to.mutable_failure()->set_remedy(static_cast<std::uint32_t>(from.remedy));
                          to.mutable_failure()->set_sentence(from.sentence.substr(0, kMostSentenceBytes));
                        }},
             message);
  return to.SerializeAsString();
}

std::string encode(const FromCoordinator& message) {
  pb::FromCoordinator to;
  std::visit(Overloaded{[&](const Card& from) {
                          to.mutable_card()->set_protocol(from.run.protocol);
                          to.mutable_card()->set_run(from.run.run);
                          to.mutable_card()->set_settings(from.run.settings);
                          to.mutable_card()->set_node(static_cast<std::uint32_t>(from.node));
                          to.mutable_card()->set_nodes(static_cast<std::uint32_t>(from.nodes));
                        },
                        [&](const RequestHead& from) { write(from, *to.mutable_request()); },
                        [&](const Piece& from) { write(from, *to.mutable_piece()); },
                        [&](const Cancel& from) { write(from.call, *to.mutable_cancel()->mutable_call()); },
                        [&](const Done& from) { to.mutable_done()->set_run(from.run); }},
             message);
  return to.SerializeAsString();
}

grpc::ByteBuffer to_buffer(std::string bytes) {
  auto* const owned = new std::string(std::move(bytes));
  const grpc::Slice slice(
      owned->data(), owned->size(), [](void* held) { delete static_cast<std::string*>(held); }, owned);
  return {&slice, 1};
}

FromNode from_node(const grpc::ByteBuffer& buffer) {
  return read(parse_buffer<pb::FromNode>(buffer));
}

FromCoordinator from_coordinator(const grpc::ByteBuffer& buffer) {
  return read(parse_buffer<pb::FromCoordinator>(buffer));
}

std::vector<grpc::ByteBuffer> answer_messages(const CallId& call, const std::shared_ptr<const Bytes>& bytes) {
  pb::AnswerHead head;
  write(AnswerHead{call, bytes->size(), checksum_of(*bytes)}, head);
  std::vector<grpc::ByteBuffer> messages = {with_bytes(pb::FromNode::kAnswer, head, bytes, 0)};
  add_pieces(messages, call, /*own=*/false, bytes, kPieceBytes);
  return messages;
}

OutgoingRequest::OutgoingRequest(CallId call, Bytes shared)
    : call_(std::move(call)),
      shared_(std::make_shared<const Bytes>(std::move(shared))),
      checksum_(checksum_of(*shared_)) {}

std::vector<grpc::ByteBuffer> OutgoingRequest::messages(const std::shared_ptr<const Bytes>& own) const {
  RequestHead head{call_, own->size(), checksum_of(*own), shared_->size(), checksum_};
  const bool whole = own->size() <= kMostOwnBytes;
  if (whole) head.own.assign(reinterpret_cast<const char*>(own->data()), own->size());
  pb::RequestHead to;
  write(head, to);
  // What is for all comes after what is for the node alone, so it is not with the head if that is not.
  const std::size_t came = whole ? kPieceBytes : 0;
  std::vector<grpc::ByteBuffer> messages = {whole ? with_bytes(pb::FromCoordinator::kRequest, to, shared_, 0)
                                                  : to_buffer(encode(FromCoordinator(head)))};
  if (!whole) add_pieces(messages, call_, /*own=*/true, own, 0);
  add_pieces(messages, call_, /*own=*/false, shared_, came);
  return messages;
}

Assembly::Assembly(std::uint64_t size, std::uint64_t checksum, std::uint64_t most) : size_(size), checksum_(checksum) {
  if (size > most)
    throw Error(ErrorKind::kPeer,
                fmt::format("it announces {} bytes, expected at most {}; does it run this version, with the same data "
                            "columns and model?",
                            size, most));
}

void Assembly::add(std::uint64_t offset, std::string data) {
  if (offset != bytes_.size() || data.size() > missing())
    throw Error(ErrorKind::kPeer, fmt::format("a piece of {} bytes begins at {}, expected {} with at most {} to follow",
                                              data.size(), offset, bytes_.size(), missing()));
  if (bytes_.empty()) {
    bytes_ = std::move(data);
    return;
  }
  // What was announced may never come, so there is no more room than a start, or twice what has come.
  if (const std::size_t needed = bytes_.size() + data.size(); needed > bytes_.capacity()) {
    std::string roomier;  // reserve() of one that has bytes takes more than it is asked for
    roomier.reserve(std::min<std::uint64_t>(size_, std::max(2 * bytes_.size(), kFirstRoom)));
    roomier += bytes_;
    bytes_ = std::move(roomier);
  }
  bytes_ += data;
}

std::string Assembly::take() {
  if (checksum_of(std::as_bytes(std::span(bytes_))) != checksum_)
    throw Error(ErrorKind::kPeer,
                "a message has another checksum than was announced; look for a fault in the network or the sender");
  return std::move(bytes_);
}

}  // namespace labelshift::peer
