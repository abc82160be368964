#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "labelshift/data/datasets/dataset.hpp"

namespace labelshift {

/// Pixels of the largest image that is decoded: a few bytes can promise an image of gigabytes.
inline constexpr Index kMostPixels = Index{1} << 24;

/// A PNG or JPEG file in memory, of which the header was read and the pixels were not.
class EncodedImage {
 public:
  /// Throws Error{kInput} if the file is neither PNG nor JPEG by its first bytes, its header is damaged, or it has more
  /// than kMostPixels.
  explicit EncodedImage(const std::string& path);

  /// Of the image; 1 channel if it is grey, else 3.
  const ExampleShape& shape() const { return shape_; }
  /// Writes the pixels as (channels, height, width) bytes: 16-bit samples are scaled, transparency lies on white, and a
  /// grey image fills three channels if three are asked for. Throws Error{kInput} if the image is damaged or cut off.
  void decode(Index channels, std::uint8_t* pixels) const;

 private:
  [[noreturn]] void fail(const std::string& problem) const;
  void read_png_header();
  void read_jpeg_header();
  void decode_png(std::span<std::uint8_t> interleaved, Index channels) const;
  void decode_jpeg(std::span<std::uint8_t> interleaved, Index channels) const;
  std::string path_;
  std::vector<std::uint8_t> bytes_;
  bool png_ = false;
  ExampleShape shape_;
};

}  // namespace labelshift
