#include "labelshift/data/datasets/augmentation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// `n` equal images.
Dataset images(const ExampleShape& shape, const Bytes& image, int n) {
  Dataset data{.shape = shape, .values = {}, .labels = std::vector<int>(n, 0), .class_names = {"only"}};
  Bytes values;
  for (int i = 0; i < n; ++i) values.insert(values.end(), image.begin(), image.end());
  data.values = values;
  return data;
}

Bytes bytes_of(const Dataset& data) {
  return std::get<Bytes>(data.values);
}

Bytes row_of(const Dataset& data, Index row) {
  const Bytes all = bytes_of(data);
  return Bytes(all.begin() + row * data.shape.size(), all.begin() + (row + 1) * data.shape.size());
}

/// Blur of one sigma always, and no change of brightness.
constexpr Augmentation kBlur{"blur", "", 1.0, 0.5, 0.5, 0.0};
constexpr Augmentation kBrightness{"brightness", "", 1.0, 1e-3, 1e-3, 0.2};  // a blur of sigma 0.001 is none

TEST(Augmentation, BlursAPointByTheProductOfTwoGaussianKernels) {
  Bytes point(25, 0);
  point[12] = 255;
  // The kernel is (s, 1 - 2 s, s) with s = e^-2 / (1 + 2 e^-2) = 0.10651, as torchvision's for sigma = 0.5.
  const double s = std::exp(-2.0) / (1.0 + 2.0 * std::exp(-2.0)), k = 1.0 - 2.0 * s;
  const auto corner = static_cast<std::uint8_t>(std::lround(255 * s * s));
  const auto side = static_cast<std::uint8_t>(std::lround(255 * s * k));
  const auto middle = static_cast<std::uint8_t>(std::lround(255 * k * k));
  EXPECT_THAT(row_of(augmented(images({1, 5, 5}, point, 1), kBlur, 1), 0),
              testing::ElementsAre(0, 0, 0, 0, 0,               //
                                   0, corner, side, corner, 0,  //
                                   0, side, middle, side, 0,    //
                                   0, corner, side, corner, 0,  //
                                   0, 0, 0, 0, 0));
}

TEST(Augmentation, ReflectsTheBorderAboutTheOutermostPixel) {
  // The pixel beside the border is seen from both sides: 2 s of (0, 100), and as (100, 0) of it is the middle.
  const double s = std::exp(-2.0) / (1.0 + 2.0 * std::exp(-2.0));
  const auto dark = static_cast<std::uint8_t>(std::lround(100 * 2.0 * s));
  const auto bright = static_cast<std::uint8_t>(std::lround(100 * (1.0 - 2.0 * s)));
  EXPECT_THAT(row_of(augmented(images({1, 2, 2}, {0, 100, 0, 100}, 1), kBlur, 1), 0),
              testing::ElementsAre(dark, bright, dark, bright));
  EXPECT_THAT(row_of(augmented(images({1, 2, 2}, {0, 0, 100, 100}, 1), kBlur, 1), 0),
              testing::ElementsAre(dark, dark, bright, bright));
}

TEST(Augmentation, DoesNotMixChannels) {
  EXPECT_THAT(row_of(augmented(images({2, 2, 2}, {0, 0, 0, 0, 200, 200, 200, 200}, 1), kBlur, 1), 0),
              testing::ElementsAre(0, 0, 0, 0, 200, 200, 200, 200));
}

TEST(Augmentation, MultipliesAWholeImageByOneFactorAndClamps) {
  const Dataset data = augmented(images({1, 2, 2}, {0, 50, 100, 250}, 200), kBrightness, 1);
  int clamped = 0;
  for (Index row = 0; row < 200; ++row) {
    const Bytes image = row_of(data, row);
    const double factor = image[2] / 100.0;  // up to 0.005, half a level of 100
    EXPECT_GE(factor, 0.8);
    EXPECT_LE(factor, 1.2);
    EXPECT_EQ(image[0], 0);
    EXPECT_NEAR(image[1], 50.0 * factor, 0.5 + 50 * 0.005);
    EXPECT_NEAR(image[3], std::min(255.0, 250.0 * factor), 0.5 + 250 * 0.005);
    clamped += image[3] == 255;
  }
  EXPECT_GT(clamped, 0);
  EXPECT_LT(clamped, 200);
}

TEST(Augmentation, RoundsToTheNearestByte) {
  // 200 factors uniform on 1 +- 0.2 give 100 a mean of 100 with a standard error of 11.5 / sqrt(20000) = 0.08, while
  // cutting decimals off gives 99.5.
  const Dataset data = augmented(images({1, 2, 2}, {100, 100, 100, 100}, 20000), kBrightness, 2);
  double sum = 0.0;
  for (const std::uint8_t pixel : bytes_of(data)) sum += pixel;
  EXPECT_NEAR(sum / 80000.0, 100.0, 4 * 0.082);
}

/// How many of 4000 images of a bright point were changed in brightness or blurred.
struct Changed {
  double blurred = 0, brightened = 0, both = 0;
};
Changed changed_shares(const std::string& name) {
  Bytes half(36, 100);  // left half dark: blur shows between the halves, brightness away from them
  for (int y = 0; y < 6; ++y)
    for (int x = 0; x < 3; ++x) half[y * 6 + x] = 0;
  const Dataset data = augmented(images({1, 6, 6}, half, 4000), find_augmentation(name), 3);
  Changed changed;
  for (Index row = 0; row < 4000; ++row) {
    const Bytes image = row_of(data, row);
    const bool blurred = image[2] > 0, brightened = image[5] != 100;
    changed.blurred += blurred / 4000.0;
    changed.brightened += brightened / 4000.0;
    changed.both += (blurred && brightened) / 4000.0;
  }
  return changed;
}

TEST(Augmentation, ChangesThePapersShareOfTheImages) {
  // A share of 4000 has a standard deviation of at most 0.5 / sqrt(4000) = 0.008; 4 of them. One level of 100 and less
  // cannot be seen: a factor within 0.5% of 1 (share 0.05 or 0.025 of the factors), and a blur with s < 0.005, that is
  // sigma < 0.307 (share (0.307 - 0.1) / 0.4 = 0.518, or 0.345 of the sigmas).
  const double e = 4 * 0.008;
  const Changed relaxed = changed_shares("relaxed");
  EXPECT_NEAR(relaxed.brightened, 0.3 * 0.95, e);
  EXPECT_NEAR(relaxed.blurred, 0.3 * 0.482, e);
  EXPECT_NEAR(relaxed.both, 0.3 * 0.95 * 0.3 * 0.482, e);  // independent events
  const Changed more = changed_shares("relax-m");
  EXPECT_NEAR(more.brightened, 0.5 * 0.975, e);
  EXPECT_NEAR(more.blurred, 0.5 * 0.655, e);
  EXPECT_NEAR(more.both, 0.5 * 0.975 * 0.5 * 0.655, e);
}

TEST(Augmentation, ChangesNothingIfStrict) {
  Dataset data = images({1, 2, 2}, {1, 2, 3, 4}, 50);
  EXPECT_EQ(bytes_of(augmented(data, find_augmentation("strict"), 1)), bytes_of(data));
  data.values = std::vector<float>(4, 0.5F);  // also of a table of real numbers
  data.shape = {1, 1, 4};
  EXPECT_EQ(std::get<std::vector<float>>(augmented(data, find_augmentation("strict"), 1).values),
            std::vector<float>(4, 0.5F));
}

TEST(Augmentation, KeepsLabelsNamesAndShape) {
  const Dataset data = images({1, 2, 2}, {1, 2, 3, 4}, 3);
  const Dataset result = augmented(data, find_augmentation("relaxed"), 1);
  EXPECT_EQ(result.labels, data.labels);
  EXPECT_EQ(result.class_names, data.class_names);
  EXPECT_EQ(result.shape, data.shape);
}

TEST(Augmentation, DependsOnTheSeedAndTheRowOnly) {
  const Bytes image = {10, 200, 30, 40};
  const Augmentation& more = find_augmentation("relax-m");
  const Dataset many = augmented(images({1, 2, 2}, image, 30), more, 7);
  const Dataset few = augmented(images({1, 2, 2}, image, 10), more, 7);
  for (Index row = 0; row < 10; ++row) EXPECT_EQ(row_of(many, row), row_of(few, row));
  EXPECT_NE(bytes_of(few), bytes_of(augmented(images({1, 2, 2}, image, 10), more, 8)));
}

TEST(Augmentation, IsFoundByNameOrSuggested) {
  EXPECT_STREQ(augmentations()[0].name, "strict");
  expect_error(ErrorKind::kUsage,
               "unknown augmentation \"relaxd\"; did you mean \"relaxed\"? (known: strict, relaxed, relax-m)",
               [] { find_augmentation("relaxd"); });
}

void expect_refusal(const Dataset& data, const std::string& message) {
  expect_error(ErrorKind::kInput, message, [&] { augmented(data, find_augmentation("relaxed"), 1); });
}

TEST(Augmentation, RefusesWhatIsNotAnImage) {
  Dataset data = images({1, 1, 4}, {1, 2, 3, 4}, 3);
  expect_refusal(data,
                 "augmentation \"relaxed\": found bytes of 1 x 4, expected images of bytes of at least 2 x 2; use "
                 "\"strict\"");
  data.shape = {1, 2, 2};
  data.values = std::vector<float>(12);
  expect_refusal(data,
                 "augmentation \"relaxed\": found real numbers of 2 x 2, expected images of bytes of at least 2 x 2; "
                 "use \"strict\"");
}

}  // namespace
}  // namespace labelshift
