#pragma once

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

#include <cstdint>
#include <string>
#include <vector>

namespace labelshift {

/// Pixels as encoders want them, channel by channel within a pixel.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> samples;  // (height, width, channels)
};

/// The bytes of a PNG file; `format` is libpng's and says what the samples are.
inline std::string png_bytes(const Picture& picture, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = format;
  png_alloc_size_t size = 0;
  EXPECT_TRUE(png_image_write_get_memory_size(image, size, 0, picture.samples.data(), 0, nullptr)) << image.message;
  std::string bytes(size, '\0');
  EXPECT_TRUE(png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.samples.data(), 0, nullptr))
      << image.message;
  bytes.resize(size);
  return bytes;
}

/// The bytes of a JPEG file of high quality; `format` is TurboJPEG's and says what the samples are.
inline std::string jpeg_bytes(const Picture& picture, int format) {
  tjhandle encoder = tjInitCompress();
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(encoder, picture.samples.data(), picture.width, 0, picture.height, format, &buffer, &size,
                        format == TJPF_GRAY ? TJSAMP_GRAY : TJSAMP_444, 100, 0),
            0)
      << tjGetErrorStr2(encoder);
  std::string bytes(reinterpret_cast<char*>(buffer), size);
  tjFree(buffer);
  tjDestroy(encoder);
  return bytes;
}

/// A grey PNG of one value.
inline std::string grey_png(int width, int height, std::uint8_t value) {
  return png_bytes({width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height), value)},
                   PNG_FORMAT_GRAY);
}

}  // namespace labelshift
