#include "labelshift/data/datasets/idx_reader.hpp"

#include <gmock/gmock.h>

#include "tests/data/dataset_bytes.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using namespace std::string_literals;

class IdxReader : public Scratch {
 protected:
  void expect_refused(const std::string& bytes, int dimensions, const std::string& message) const {
    const std::string broken = file("broken", bytes);
    expect_error(ErrorKind::kInput, "DIR/broken: " + message, [&] { read_idx(broken, dimensions); });
  }
};

TEST_F(IdxReader, ReadsImagesAndLabels) {
  const std::string images = file("images", idx_bytes({2, 3, 2}, "abcdefghijkl"));
  const Dataset data = read_idx_images(images, file("labels", idx_bytes({2}, "\x02\x00"s)));
  EXPECT_EQ(data.shape, (ExampleShape{1, 3, 2}));
  EXPECT_EQ(data.size(), 2);
  EXPECT_THAT(std::get<0>(data.values), ElementsAre('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l'));
  EXPECT_THAT(data.labels, ElementsAre(2, 0));
  EXPECT_THAT(data.class_names, ElementsAre("0", "1", "2"));
}

TEST_F(IdxReader, ReadsGzippedFiles) {
  const std::string images = file("images.gz", gzipped(idx_bytes({1, 1, 3}, "abc")));
  const Dataset data = read_idx_images(images, "");
  EXPECT_THAT(std::get<0>(data.values), ElementsAre('a', 'b', 'c'));
  EXPECT_TRUE(data.labels.empty());
  EXPECT_EQ(data.classes(), 0);
}

TEST_F(IdxReader, ReadsMoreThanItsFirstBlock) {
  std::string pixels(300'000, '\0');
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<char>(i * 7 >> 3);
  const auto values = read_idx(file("images", idx_bytes({3, 100, 1000}, pixels)), 3).values;
  EXPECT_EQ(std::string(values.begin(), values.end()), pixels);
}

TEST_F(IdxReader, RefusesWhatIsNoIdxFileOfBytes) {
  expect_refused("", 3, "found the first bytes , expected 00 00 08 03, an IDX file; check that it is one");
  expect_refused("PNG.....", 1,
                 "found the first bytes 50 4e 47 2e, expected 00 00 08 01, an IDX file; check that it is one");
  expect_refused("\0\0\x0d\x03"s, 3, "found IDX type 0x0d, expected 0x08, unsigned bytes; convert it");
  expect_refused(idx_bytes({2}, "ab"), 3,
                 "found an IDX array of 1 dimension, expected 3; check that images and labels are not swapped");
}

TEST_F(IdxReader, RefusesSizesThatAreNotTrue) {
  expect_refused(idx_bytes({2, 3, 2}, "").substr(0, 9), 3,
                 "the file ends inside the IDX header; it is cut off, so copy it again");
  expect_refused(idx_bytes({2, 3, 2}, "abcdefghijk"), 3,
                 "found 11 bytes of data, expected 12 for 2 x 3 x 2; it is cut off, so copy it again");
  expect_refused(idx_bytes({2}, "abc"), 1,
                 "found more than the 2 bytes of data that its header promises for 2; copy it again");
  expect_refused(idx_bytes({0, 28, 28}, ""), 3, "found 0 x 28 x 28 bytes of data, expected at least one");
  expect_refused(idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, "a"), 3,
                 "the IDX header promises 4294967295 x 4294967295 x 4294967295 bytes, more than any memory holds; copy "
                 "it again");
  // Exabytes that do fit into an index are not allocated before they are seen.
  expect_refused(idx_bytes({0x7fffffff, 0x7fffffff, 1}, "a"), 3,
                 "found 1 bytes of data, expected 4611686014132420609 for 2147483647 x 2147483647 x 1; it is cut off, "
                 "so copy it again");
}

TEST_F(IdxReader, RefusesDamagedGzip) {
  const std::string packed = gzipped(idx_bytes({3}, "abc"));
  expect_refused(packed.substr(0, packed.size() - 9), 1,
                 "the gzip data is cut off before its end; copy or compress it again");
}

TEST_F(IdxReader, RefusesMoreLabelsThanImages) {
  const std::string images = file("images", idx_bytes({1, 1, 1}, "a"));
  const std::string labels = file("labels", idx_bytes({2}, "ab"));
  expect_error(ErrorKind::kInput, "DIR/labels: found 2 labels, expected 1, one for each image of DIR/images",
               [&] { read_idx_images(images, labels); });
}

TEST_F(IdxReader, NamesAFileThatIsNotThere) {
  expect_error(ErrorKind::kInput, "cannot read DIR/nowhere: no such file or directory; check the path",
               [&] { read_idx(path("nowhere"), 3); });
}

}  // namespace
}  // namespace labelshift
