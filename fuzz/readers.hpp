#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "labelshift/core/error.hpp"
#include "labelshift/data/csv_reader.hpp"
#include "labelshift/data/label_file.hpp"
#include "labelshift/data/npy_reader.hpp"

/// What the fuzzers and the test of their corpus do with a file: read it, use everything that was read, and let pass
/// nothing but Error{kInput}.
namespace labelshift::fuzz {

inline void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

template <typename Act>
void read_or_refuse(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput, "an error of the wrong kind");
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

}  // namespace labelshift::fuzz
