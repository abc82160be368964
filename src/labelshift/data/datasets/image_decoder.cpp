#include "labelshift/data/datasets/image_decoder.hpp"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <memory>
#include <new>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/byte_stream.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 28;

/// libpng's handle on an image whose header was read, which is freed whatever happens.
class PngImage {
 public:
  explicit PngImage(const std::vector<std::uint8_t>& bytes) {
    image_.version = PNG_IMAGE_VERSION;
    good_ = png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()) != 0;
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // else libpng takes 16-bit samples to be linear light
  }
  PngImage(const PngImage&) = delete;
  ~PngImage() { png_image_free(&image_); }

  bool good() const { return good_; }
  png_image* get() { return &image_; }
  png_image* operator->() { return &image_; }

 private:
  png_image image_{};
  bool good_ = false;
};

using JpegDecoder = std::unique_ptr<void, int (*)(tjhandle)>;

JpegDecoder jpeg_decoder() {
  JpegDecoder decoder(tjInitDecompress(), tjDestroy);
  if (!decoder) throw std::bad_alloc();
  return decoder;
}

}  // namespace

EncodedImage::EncodedImage(const std::string& path) : path_(path) {
  InputFile file(path);
  const bool jpeg = file.starts_with("\xff\xd8\xff");
  png_ = file.starts_with("\x89PNG\r\n\x1a\n");
  if (!png_ && !jpeg) fail("found neither a PNG nor a JPEG image; convert it or take it away");
  UnpackedFile stream(std::move(file));
  bytes_ = read_bytes(stream, kMostBytes + 1);
  if (bytes_.size() > kMostBytes) fail(fmt::format("found an image file of more than {} bytes; scale it", kMostBytes));
  if (png_)
    read_png_header();
  else
    read_jpeg_header();
  if (shape_.width > kMostPixels / shape_.height)
    fail(fmt::format("found an image of {} x {} pixels, expected at most {} in all; scale it", shape_.width,
                     shape_.height, kMostPixels));
}

void EncodedImage::fail(const std::string& problem) const {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}", path_, problem));
}

void EncodedImage::read_png_header() {
  PngImage image(bytes_);
  if (!image.good()) fail(fmt::format("the PNG image does not decode ({}); replace it", image->message));
  const bool colour = (image->format & PNG_FORMAT_FLAG_COLOR) != 0;
  shape_ = {.channels = colour ? 3 : 1, .height = image->height, .width = image->width};
}

void EncodedImage::read_jpeg_header() {
  const JpegDecoder decoder = jpeg_decoder();
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), bytes_.data(), bytes_.size(), &width, &height, &sampling, &colours) != 0 ||
      width < 1 || height < 1)
    fail(fmt::format("the JPEG image does not decode ({}); replace it", tjGetErrorStr2(decoder.get())));
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    fail("found a JPEG image in CMYK, expected grey or RGB; convert it");
  shape_ = {.channels = colours == TJCS_GRAY ? 1 : 3, .height = height, .width = width};
}

void EncodedImage::decode(Index channels, std::uint8_t* pixels) const {
  const Index area = shape_.height * shape_.width;
  std::vector<std::uint8_t> interleaved(static_cast<std::size_t>(area * channels));
  if (png_)
    decode_png(interleaved, channels);
  else
    decode_jpeg(interleaved, channels);
  const std::uint8_t* from = interleaved.data();
  for (Index at = 0; at < area; ++at)
    for (Index channel = 0; channel < channels; ++channel) pixels[channel * area + at] = *from++;
}

void EncodedImage::decode_png(std::span<std::uint8_t> interleaved, Index channels) const {
  PngImage image(bytes_);
  image->format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(image.get(), &white, interleaved.data(), /*row_stride=*/0, /*colormap=*/nullptr))
    fail(fmt::format("the PNG image does not decode ({}); replace it", image->message));
}

void EncodedImage::decode_jpeg(std::span<std::uint8_t> interleaved, Index channels) const {
  const JpegDecoder decoder = jpeg_decoder();
  // What libjpeg calls a warning, such as a premature end, is an error here. The limit on scans is against files that
  // take minutes to decode.
  if (tjDecompress2(decoder.get(), bytes_.data(), bytes_.size(), interleaved.data(), static_cast<int>(shape_.width),
                    /*pitch=*/0, static_cast<int>(shape_.height), channels == 1 ? TJPF_GRAY : TJPF_RGB,
                    TJFLAG_LIMITSCANS) != 0)
    fail(fmt::format("the JPEG image does not decode ({}); replace it", tjGetErrorStr2(decoder.get())));
}

}  // namespace labelshift
