#include "labelshift/data/datasets/cifar_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/datasets/class_names.hpp"
#include "labelshift/data/files/byte_stream.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {
namespace {

constexpr ExampleShape kShape{.channels = 3, .height = 32, .width = 32};
constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of a file, unpacked: six times those of CIFAR-100

}  // namespace

Dataset read_cifar(const std::vector<std::string>& paths, CifarLayout layout, std::vector<std::string> class_names) {
  const std::size_t label_bytes = layout == CifarLayout::kCifar10 ? 1 : 2;
  const std::size_t record = label_bytes + static_cast<std::size_t>(kShape.size());
  std::vector<std::uint8_t> pixels;
  Dataset result{.shape = kShape, .class_names = std::move(class_names)};
  for (const std::string& path : paths) {
    UnpackedFile stream{InputFile(path)};
    const std::vector<std::uint8_t> bytes = read_bytes(stream, kMostBytes);
    if (bytes.empty() || bytes.size() % record != 0 || stream.peek() != std::istream::traits_type::eof())
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: found {} bytes, expected records of {}; it is cut off or no CIFAR-{} file, so copy "
                              "it again",
                              path, bytes.size(), record, layout == CifarLayout::kCifar10 ? 10 : 100));
    if (pixels.empty()) pixels.reserve(paths.size() * bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += record) {
      const int label = bytes[at + label_bytes - 1];
      if (label >= std::ssize(result.class_names))
        throw Error(ErrorKind::kInput, fmt::format("{}, record {}: found label {}, expected 0 to {}", path,
                                                   at / record + 1, label, std::ssize(result.class_names) - 1));
      result.labels.push_back(label);
      pixels.insert(pixels.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at + label_bytes),
                    bytes.begin() + static_cast<std::ptrdiff_t>(at + record));
    }
  }
  result.values = std::move(pixels);
  return result;
}

TrainAndTest read_cifar_directory(const std::string& directory, CifarLayout layout) {
  const auto in_directory = [&](const std::string& name) { return path_to_open(directory, name); };
  if (layout == CifarLayout::kCifar100) {
    const auto names = read_class_names(in_directory("fine_label_names.txt"));
    return {read_cifar({in_directory("train.bin")}, layout, names),
            read_cifar({in_directory("test.bin")}, layout, names)};
  }
  const auto names = read_class_names(in_directory("batches.meta.txt"));
  std::vector<std::string> batches;
  for (int batch = 1; batch <= 5; ++batch) batches.push_back(in_directory(fmt::format("data_batch_{}.bin", batch)));
  return {read_cifar(batches, layout, names), read_cifar({in_directory("test_batch.bin")}, layout, names)};
}

}  // namespace labelshift
