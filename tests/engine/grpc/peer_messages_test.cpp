#include "labelshift/engine/grpc/peer_messages.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/peer_messages.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift::peer {
namespace {

const CallId kCall{"run", 77, 5};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(PeerMessages, ComeBackAsTheyWereSent) {
  SessionId session;
  session.fill(std::byte{7});
  EXPECT_EQ(checksum_of({}), 0x2d06800538d394c2);  // as XXH3 is published
  EXPECT_EQ(hexadecimal(digest_of(bytes_of("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  for (const FromNode& message :
       {FromNode(Hello{3, "north", session}), FromNode(AnswerHead{kCall, 1000, 0xcbf4392612345678}),
        FromNode(AnswerHead{kCall, 1000, 1, "abc"}), FromNode(Piece{kCall, false, 12, "abc"}),
        FromNode(Failure{kCall, ErrorKind::kInput, Remedy::kCpu, "no data"}),
        FromNode(Failure{kCall, std::nullopt, Remedy::kNone, "a bug"})})
    EXPECT_EQ(parse_from_node(bytes_of(encode(message))), message);
  for (const FromCoordinator& message :
       {FromCoordinator(Card{{"run", "seed = 1", 2}, 4, 5}), FromCoordinator(RequestHead{kCall, 32, 1, 100, 2}),
        FromCoordinator(RequestHead{kCall, 3, 1, 100, 2, "own", "abc"}), FromCoordinator(Piece{kCall, true, 12, "abc"}),
        FromCoordinator(Cancel{kCall}), FromCoordinator(Done{"run"})})
    EXPECT_EQ(parse_from_coordinator(bytes_of(encode(message))), message);
}

TEST(PeerMessages, ArePrintableAndOfLimitedLength) {
  const auto failure = std::get<Failure>(parse_from_node(
      bytes_of(encode(FromNode(Failure{kCall, ErrorKind::kPeer, Remedy::kNone, "\x1b[2J" + std::string(2000, 'x')})))));
  EXPECT_EQ(failure.sentence, "\\x1b[2J" + std::string(kMostSentenceBytes - 4, 'x'));
  const auto refused = [](const std::string& sentence, const FromNode& message) {
    expect_error(ErrorKind::kPeer, "a message has " + sentence + "; do both sides run the same version?",
                 [&] { parse_from_node(bytes_of(encode(message))); });
  };
  refused("a name of 257 bytes, expected at most 256", Hello{1, std::string(257, 'x'), {}});
  refused("a run of 129 bytes, expected at most 128", AnswerHead{{std::string(129, 'x'), 1, 1}, 1, {}});
  refused("a piece of 0 bytes, expected 1 to 262144", Piece{kCall, false, 0, ""});
  refused("a piece of 262145 bytes, expected 1 to 262144", Piece{kCall, false, 0, std::string(262145, 'x')});
  refused("a piece of 262145 bytes with a head, expected at most 262144",
          AnswerHead{kCall, 300000, 1, std::string(262145, 'x')});
  const auto refused_there = [](const std::string& sentence, const RequestHead& message) {
    expect_error(ErrorKind::kPeer, "a message has " + sentence + "; do both sides run the same version?",
                 [&] { parse_from_coordinator(bytes_of(encode(FromCoordinator(message)))); });
  };
  refused_there("a piece of 262145 bytes with a head, expected at most 262144",
                {kCall, 1, 1, 300000, 1, "x", std::string(262145, 'x')});
  refused_there("a part for this node of 32769 bytes with a head, expected at most 32768",
                {kCall, 40000, 1, 300000, 1, std::string(32769, 'x')});
}

Bytes counted_bytes(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 >> 3);
  return bytes;
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(PeerMessages, AreOneForAShortRequestOrAnswer) {
  const Bytes own = counted_bytes(kMostOwnBytes), bytes = counted_bytes(kPieceBytes);
  const auto answer = answer_messages(kCall, std::make_shared<const Bytes>(bytes));
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(std::get<AnswerHead>(from_node(answer[0])),
            (AnswerHead{kCall, bytes.size(), checksum_of(bytes), text_of(bytes)}));
  const auto request = OutgoingRequest(kCall, bytes).messages(std::make_shared<const Bytes>(own));
  ASSERT_EQ(request.size(), 1U);
  EXPECT_LE(request[0].Length(), kMostMessageBytes);
  EXPECT_EQ(std::get<RequestHead>(from_coordinator(request[0])),
            (RequestHead{kCall, own.size(), checksum_of(own), bytes.size(), checksum_of(bytes), text_of(own),
                         text_of(bytes)}));
}

TEST(PeerMessages, BeginWithAHeadAloneWhereThePartForOneNodeIsLong) {
  const Bytes own = counted_bytes(kMostOwnBytes + 1), bytes = counted_bytes(10);
  const auto request = OutgoingRequest(kCall, bytes).messages(std::make_shared<const Bytes>(own));
  ASSERT_EQ(request.size(), 3U);
  EXPECT_EQ(std::get<RequestHead>(from_coordinator(request[0])),
            (RequestHead{kCall, own.size(), checksum_of(own), bytes.size(), checksum_of(bytes)}));
  EXPECT_EQ(std::get<Piece>(from_coordinator(request[1])), (Piece{kCall, true, 0, text_of(own)}));
  EXPECT_EQ(std::get<Piece>(from_coordinator(request[2])), (Piece{kCall, false, 0, text_of(bytes)}));
}

TEST(PeerMessages, ArePutTogetherFromPieces) {
  const Bytes bytes = counted_bytes(600'000);
  const auto messages = answer_messages(kCall, std::make_shared<const Bytes>(bytes));
  ASSERT_EQ(messages.size(), 3U);
  const auto head = std::get<AnswerHead>(from_node(messages[0]));
  Assembly assembly(head.size, head.checksum, bytes.size());
  assembly.add(0, head.data);
  for (std::size_t i = 1; i < messages.size(); ++i) {
    EXPECT_FALSE(assembly.complete());
    const auto piece = std::get<Piece>(from_node(messages[i]));
    EXPECT_EQ(piece.call, kCall);
    EXPECT_EQ(FromCoordinator(piece), from_coordinator(messages[i]));
    assembly.add(piece.offset, piece.data);
  }
  EXPECT_TRUE(assembly.complete());
  EXPECT_TRUE(std::ranges::equal(bytes_of(assembly.take()), bytes));
}

TEST(PeerMessages, AreRefusedWhereLengthPlaceOrChecksumIsWrong) {
  expect_error(ErrorKind::kPeer,
               "it announces 11 bytes, expected at most 10; does it run this version, with the same data columns and "
               "model?",
               [] { Assembly(11, 0, 10); });
  Assembly assembly(10, 1, 10);
  assembly.add(0, "01234");
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{6}, ~std::uint64_t{0}})
    EXPECT_THROW(assembly.add(offset, "5"), Error);
  EXPECT_THROW(assembly.add(5, "567890"), Error);
  assembly.add(5, "56789");
  expect_error(ErrorKind::kPeer,
               "a message has another checksum than was announced; look for a fault in the network or the sender",
               [&] { assembly.take(); });
}

TEST(PeerMessages, OfTheCorpusAreReadOrRefused) {
  int read = 0;
  for (const char* kind : {"from_node", "from_coordinator"})
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(LABELSHIFT_EXAMPLES).parent_path() / "fuzz/corpus" / kind)) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      std::string_view(kind) == "from_node" ? fuzz::read_from_node(bytes_of(text))
                                            : fuzz::read_from_coordinator(bytes_of(text));
      ++read;
    }
  EXPECT_GE(read, 17);
}

}  // namespace
}  // namespace labelshift::peer
