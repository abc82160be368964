#include "labelshift/engine/message.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/messages.hpp"
#include "labelshift/core/base/error.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

const Bytes kBytes = {std::byte{1}, std::byte{2}, std::byte{3}};
const Request kRequest{.task = 7, .round = 12, .body = kBytes, .weights = {0.25F, 3.0F, -1.0F}};
const Addressee kAddressee{.node = 3, .counted = 5, .durable = 4, .own = kBytes};
const Answer kAnswer{
    .words = {7, ~std::uint64_t{0}}, .numbers = {0.1}, .weights = {2.0F}, .packed = kBytes, .report = {std::byte{4}}};

TEST(Message, ComesBackAsItWasSent) {
  EXPECT_EQ(from_bytes<Request>(to_bytes(kRequest)), kRequest);
  EXPECT_EQ(from_bytes<Addressee>(to_bytes(kAddressee)), kAddressee);
  EXPECT_EQ(from_bytes<Answer>(to_bytes(kAnswer)), kAnswer);
}

TEST(Message, HasTheSizeOfItsNumbersAndItsHeader) {
  // task 4, round 8, two lengths of 8; three bytes, three floats.
  EXPECT_EQ(to_bytes(kRequest).size(), 4u + 8u + 16u + 3u + 12u);
  // node 8, two rounds of 8, a length of 8; three bytes.
  EXPECT_EQ(to_bytes(kAddressee).size(), 32u + 3u);
  // five lengths of 8; two words, a double, a float, three bytes, one byte.
  EXPECT_EQ(to_bytes(kAnswer).size(), 40u + 16u + 8u + 4u + 3u + 1u);
}

/// Whether what is left of a message is refused, of every length but the whole.
template <typename Decode>
void expect_refused_wherever_cut_short(const std::vector<std::byte>& bytes, const Decode& decode) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      decode(std::span(bytes).first(size));
      ADD_FAILURE() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer) << size;
    }
  }
}

TEST(Message, SizesAreKnownWithoutEncoding) {
  EXPECT_EQ(encoded_size(kRequest), to_bytes(kRequest).size());
  EXPECT_EQ(encoded_size(kAddressee), to_bytes(kAddressee).size());
  EXPECT_EQ(encoded_size(kAnswer), to_bytes(kAnswer).size());
}

TEST(Message, IsRefusedWhereverItIsCutShort) {
  expect_refused_wherever_cut_short(to_bytes(kRequest), from_bytes<Request>);
  expect_refused_wherever_cut_short(to_bytes(kAddressee), from_bytes<Addressee>);
  expect_refused_wherever_cut_short(to_bytes(kAnswer), from_bytes<Answer>);
}

TEST(Message, IsRefusedWithBytesAfterItsEnd) {
  auto bytes = to_bytes(kAnswer);
  bytes.push_back(std::byte{0});
  expect_error(ErrorKind::kPeer, "a message has 1 bytes after its end", [&] { from_bytes<Answer>(bytes); });
}

TEST(Message, AnnouncingMoreThanThereIsAllocatesNothing) {
  auto bytes = to_bytes(kAnswer);
  const std::uint64_t huge = std::uint64_t{1} << 61;  // times 8 it would wrap around to 0
  std::memcpy(bytes.data(), &huge, sizeof huge);
  expect_error(ErrorKind::kPeer, "a message ends 64 bytes on, expected 2305843009213693952 items of 8 bytes",
               [&] { from_bytes<Answer>(bytes); });
}

TEST(Message, HasNoNumberThatIsNotFinite) {
  for (const double number : std::vector<double>{std::nan(""), -INFINITY})
    expect_error(ErrorKind::kPeer, "a message has a number that is not finite", [&] {
      from_bytes<Answer>(to_bytes(Answer{.numbers = {1.0, number}}));
    });
  expect_error(ErrorKind::kPeer, "a message has a number that is not finite", [&] {
    from_bytes<Request>(to_bytes(Request{.weights = {1.0F, INFINITY}}));
  });
}

TEST(Message, KeepsEveryBitOfItsNumbers) {
  const auto back = from_bytes<Answer>(to_bytes(Answer{.numbers = {-0.0, 5e-324}}));
  ASSERT_EQ(back.numbers.size(), 2U);
  EXPECT_TRUE(std::signbit(back.numbers[0]));
  EXPECT_EQ(back.numbers[1], 5e-324);
}

TEST(Message, UnderMasksOrBetweenRanksIsOneOfTheFuzzCorpus) {
  const auto seed = [](const char* name) {
    std::ifstream in(std::filesystem::path(LABELSHIFT_EXAMPLES).parent_path() / "fuzz/corpus/message" / name,
                     std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto bytes = std::as_bytes(std::span(text));
    return Bytes(bytes.begin(), bytes.end());
  };
  const MaskedExchange exchange{.run = "r", .serial = 5, .nodes = {"north", "south"}};
  EXPECT_EQ(seed("masked-request.bin"),
            to_bytes(MaskedRequest{
                .task = 1, .body = kBytes, .exchange = exchange, .offers = {{"north", kBytes, kBytes, "PEM"}}}));
  EXPECT_EQ(seed("mpi-call.bin"),
            to_bytes(MpiCall{.words = 2, .numbers = 1, .cohort = {kAddressee}, .request = kRequest}));
  const RangeSum sum{.begin = 1, .end = 2, .empty = false, .words = {7, 8}, .numbers = {0.5}, .leaf = {1.0F}};
  const MpiReply reply{.outcome = {.sums = {sum},
                                   .contributed = {{.node = 1, .report = kBytes}},
                                   .failed = {{.node = 2, .kind = ErrorKind::kInput, .sentence = "no"}},
                                   .traffic = {.down = 3, .up = 4}}};
  EXPECT_EQ(seed("mpi-reply.bin"), to_bytes(reply));
  expect_refused_wherever_cut_short(seed("masked-request.bin"), from_bytes<MaskedRequest>);
  expect_refused_wherever_cut_short(seed("mpi-call.bin"), from_bytes<MpiCall>);
  expect_refused_wherever_cut_short(seed("mpi-reply.bin"), from_bytes<MpiReply>);
}

TEST(Message, OfTheFuzzCorpusIsReadOrRefused) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(LABELSHIFT_EXAMPLES).parent_path() / "fuzz/corpus/message")) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_NO_THROW(fuzz::read_message(std::as_bytes(std::span(bytes)))) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace labelshift
