#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/datasets/cifar_reader.hpp"
#include "labelshift/data/datasets/idx_reader.hpp"
#include "labelshift/data/datasets/image_decoder.hpp"
#include "labelshift/data/datasets/table_reader.hpp"
#include "labelshift/data/files/csv_reader.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/label_file.hpp"
#include "labelshift/data/files/npy_reader.hpp"
#include "labelshift/data/files/safetensors.hpp"
#include "labelshift/data/files/tar_reader.hpp"

/// What the fuzzers and the test of their corpus do with a file: read it, use everything that was read, and let pass
/// nothing but Error{kInput}, or Error{kUsage} where the reader was asked for a column that need not be there.
namespace labelshift::fuzz {

inline void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

template <typename Act>
void read_or_refuse(Act&& act, ErrorKind also = ErrorKind::kInput) {
  try {
    act();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput || error.kind() == also, "an error of the wrong kind");
  }
}

inline void use(const MatrixView& view) {
  double sum = 0.0;
  if (view.cols() > 0)
    for (Index i = 0; i < view.rows(); ++i)
      for (Index c = 0; c < view.cols(); ++c) sum += view(i, c);
  volatile double used = sum;
  static_cast<void>(used);
}

inline void read_npy(const std::string& path) {
  read_or_refuse([&] {
    const NpyFile array{InputFile(path)};
    read_or_refuse([&] { use(array.view()); });
    read_or_refuse([&] { array.column(); });
  });
}

inline void read_csv(const std::string& path) {
  read_or_refuse([&] {
    const CsvMatrix matrix = labelshift::read_csv(InputFile(path));
    require(matrix.values.rows() > 0, "a matrix without rows");
    require(matrix.column_names.empty() || std::ssize(matrix.column_names) == matrix.values.cols(),
            "a header of another length");
    use(matrix.values);
  });
}

inline void read_labels(const std::string& path) {
  for (const auto& names : {std::vector<std::string>{}, {"cat", "dog", "fish"}}) {
    read_or_refuse([&] {
      const Labels labels = labelshift::read_labels(path, names, 3);
      require(!labels.labels.empty(), "no labels");
      require(labels.class_names.empty() || labels.class_names.size() == 3, "too many or too few names");
      for (const int label : labels.labels) require(label >= 0 && label < 3, "a label out of range");
    });
  }
}

inline void read_rows(const std::string& path) {
  read_or_refuse([&] {
    std::ifstream in(path, std::ios::binary);
    RowReader reader(in, 3);
    for (std::vector<double> row; reader.next(row);) require(row.size() == 3, "a row of another length");
  });
}

inline void read_safetensors(const std::string& path) {
  read_or_refuse([&] {
    const SafetensorsFile file(path);
    double sum = 0.0;
    for (const NamedTensor& tensor : file.tensors()) {
      std::size_t count = 1;
      for (const Index size : tensor.shape) count *= static_cast<std::size_t>(size);
      require(count == tensor.values.size(), "a tensor of another size than its shape");
      for (const float value : tensor.values) sum += value;
    }
    volatile double used = sum;
    static_cast<void>(used);
  });
}

/// Whether a data set is what its type promises.
inline void use(const Dataset& data) {
  require(data.size() > 0, "no examples");
  require(std::visit([](const auto& v) { return static_cast<Index>(v.size()); }, data.values) ==
              data.size() * data.shape.size(),
          "a part of an example");
  require(data.labels.empty() || std::ssize(data.labels) == data.size(), "labels for other examples");
  require(data.column_names.empty() || std::ssize(data.column_names) == data.shape.width, "a header of another length");
  for (const int label : data.labels) require(label >= 0 && label < data.classes(), "a label out of range");
}

inline void read_idx(const std::string& path) {
  read_or_refuse([&] { use(read_idx_images(path, "")); });
  read_or_refuse([&] { require(!labelshift::read_idx(path, 1).values.empty(), "no labels"); });
}

inline void read_cifar(const std::string& path) {
  for (const auto layout : {CifarLayout::kCifar10, CifarLayout::kCifar100})
    read_or_refuse([&] { use(labelshift::read_cifar({path}, layout, {"cat", "dog", "fish"})); });
}

inline void read_image(const std::string& path) {
  read_or_refuse([&] {
    const EncodedImage image(path);
    const Index area = image.shape().height * image.shape().width;
    require(area > 0 && area <= kMostPixels, "an image without bounds");
    if (area > 1 << 20) return;  // decoding millions of pixels slows the fuzzer down and shows nothing new
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * area));
    read_or_refuse([&] { image.decode(3, pixels.data()); });
    if (image.shape().channels == 1) read_or_refuse([&] { image.decode(1, pixels.data()); });
  });
}

inline void read_table(const std::string& path) {
  read_or_refuse([&] { use(labelshift::read_table(path)); });
  for (const char* column : {"0", "label"})
    read_or_refuse([&] { use(labelshift::read_table(path, {.column = column})); }, ErrorKind::kUsage);
  const std::vector<std::string> names{"cat", "dog", "1"};
  read_or_refuse([&] {
    const Dataset data = labelshift::read_table(path, {.class_names = names});
    use(data);
    require(data.labels.empty() || data.class_names == names, "other classes than those that were given");
  });
}

inline void read_tar(const std::string& path) {
  read_or_refuse([&] {
    TarReader tar(path);
    std::vector<char> chunk(1000);
    while (tar.next()) {
      const std::filesystem::path name(tar.name());
      require(!name.empty() && !name.is_absolute(), "a name outside");
      for (const auto& part : name) require(part != "..", "a name that leads outside");
      while (tar.read(chunk) > 0) continue;
    }
  });
}

}  // namespace labelshift::fuzz
