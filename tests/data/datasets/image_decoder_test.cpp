#include "labelshift/data/datasets/image_decoder.hpp"

#include <gmock/gmock.h>

#include "tests/data/image_bytes.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

class ImageDecoder : public Scratch {
 protected:
  Bytes decoded(const std::string& bytes, Index channels) const {
    const EncodedImage image(file("image", bytes));
    Bytes pixels(static_cast<std::size_t>(channels * image.shape().height * image.shape().width));
    image.decode(channels, pixels.data());
    return pixels;
  }
  /// The message that reading and decoding the image ends in.
  std::string refusal(const std::string& bytes) const {
    try {
      decoded(bytes, 3);
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kInput));
      return error.what();
    }
    return "none";
  }
};

const Picture kGrey{2, 3, {0, 1, 100, 101, 254, 255}};
const Picture kColour{2, 1, {1, 2, 3, 250, 251, 252}};

TEST_F(ImageDecoder, ReadsPngPixelsExactlyAndChannelByChannel) {
  const std::string grey = png_bytes(kGrey, PNG_FORMAT_GRAY);
  EXPECT_EQ(EncodedImage(file("grey", grey)).shape(), (ExampleShape{1, 3, 2}));
  EXPECT_EQ(decoded(grey, 1), kGrey.samples);
  EXPECT_THAT(decoded(png_bytes({1, 1, {7}}, PNG_FORMAT_GRAY), 3), ElementsAre(7, 7, 7));
  const std::string colour = png_bytes(kColour, PNG_FORMAT_RGB);
  EXPECT_EQ(EncodedImage(file("colour", colour)).shape(), (ExampleShape{3, 1, 2}));
  EXPECT_THAT(decoded(colour, 3), ElementsAre(1, 250, 2, 251, 3, 252));
}

TEST_F(ImageDecoder, LaysTransparencyOnWhite) {
  EXPECT_THAT(decoded(png_bytes({2, 1, {10, 20, 30, 0, 10, 20, 30, 255}}, PNG_FORMAT_RGBA), 3),
              ElementsAre(255, 10, 255, 20, 255, 30));
}

TEST_F(ImageDecoder, ScalesSixteenBitsWithoutGamma) {
  // 65 x 257: exactly 65 of 255. Taken as linear light it would be 137.
  constexpr unsigned char kPng[] = {0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n',  // signature
                                    0,    0,    0,    13,   'I',  'H',  'D',  'R',  0,    0,    0,    1,
                                    0,    0,    0,    1,    16,   0,    0,    0,    0,  // 1 x 1, grey
                                    0x6a, 0xee, 0x47, 0x16,                             // checksum
                                    0,    0,    0,    11,   'I',  'D',  'A',  'T',  0x78, 0x9c, 0x63, 0x70,
                                    0x74, 0x04, 0,    0,    0xc6, 0,    0x83, 0x58, 0xc4, 0x47, 0x24, 0,
                                    0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82};
  const std::string png(std::begin(kPng), std::end(kPng));
  EXPECT_THAT(decoded(png, 1), ElementsAre(65));
}

TEST_F(ImageDecoder, ReadsJpegPixelsNearly) {
  // Quality 100 still rounds the 64 coefficients of a block, each by up to a half: a flat block is off by one at most.
  const std::string grey = jpeg_bytes({8, 8, Bytes(64, 90)}, TJPF_GRAY);
  EXPECT_EQ(EncodedImage(file("grey", grey)).shape(), (ExampleShape{1, 8, 8}));
  EXPECT_THAT(decoded(grey, 1), testing::Each(testing::AllOf(testing::Ge(89), testing::Le(91))));
  EXPECT_EQ(decoded(grey, 3).size(), 192U);
  Picture red{8, 8, {}};
  for (int i = 0; i < 64; ++i) red.samples.insert(red.samples.end(), {200, 40, 60});
  const std::string colour = jpeg_bytes(red, TJPF_RGB);
  EXPECT_EQ(EncodedImage(file("colour", colour)).shape(), (ExampleShape{3, 8, 8}));
  const Bytes pixels = decoded(colour, 3);
  EXPECT_NEAR(pixels[0], 200, 3);
  EXPECT_NEAR(pixels[64], 40, 3);
  EXPECT_NEAR(pixels[128], 60, 3);
}

TEST_F(ImageDecoder, RefusesWhatIsNoImage) {
  expect_error(ErrorKind::kInput, "DIR/image: found neither a PNG nor a JPEG image; convert it or take it away",
               [&] { decoded("GIF89a", 3); });
}

TEST_F(ImageDecoder, RefusesDamagedImages) {
  const std::string png = png_bytes(kColour, PNG_FORMAT_RGB);
  EXPECT_THAT(refusal(png.substr(0, 20)), HasSubstr(": the PNG image does not decode ("));
  EXPECT_THAT(refusal(png.substr(0, png.size() - 20)), HasSubstr(": the PNG image does not decode ("));
  std::string flipped = png;
  flipped[png.size() - 18] ^= 1;  // inside the pixels: 16 bytes from the end is their checksum
  EXPECT_THAT(refusal(flipped), HasSubstr(": the PNG image does not decode ("));
  const std::string jpeg = jpeg_bytes({8, 8, Bytes(64, 90)}, TJPF_GRAY);
  EXPECT_THAT(refusal(jpeg.substr(0, 30)), HasSubstr(": the JPEG image does not decode ("));
  EXPECT_THAT(refusal(jpeg.substr(0, jpeg.size() - 4)), HasSubstr(": the JPEG image does not decode (Premature end"));
}

TEST_F(ImageDecoder, RefusesCmyk) {
  expect_error(ErrorKind::kInput, "DIR/image: found a JPEG image in CMYK, expected grey or RGB; convert it", [&] {
    decoded(jpeg_bytes({1, 1, {1, 2, 3, 4}}, TJPF_CMYK), 3);
  });
}

TEST_F(ImageDecoder, RefusesAHugeImageBeforeItIsAllocated) {
  const auto corpus = std::filesystem::path(LABELSHIFT_EXAMPLES).parent_path() / "fuzz/corpus/image/huge.png";
  EXPECT_THAT(refusal(bytes_of(corpus)), HasSubstr("image: found an image of 1000000 x 1000000 pixels, expected at "
                                                   "most 16777216 in all; scale it"));
}

}  // namespace
}  // namespace labelshift
