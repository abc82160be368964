#pragma once

#include <Eigen/Core>
#include <span>
#include <string>

namespace labelshift {

/// Reads a mix of classes that are known by name, in their order. It is what `labelshift estimate` writes as JSON or
/// CSV, of which the target mix is taken; a table with a class and its share in each row; or the shares alone, as
/// numbers with commas ("0.1,0.2,0.7") or a file with them in one row or one column, under a header of class names or
/// none. Classes that are named may stand in any order, and a name can be the number of the class, from 0. Throws
/// Error{kInput} unless every class has one share, not below 0, and all sum to 1 within kRowSumTolerance; they are then
/// scaled to sum to 1.
Eigen::VectorXd read_class_mix(const std::string& path_or_numbers, std::span<const std::string> class_names);

}  // namespace labelshift
