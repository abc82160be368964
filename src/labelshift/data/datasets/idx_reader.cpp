#include "labelshift/data/datasets/idx_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/datasets/class_names.hpp"
#include "labelshift/data/files/byte_stream.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;

/// Turns labels into positions among `class_names`.
void look_up(std::vector<int>& labels, const std::vector<std::string>& class_names, const std::string& path) {
  double value = 0.0;
  const bool numbers = std::any_of(class_names.begin(), class_names.end(),
                                   [&](const std::string& name) { return parse_number(name, value); });
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Index position = labels[i];
    if (numbers)
      position = std::find(class_names.begin(), class_names.end(), std::to_string(position)) - class_names.begin();
    if (position >= std::ssize(class_names))
      throw Error(ErrorKind::kInput, fmt::format("{}, row {}: found label {}, expected one of the classes {}", path,
                                                 i + 1, labels[i], fmt::join(class_names, ", ")));
    labels[i] = static_cast<int>(position);
  }
}

}  // namespace

IdxArray read_idx(const std::string& path, int dimensions) {
  const auto fail = [&](const std::string& problem) {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", path, problem));
  };
  UnpackedFile file{InputFile(path)};
  // Two zero bytes, the type, the number of dimensions; then the size of each, big-endian; then the data.
  const std::vector<std::uint8_t> magic = read_bytes(file, 4);
  if (magic.size() < 4 || magic[0] != 0 || magic[1] != 0)
    fail(fmt::format("found the first bytes {:02x}, expected 00 00 08 {:02x}, an IDX file; check that it is one",
                     fmt::join(magic, " "), dimensions));
  if (magic[2] != kUnsignedByte)
    fail(fmt::format("found IDX type 0x{:02x}, expected 0x08, unsigned bytes; convert it", magic[2]));
  if (magic[3] != dimensions)
    fail(fmt::format("found an IDX array of {} dimension{}, expected {}; check that images and labels are not swapped",
                     magic[3], magic[3] == 1 ? "" : "s", dimensions));
  const std::vector<std::uint8_t> sizes = read_bytes(file, 4 * static_cast<std::size_t>(dimensions));
  if (sizes.size() < 4 * static_cast<std::size_t>(dimensions))
    fail("the file ends inside the IDX header; it is cut off, so copy it again");

  IdxArray result;
  std::size_t promised = 1;
  bool overflow = false;
  for (std::size_t at = 0; at < sizes.size(); at += 4) {
    std::size_t size = 0;
    for (std::size_t byte = at; byte < at + 4; ++byte) size = size << 8 | sizes[byte];
    overflow |= __builtin_mul_overflow(promised, size, &promised);
    result.shape.push_back(static_cast<Index>(size));
  }
  const std::string shape = fmt::format("{}", fmt::join(result.shape, " x "));
  if (overflow || promised > static_cast<std::size_t>(std::numeric_limits<Index>::max()))
    fail(fmt::format("the IDX header promises {} bytes, more than any memory holds; copy it again", shape));
  if (promised == 0) fail(fmt::format("found {} bytes of data, expected at least one", shape));
  result.values = read_bytes(file, promised);
  if (result.values.size() < promised)
    fail(fmt::format("found {} bytes of data, expected {} for {}; it is cut off, so copy it again",
                     result.values.size(), promised, shape));
  if (file.peek() != std::istream::traits_type::eof())
    fail(fmt::format("found more than the {} bytes of data that its header promises for {}; copy it again", promised,
                     shape));
  return result;
}

Dataset read_idx_images(const std::string& images_path, const std::string& labels_path,
                        const std::vector<std::string>& class_names) {
  IdxArray images = read_idx(images_path, 3);
  Dataset result;
  result.shape = {.channels = 1, .height = images.shape[1], .width = images.shape[2]};
  result.values = std::move(images.values);
  if (labels_path.empty()) return result;
  const IdxArray labels = read_idx(labels_path, 1);
  if (labels.shape[0] != images.shape[0])
    throw Error(ErrorKind::kInput, fmt::format("{}: found {} labels, expected {}, one for each image of {}",
                                               labels_path, labels.shape[0], images.shape[0], images_path));
  result.labels.assign(labels.values.begin(), labels.values.end());
  result.class_names = class_names;
  if (!class_names.empty())
    look_up(result.labels, class_names, labels_path);
  else
    result.class_names = numbered_classes(1 + *std::max_element(result.labels.begin(), result.labels.end()));
  return result;
}

}  // namespace labelshift
