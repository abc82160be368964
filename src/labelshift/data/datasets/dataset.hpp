#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// The size of one example: an image, or a row of a table as 1 x 1 x columns.
struct ExampleShape {
  Index channels = 1;
  Index height = 1;
  Index width = 1;

  Index size() const { return channels * height * width; }
  bool operator==(const ExampleShape&) const = default;
};

/// Examples in memory, as they were in the file: bytes stay bytes and are normalised on their way into a net. Parts of
/// a data set are lists of row numbers, never copies.
struct Dataset {
  ExampleShape shape;
  std::variant<std::vector<std::uint8_t>, std::vector<float>> values;  // (n, channels, height, width)
  std::vector<int> labels;                                             // (n) in {0, ..., m - 1}; empty: unlabelled
  std::vector<std::string> class_names;                                // (m)
  std::vector<std::string> column_names;                               // of a table with a header, labels left out

  Index size() const {
    return std::visit([&](const auto& v) { return static_cast<Index>(v.size()) / shape.size(); }, values);
  }
  Index classes() const { return static_cast<Index>(class_names.size()); }
};

/// The two parts that published data sets come in.
struct TrainAndTest {
  Dataset train;
  Dataset test;
};

}  // namespace labelshift
