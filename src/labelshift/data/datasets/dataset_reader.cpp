#include "labelshift/data/datasets/dataset_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/datasets/cifar_reader.hpp"
#include "labelshift/data/datasets/class_names.hpp"
#include "labelshift/data/datasets/idx_reader.hpp"
#include "labelshift/data/datasets/image_folder.hpp"
#include "labelshift/data/files/byte_stream.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

TrainAndTest read_idx_directory(const std::string& directory, const std::vector<std::string>& class_names) {
  const std::string names_path = find_file(directory, "classes.txt");
  const auto read = [&](const std::string& part) {
    return read_idx_images(path_to_open(directory, part + "-images-idx3-ubyte"),
                           path_to_open(directory, part + "-labels-idx1-ubyte"),
                           names_path.empty() ? class_names : std::vector<std::string>());
  };
  TrainAndTest result{read("train"), read("t10k")};
  if (result.test.shape != result.train.shape)
    throw Error(ErrorKind::kInput,
                fmt::format("{}: found test images of {} x {}, expected {} x {} as in the training images", directory,
                            result.test.shape.height, result.test.shape.width, result.train.shape.height,
                            result.train.shape.width));
  const Index classes = std::max(result.train.classes(), result.test.classes());
  auto names = class_names.empty() ? numbered_classes(classes) : class_names;
  if (!names_path.empty()) {
    names = read_class_names(names_path);
    if (std::ssize(names) < classes)
      throw Error(ErrorKind::kInput, fmt::format("{} has {} names, expected {}, one for each label from 0 to {}",
                                                 names_path, names.size(), classes, classes - 1));
  }
  result.train.class_names = result.test.class_names = std::move(names);
  return result;
}

TrainAndTest read_directory(const std::string& path, const std::vector<std::string>& class_names) {
  const auto has = [&](const std::string& name) { return !find_file(path, name).empty(); };
  for (const char* part : {"train", "t10k"})
    for (const char* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"})
      if (has(std::string(part) + kind)) return read_idx_directory(path, class_names);
  if (has("data_batch_1.bin") || has("test_batch.bin")) return read_cifar_directory(path, CifarLayout::kCifar10);
  if (has("train.bin") || has("test.bin")) return read_cifar_directory(path, CifarLayout::kCifar100);
  std::error_code ignored;  // a directory that cannot be looked into is one that cannot be read, which is said below
  if (fs::is_directory(path + "/train", ignored) && fs::is_directory(path + "/test", ignored)) {
    Dataset train = read_image_folder(path + "/train", class_names);
    Dataset test = read_image_folder(path + "/test", train.class_names, &train);
    return {std::move(train), std::move(test)};
  }
  return {read_image_folder(path, class_names), {}};
}

/// Whether a file is an IDX array of whatever type and dimensions, plain or gzipped. Nothing is taken out of a pipe.
bool is_idx(const std::string& path) {
  InputFile file(path);
  if (!file.starts_with("\0\0"sv) && !file.starts_with("\x1f\x8b"sv)) return false;
  UnpackedFile unpacked(std::move(file));
  const std::vector<std::uint8_t> magic = read_bytes(unpacked, 3);
  return magic.size() == 3 && magic[0] == 0 && magic[1] == 0 && magic[2] >= 0x08 && magic[2] <= 0x0e;  // the type
}

void check_no_ignored(const std::string& path, const LabelOptions& options) {
  if (!options.ignore.empty())
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: images have no columns to leave out; name columns of a table only", path));
}

TrainAndTest read_file(const std::string& path, const LabelOptions& options) {
  if (is_idx(path)) {
    check_no_ignored(path, options);
    return {read_idx_images(path, options.file, options.class_names), {}};
  }
  return {read_table(path, options), {}};
}

}  // namespace

TrainAndTest read_dataset(const std::string& path, const LabelOptions& options) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return read_file(path, options);
  if (!options.column.empty() || !options.file.empty())
    throw Error(ErrorKind::kUsage, fmt::format("{}: a directory has its labels in it; a label column or a file of "
                                               "labels goes with a table",
                                               path));
  check_no_ignored(path, options);
  return read_directory(path, options.class_names);
}

}  // namespace labelshift
