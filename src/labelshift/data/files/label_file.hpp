#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

struct Labels {
  std::vector<int> labels;               // (n) in {0, ..., classes - 1}
  std::vector<std::string> class_names;  // (classes), or empty if nothing names the classes
};

/// Calls visit(spelling, place) for every line of a file of one label a line, header included, or for every number of
/// a .npy array. `place()` says where that is. Throws Error{kInput} if a line has more than one cell.
using LabelVisitor = std::function<void(std::string_view spelling, const std::function<std::string()>& place)>;
void for_each_label(const std::string& path, const LabelVisitor& visit);

/// Reads one label a row: a text of one column, with or without header, or a .npy array of numbers. Labels are either
/// names or the integers 0 to classes - 1. `class_names` are those of the probabilities' header: labels that are all
/// among them are names, even if they look like numbers. Where it is empty, names are numbered in sorted order and
/// there must be exactly `classes` of them. Throws Error{kInput} naming file, row, found and expected.
Labels read_labels(const std::string& path, const std::vector<std::string>& class_names, Index classes);

}  // namespace labelshift
