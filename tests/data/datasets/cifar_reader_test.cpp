#include "labelshift/data/datasets/cifar_reader.hpp"

#include <gmock/gmock.h>

#include "tests/data/dataset_bytes.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using namespace std::string_literals;

class CifarReader : public Scratch {};

TEST_F(CifarReader, ReadsTheFilesOneAfterAnother) {
  const std::string record = "\x01"s + std::string(1024, 'r') + std::string(1024, 'g') + std::string(1024, 'b');
  const Dataset data = read_cifar({file("1", record + cifar_record("\0"s, 'x')), file("2", cifar_record("\x01"s, 'y'))},
                                  CifarLayout::kCifar10, {"cat", "dog"});
  EXPECT_EQ(data.shape, (ExampleShape{3, 32, 32}));
  EXPECT_THAT(data.labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(data.class_names, ElementsAre("cat", "dog"));
  const auto& values = std::get<0>(data.values);
  const std::string pixels(values.begin(), values.end());
  EXPECT_EQ(pixels, record.substr(1) + std::string(3072, 'x') + std::string(3072, 'y'));
}

TEST_F(CifarReader, TakesTheFineLabelOfCifar100) {
  const Dataset data = read_cifar({file("train", cifar_record("\x09\x01"s, 'x'))}, CifarLayout::kCifar100, {"a", "b"});
  EXPECT_THAT(data.labels, ElementsAre(1));
  EXPECT_EQ(std::get<0>(data.values).size(), 3072U);
}

TEST_F(CifarReader, ReadsADirectoryOfEitherLayout) {
  for (int batch = 1; batch <= 5; ++batch)
    file("data_batch_" + std::to_string(batch) + ".bin", cifar_record({static_cast<char>(batch % 2)}, 'x'));
  file("test_batch.bin", cifar_record("\0"s, 'y'));
  file("batches.meta.txt", "cat\ndog\n\n");
  const TrainAndTest ten = read_cifar_directory(path(""), CifarLayout::kCifar10);
  EXPECT_THAT(ten.train.labels, ElementsAre(1, 0, 1, 0, 1));
  EXPECT_THAT(ten.test.labels, ElementsAre(0));
  EXPECT_THAT(ten.test.class_names, ElementsAre("cat", "dog"));

  file("train.bin", cifar_record("\x05\x02"s, 'x') + cifar_record("\x05\x01"s, 'x'));
  file("test.bin", cifar_record("\x05\x00"s, 'x'));
  file("fine_label_names.txt", "apple\nbee\ncan\n");
  const TrainAndTest hundred = read_cifar_directory(path(""), CifarLayout::kCifar100);
  EXPECT_THAT(hundred.train.labels, ElementsAre(2, 1));
  EXPECT_THAT(hundred.test.labels, ElementsAre(0));
  EXPECT_THAT(hundred.train.class_names, ElementsAre("apple", "bee", "can"));
}

TEST_F(CifarReader, RefusesAPartOfARecord) {
  const auto expect_refused = [&](const std::string& bytes, const std::string& found) {
    const std::string broken = file("broken", bytes);
    expect_error(ErrorKind::kInput,
                 "DIR/broken: found " + found +
                     " bytes, expected records of 3073; it is cut off or no CIFAR-10 file, so copy it again",
                 [&] { read_cifar({broken}, CifarLayout::kCifar10, {"cat"}); });
  };
  expect_refused("", "0");
  expect_refused(cifar_record("\0"s, 'x') + "more", "3077");
  expect_refused(cifar_record("\0\0"s, 'x'), "3074");
}

TEST_F(CifarReader, RefusesALabelWithoutAName) {
  const std::string broken = file("broken", cifar_record("\0"s, 'x') + cifar_record("\x02"s, 'x'));
  expect_error(ErrorKind::kInput, "DIR/broken, record 2: found label 2, expected 0 to 1", [&] {
    read_cifar({broken}, CifarLayout::kCifar10, {"cat", "dog"});
  });
}

}  // namespace
}  // namespace labelshift
