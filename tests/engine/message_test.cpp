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
#include "labelshift/core/error.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

const Request kRequest{.task = 7, .round = 12, .numbers = {1.5, -2.0}, .weights = {0.25F, 3.0F, -1.0F}};
const Update kUpdate{.numbers = {0.1}, .weights = {}, .report = {4.0, 5.0}};

TEST(Message, ComesBackAsItWasSent) {
  EXPECT_EQ(decode_request(encode(kRequest)), kRequest);
  EXPECT_EQ(decode_update(encode(kUpdate)), kUpdate);
}

TEST(Message, HasTheSizeOfItsNumbersAndItsHeader) {
  // task 4, round 8, two lengths of 8; two doubles, three floats.
  EXPECT_EQ(encode(kRequest).size(), 4u + 8u + 16u + 16u + 12u);
  EXPECT_EQ(encode(kUpdate).size(), 24u + 8u + 16u);
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
  EXPECT_EQ(encoded_size(kRequest), encode(kRequest).size());
  EXPECT_EQ(encoded_size(kUpdate), encode(kUpdate).size());
}

TEST(Message, IsRefusedWhereverItIsCutShort) {
  expect_refused_wherever_cut_short(encode(kRequest), decode_request);
  expect_refused_wherever_cut_short(encode(kUpdate), decode_update);
}

TEST(Message, IsRefusedWithBytesAfterItsEnd) {
  auto bytes = encode(kUpdate);
  bytes.push_back(std::byte{0});
  expect_error(ErrorKind::kPeer, "a message has 1 bytes after its end", [&] { decode_update(bytes); });
}

TEST(Message, AnnouncingMoreThanThereIsAllocatesNothing) {
  auto bytes = encode(kUpdate);
  const std::uint64_t huge = std::uint64_t{1} << 61;  // times 8 it would wrap around to 0
  std::memcpy(bytes.data(), &huge, sizeof huge);
  expect_error(ErrorKind::kPeer, "a message ends 40 bytes on, expected 2305843009213693952 numbers of 8 bytes",
               [&] { decode_update(bytes); });
}

TEST(Message, KeepsEveryBitOfItsNumbers) {
  const double signalling = std::bit_cast<double>(0x7ff0000000000001U);
  const auto back = decode_update(encode(Update{.numbers = {signalling, -0.0, 5e-324}}));
  ASSERT_EQ(back.numbers.size(), 3U);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(back.numbers[0]), 0x7ff0000000000001U);
  EXPECT_TRUE(std::signbit(back.numbers[1]));
  EXPECT_EQ(back.numbers[2], 5e-324);
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
