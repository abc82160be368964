#include "labelshift/data/datasets/image_folder.hpp"

#include <gmock/gmock.h>

#include "tests/data/image_bytes.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;

class ImageFolder : public Scratch {
 protected:
  std::string put(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    return file(name, bytes);
  }
  void expect_refused(const std::string& message, const Dataset* like = nullptr) const {
    expect_error(ErrorKind::kInput, message,
                 [&] { read_image_folder(path("data"), like ? like->class_names : std::vector<std::string>(), like); });
  }
};

TEST_F(ImageFolder, ReadsOneFolderAClassInTheOrderOfNames) {
  put("data/dog/b.png", grey_png(2, 1, 4));
  put("data/dog/a.PNG", grey_png(2, 1, 3));
  put("data/cat/z.png", grey_png(2, 1, 1));
  put("data/cat/.hidden", "");
  put("data/README.md", "about the data");
  const Dataset data = read_image_folder(path("data"));
  EXPECT_EQ(data.shape, (ExampleShape{1, 1, 2}));
  EXPECT_THAT(std::get<0>(data.values), ElementsAre(1, 1, 3, 3, 4, 4));
  EXPECT_THAT(data.labels, ElementsAre(0, 1, 1));
  EXPECT_THAT(data.class_names, ElementsAre("cat", "dog"));
}

TEST_F(ImageFolder, ReadsImagesWithoutLabels) {
  put("data/2.png", grey_png(1, 1, 2));
  put("data/1.png", grey_png(1, 1, 1));
  const Dataset data = read_image_folder(path("data"));
  EXPECT_THAT(std::get<0>(data.values), ElementsAre(1, 2));
  EXPECT_TRUE(data.labels.empty());
  EXPECT_EQ(data.classes(), 0);
}

TEST_F(ImageFolder, IsInColourIfAnyImageIs) {
  put("data/a.png", grey_png(1, 1, 9));
  put("data/b.png", png_bytes({1, 1, {1, 2, 3}}, PNG_FORMAT_RGB));
  const Dataset data = read_image_folder(path("data"));
  EXPECT_EQ(data.shape.channels, 3);
  EXPECT_THAT(std::get<0>(data.values), ElementsAre(9, 9, 9, 1, 2, 3));
}

TEST_F(ImageFolder, TakesClassesAndChannelsFromTheOtherPart) {
  put("train/cat/a.png", png_bytes({1, 1, {1, 2, 3}}, PNG_FORMAT_RGB));
  put("train/dog/a.png", grey_png(1, 1, 1));
  put("data/dog/a.png", grey_png(1, 1, 5));
  const Dataset train = read_image_folder(path("train"));
  const Dataset test = read_image_folder(path("data"), train.class_names, &train);
  EXPECT_THAT(test.labels, ElementsAre(1));
  EXPECT_THAT(test.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(std::get<0>(test.values), ElementsAre(5, 5, 5));
}

TEST_F(ImageFolder, RefusesAPartThatIsUnlikeTheOther) {
  put("train/cat/a.png", grey_png(1, 1, 1));
  const Dataset train = read_image_folder(path("train"));
  put("data/cats/a.png", grey_png(1, 1, 1));
  expect_refused(R"(DIR/data/cats: unknown class "cats"; did you mean "cat"? (known: cat))", &train);
  std::filesystem::remove_all(path("data"));
  put("data/cat/a.png", png_bytes({1, 1, {1, 2, 3}}, PNG_FORMAT_RGB));
  expect_refused("DIR/data/cat/a.png: found an image in colour, expected a grey one as all training images", &train);
  put("data/cat/a.png", grey_png(2, 1, 1));
  expect_refused(
      "DIR/data/cat/a.png: found an image of 2 x 1 pixels, expected 1 x 1 as in the training images; scale all images "
      "to one size",
      &train);
  std::filesystem::remove_all(path("data"));
  put("data/a.png", grey_png(1, 1, 1));
  expect_refused("DIR/data: found images, expected folders of classes as in the training part", &train);
}

TEST_F(ImageFolder, RefusesImagesOfDifferentSizes) {
  put("data/cat/a.png", grey_png(2, 1, 1));
  put("data/dog/b.png", grey_png(1, 2, 1));
  expect_refused(
      "DIR/data/dog/b.png: found an image of 1 x 2 pixels, expected 2 x 1 as in DIR/data/cat/a.png; scale all images "
      "to one size");
}

TEST_F(ImageFolder, RefusesWhatItCannotPlace) {
  std::filesystem::create_directories(path("data"));
  expect_refused(
      "DIR/data: found no data, expected one sub-folder of .png or .jpg images a class, or the files of MNIST (IDX) or "
      "CIFAR (binary)");
  std::filesystem::create_directories(path("data/cat"));
  expect_refused(
      "DIR/data/cat: found no images, expected some, since every folder is a class; fill it or take it away");
  put("data/cat/a.png", "no image");
  expect_refused("DIR/data/cat/a.png: found neither a PNG nor a JPEG image; convert it or take it away");
  put("data/cat/a.png", grey_png(1, 1, 1));
  put("data/cat/b.bmp", "");
  expect_refused(
      "DIR/data/cat/b.bmp: found a file in the folder of a class that is no .png, .jpg or .jpeg image; convert it or "
      "take it away");
  std::filesystem::remove(path("data/cat/b.bmp"));
  std::filesystem::create_directories(path("data/cat/more"));
  expect_refused("DIR/data/cat/more: found a folder in the folder of a class, expected images only");
  put("data/b.png", grey_png(1, 1, 1));
  expect_refused(
      "DIR/data: found both the image b.png and the folder cat, expected folders of classes or images without labels");
}

TEST_F(ImageFolder, RefusesMoreThanMemoryShouldHold) {
  // 1025 small files of 4096 x 4096 grey pixels are more than 16 GiB.
  put("data/0.png", grey_png(4096, 4096, 0));
  for (int i = 1; i <= 1024; ++i)
    std::filesystem::create_hard_link(path("data/0.png"), path("data/" + std::to_string(i) + ".png"));
  expect_refused(
      "DIR/data: found 1025 images of 1 x 4096 x 4096 bytes, expected at most 16 GiB in all; scale the images");
}

TEST_F(ImageFolder, RefusesAFolderThatCannotBeRead) {
  std::filesystem::create_directories(path("data"));
  std::filesystem::permissions(path("data"), std::filesystem::perms::none);
  const OrdinaryUser user;
  expect_refused("cannot read DIR/data: permission denied; check the path");
}

}  // namespace
}  // namespace labelshift
