#include "labelshift/data/files/safetensors.hpp"

#include <sys/stat.h>

#include <gmock/gmock.h>

#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SafetensorsTest : public Scratch {
 protected:
  static std::string bytes(const std::string& header, std::string_view data = "") {
    return raw<std::uint64_t>({header.size()}) + header + std::string(data);
  }
  void refused(const std::string& message, const std::string& contents) const {
    const std::string path = file("x", contents);
    expect_error(ErrorKind::kInput, "DIR/x: " + message, [&] { SafetensorsFile{path}; });
  }
  /// The header entry of a tensor.
  static std::string entry(const std::string& shape, const std::string& offsets, const std::string& dtype = "F32") {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  }
};

TEST_F(SafetensorsTest, GivesBackWhatWasWritten) {
  const std::vector<float> weight{1.5F, -2.0F, 3.0F, 0.0F, 1e-40F, 6.0F};
  const std::vector<float> scalar{7.0F};
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"note", "\"quoted\"\n\xc3\xa4"}};
  write_safetensors(path("x"),
                    std::vector<NamedTensor>{{"z.weight", {2, 3}, weight}, {"a", {}, scalar}, {"none", {0, 4}, {}}},
                    metadata);
  const SafetensorsFile read(path("x"));
  EXPECT_EQ(read.metadata(), metadata);
  EXPECT_EQ(read.tensors().size(), 3U);
  EXPECT_THAT(read.tensor("z.weight", {2, 3}), testing::ElementsAreArray(weight));
  EXPECT_THAT(read.tensor("a", {}), ElementsAre(7.0F));
  EXPECT_THAT(read.tensor("none", {0, 4}), IsEmpty());
}

TEST_F(SafetensorsTest, WritesTheBytesOfTheFormat) {
  write_safetensors(path("x"), std::vector<NamedTensor>{{"w", {1}, std::vector<float>{1.0F}}}, {{"k", "v"}});
  const std::string zeros(64, '0');
  const auto with_sum = [&](const std::string& sum) {
    std::string header = R"({"__metadata__":{"k":"v","labelshift-sha256":")" + sum +
                         R"("},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    header.resize(168, ' ');  // up to a multiple of 8, so that numbers are aligned
    return bytes(header, raw({1.0F}));
  };
  EXPECT_EQ(bytes_of(path("x")), with_sum(sha256_of(with_sum(zeros))));
}

TEST_F(SafetensorsTest, RefusesEveryFlippedBit) {
  const std::vector<float> values{1.0F, -2.0F};
  write_safetensors(path("x"), std::vector<NamedTensor>{{"w", {2}, values}}, {{"k", "v"}});
  const std::string whole = bytes_of(path("x"));
  EXPECT_TRUE(is_whole_safetensors(path("x")));
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const int bit : {0, 5}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      file("x", damaged);
      EXPECT_FALSE(is_whole_safetensors(path("x"))) << i;
    }
  std::string damaged = whole;
  damaged.back() = static_cast<char>(damaged.back() ^ 0x41);  // 2.0 to -8.5e-20
  refused("its bytes are not those it was written with, by its SHA-256; copy it again, or make it again", damaged);
  EXPECT_FALSE(is_whole_safetensors(path("none")));
}

TEST_F(SafetensorsTest, ReadsAFileWithoutASumUnlessItIsRequired) {
  const SafetensorsFile read(file("x", bytes(R"({"w":)" + entry("[1]", "[0,4]") + "}", raw({1.0F}))));
  EXPECT_THAT(read.tensor("w", {1}), ElementsAre(1.0F));
  expect_error(ErrorKind::kInput,
               "DIR/x: it has no SHA-256 sum, so damage to it would go unseen; expected a file that this version wrote",
               [&] { read.require_sum(); });
}

TEST_F(SafetensorsTest, RefusesWhatIsNotThere) {
  const std::vector<float> values{1.0F};
  write_safetensors(path("x"), std::vector<NamedTensor>{{"w", {1}, values}}, {});
  const SafetensorsFile read(path("x"));
  expect_error(ErrorKind::kInput, "DIR/x: has no tensor \"v\"", [&] { read.tensor("v", {1}); });
  expect_error(ErrorKind::kInput, "DIR/x: tensor \"w\": found the shape [1], expected [1, 1]", [&] {
    read.tensor("w", {1, 1});
  });
  expect_error(ErrorKind::kInput, "DIR/x: __metadata__ has no \"k\"; expected a file that labelshift wrote",
               [&] { read.metadata("k"); });
}

TEST_F(SafetensorsTest, RefusesAHeaderThatIsNone) {
  refused("found 3 bytes, expected a safetensors file, which begins with the 8 bytes of a length", "abc");
  refused(
      "the first 8 bytes announce a header of 3 bytes, expected at most 2; it is no safetensors file or not all of "
      "one",
      raw<std::uint64_t>({3}) + "{}");
  refused(
      "the first 8 bytes announce a header of 18446744073709551615 bytes, expected at most 0; it is no safetensors "
      "file or not all of one",
      std::string(8, '\xff'));
  for (const char* header : {"", "[]", "{", "{} x", "\"\xff\""})
    refused("its header is not a JSON object; expected a safetensors file", bytes(header));
  refused("__metadata__ in the header is not an object", bytes(R"({"__metadata__":[]})"));
  refused("__metadata__ \"k\" in the header is not a string", bytes(R"({"__metadata__":{"k":1}})"));
  const std::string one = entry("[1]", "[0,4]");
  refused("the header names \"a\" twice, expected every tensor once",
          bytes("{\"a\":" + one + ",\"a\":" + one + "}", raw({1.0F})));
}

TEST_F(SafetensorsTest, RefusesTensorsThatDoNotFillTheFile) {
  const auto tensor = [&](const std::string& description, const std::string& why) {
    refused("tensor \"a\": " + why, bytes("{\"a\":" + description + "}", raw({1.0F, 2.0F})));
  };
  const std::string parts = "expected dtype, shape and two data_offsets in the header";
  tensor("1", parts);
  tensor(entry("[-1]", "[0,4]"), parts);
  tensor(entry("[1.0]", "[0,4]"), parts);
  tensor(entry("[1]", "[0]"), parts);
  tensor(entry("[4]", "[0,8]", "F16"), "found the type \"F16\", expected \"F32\"");
  tensor(entry("[2]", "[8,0]"), "found bytes 8 to 0, expected an order and an end by 8");
  tensor(entry("[3]", "[0,12]"), "found bytes 0 to 12, expected an order and an end by 8");
  tensor(entry("[4294967296,4294967296]", "[0,0]"), "its shape [4294967296, 4294967296] is larger than the file");
  tensor(entry("[1]", "[2,6]"), "found bytes 2 to 6, expected 4 for the shape [1]");
  tensor(entry("[1]", "[0,8]"), "found bytes 0 to 8, expected 4 for the shape [1]");
  tensor(entry("[0,9223372036854775808]", "[0,0]"), "a size in its shape is no number of elements");
  const auto two = [&](const std::string& b, const std::string& why) {
    refused(why, bytes("{\"a\":" + entry("[1]", "[0,4]") + ",\"b\":" + b + "}", raw({1.0F, 2.0F, 3.0F})));
  };
  two(entry("[3]", "[0,12]"), "tensor \"b\": begins at byte 0, expected 4, where the one before it ends");
  two(entry("[1]", "[8,12]"), "tensor \"b\": begins at byte 8, expected 4, where the one before it ends");
  two(entry("[1]", "[4,8]"), "found 12 bytes of numbers, expected 8 for its tensors; copy it again");
}

TEST_F(SafetensorsTest, RefusesAPipeInPlaceOfAFile) {
  // Opening it would wait for a writer.
  ASSERT_EQ(::mkfifo(path("model.safetensors").c_str(), 0600), 0);
  const std::string message =
      "cannot read DIR/model.safetensors: it is a pipe or a device, expected a regular file; put one in its place, or "
      "name another";
  expect_error(ErrorKind::kInput, message, [&] { SafetensorsFile{path("model.safetensors")}; });
  expect_error(ErrorKind::kInput, message, [&] { read_file(path("model.safetensors")); });
}

}  // namespace
}  // namespace labelshift
