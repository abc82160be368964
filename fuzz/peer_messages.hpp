#pragma once

#include <optional>
#include <span>
#include <stdexcept>

#include "labelshift/engine/grpc/peer_messages.hpp"

/// What the fuzzer and the test of its corpus do with bytes that come over gRPC.
namespace labelshift::fuzz {

/// Whether escapes made a sentence longer than one may be.
inline bool is_shortened(const peer::FromCoordinator&) {
  return false;
}
inline bool is_shortened(const peer::FromNode& message) {
  const auto* const failure = std::get_if<peer::Failure>(&message);
  return failure && failure->sentence.size() > peer::kMostSentenceBytes;
}

/// Reads the bytes, or lets them be refused by Error{kPeer} and nothing else. protobuf has many ways to write a
/// message, but what was read must be written so that it is read as the same.
template <auto kParse>
auto read_twice(std::span<const std::byte> bytes) -> std::optional<decltype(kParse(bytes))> {
  try {
    auto message = kParse(bytes);
    const std::string written = peer::encode(message);
    if (kParse(std::as_bytes(std::span(written))) != message && !is_shortened(message))
      throw std::logic_error("another message");
    return message;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kPeer) throw std::logic_error("an error of the wrong kind");
    return std::nullopt;
  }
}

/// Puts a piece where a message of 1,000 bytes has 100 already.
inline void assemble(const peer::Piece& piece) {
  try {
    peer::Assembly assembly(1000, 0, 1000);
    assembly.add(0, std::string(100, 'x'));
    assembly.add(piece.offset, piece.data);
    if (assembly.missing() + 100 + piece.data.size() != 1000) throw std::logic_error("bytes were lost");
    assembly.take();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kPeer) throw std::logic_error("an error of the wrong kind");
  }
}

inline void read_from_node(std::span<const std::byte> bytes) {
  const auto message = read_twice<peer::parse_from_node>(bytes);
  if (!message) return;
  if (const auto* piece = std::get_if<peer::Piece>(&*message)) assemble(*piece);
  if (const auto* head = std::get_if<peer::AnswerHead>(&*message)) assemble({head->call, false, 100, head->data});
}

inline void read_from_coordinator(std::span<const std::byte> bytes) {
  const auto message = read_twice<peer::parse_from_coordinator>(bytes);
  if (!message) return;
  if (const auto* piece = std::get_if<peer::Piece>(&*message)) assemble(*piece);
  if (const auto* head = std::get_if<peer::RequestHead>(&*message)) assemble({head->call, false, 100, head->data});
}

}  // namespace labelshift::fuzz
