#pragma once

#include <Eigen/Core>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// Reads a weight a row: a text of one column, with or without header, or a .npy array. Throws Error{kInput} unless
/// they are what check_weights asks for. They are returned as relative_weights makes them.
std::vector<double> read_weights(const std::string& path, Index rows);

/// Reads p(y): the numbers themselves ("0.1,0.2,0.7"), or a file with them in one row or one column. Throws
/// Error{kInput} unless there are `classes` numbers of at least kLeastPrior that sum to 1 within kRowSumTolerance; they
/// are then scaled to sum to 1. A header must name the same classes in the same order as `class_names`, if there are
/// any.
Eigen::VectorXd read_prior(const std::string& path_or_numbers, Index classes,
                           std::span<const std::string> class_names = {});

}  // namespace labelshift
