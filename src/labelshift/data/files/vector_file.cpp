#include "labelshift/data/files/vector_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <sstream>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/files/csv_reader.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/npy_reader.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {
namespace {

std::vector<double> read_numbers(const std::string& path, std::span<const std::string> class_names) {
  InputFile file(path);
  if (file.starts_with(kNpyMagic)) return NpyFile(file).column();
  const CsvMatrix table = read_csv(std::move(file));
  const auto& values = table.values;
  if (values.rows() != 1 && values.cols() != 1)
    throw Error(ErrorKind::kInput, fmt::format("{}: found {} rows of {} numbers, expected one row or one column", path,
                                               values.rows(), values.cols()));
  if (values.cols() > 1 && table.column_names.size() == class_names.size())
    for (std::size_t c = 0; c < class_names.size(); ++c)
      if (table.column_names[c] != class_names[c])
        throw Error(ErrorKind::kInput,
                    fmt::format("{}, column {}: found the name {}, expected {}; give the classes the "
                                "same names and order as the other files do, or no names",
                                path, c + 1, excerpt(table.column_names[c]), excerpt(class_names[c])));
  return {values.data(), values.data() + values.size()};
}

}  // namespace

std::vector<double> read_weights(const std::string& path, Index rows) {
  std::vector<double> weights;
  InputFile file(path);
  if (file.starts_with(kNpyMagic)) {
    weights = NpyFile(file).column();
  } else {
    UnpackedFile text(std::move(file));
    RowReader reader(text, 1, path);
    for (std::vector<double> row; reader.next(row);) weights.push_back(row[0]);
  }
  if (weights.empty()) throw Error(ErrorKind::kInput, fmt::format("{} has 0 weights for {} rows", path, rows));
  weights = relative_weights(weights);
  check_weights(weights, rows, path);
  return weights;
}

Eigen::VectorXd read_prior(const std::string& path_or_numbers, Index classes,
                           std::span<const std::string> class_names) {
  const bool numbers = path_or_numbers.find(',') != std::string::npos && ::access(path_or_numbers.c_str(), F_OK) != 0;
  const std::string name = numbers ? "the prior \"" + path_or_numbers + '"' : path_or_numbers;
  std::vector<double> values;
  if (numbers) {
    std::istringstream text(path_or_numbers);
    RowReader(text, 0, name).next(values);
  } else {
    values = read_numbers(path_or_numbers, class_names);
  }
  if (static_cast<Index>(values.size()) != classes)
    throw Error(ErrorKind::kInput,
                fmt::format("{} has {} numbers, expected {}, one for each class", name, values.size(), classes));
  double sum = 0.0;
  for (std::size_t c = 0; c < values.size(); ++c) {
    if (!(values[c] > 0.0))  // NaN fails too
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, class {}: found {}, expected a probability above 0", name, c, values[c]));
    if (values[c] < kLeastPrior)
      throw Error(ErrorKind::kInput, fmt::format("{}, class {}: found {}, expected {} or more, to be divided by", name,
                                                 c, values[c], kLeastPrior));
    sum += values[c];
  }
  if (!(std::abs(sum - 1.0) <= kRowSumTolerance))
    throw Error(ErrorKind::kInput,
                fmt::format("{}: the probabilities sum to {:.6g}, expected 1 within {}", name, sum, kRowSumTolerance));
  return Eigen::Map<const Eigen::VectorXd>(values.data(), classes) / sum;
}

}  // namespace labelshift
