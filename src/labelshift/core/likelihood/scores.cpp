#include "labelshift/core/likelihood/scores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/likelihood/row_block.hpp"

namespace labelshift {
namespace {

constexpr double kSlack = 1e-9;  // 1 - 0.999 is above 0.001 by rounding

void check_row(const MatrixView& probs, Index row, const std::string& name) {
  double sum = 0.0;
  for (Index c = 0; c < probs.cols(); ++c) {
    const double value = probs(row, c);
    if (!std::isfinite(value))
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, row {}, column {}: found {}, expected a probability; remove the row or repair it",
                              name, row + 1, c + 1, value));
    if (value < 0.0)
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, row {}, column {}: found {}, expected a probability", name, row + 1, c + 1, value),
                  Remedy::kLogits);
    if (value > 1.0 + kRowSumTolerance + kSlack && value == std::floor(value))  // an id, an index, a count
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, row {}, column {}: found {}, expected a probability", name, row + 1, c + 1, value),
                  Remedy::kLogitsOrColumns);
    sum += value;
  }
  if (!(std::abs(sum - 1.0) <= kRowSumTolerance + kSlack))
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}, row {}: probabilities sum to {:.6g}, not 1 within {}", name, row + 1, sum, kRowSumTolerance),
        Remedy::kLogitsOrRenormalise);
}

/// Whether every row of a block is made of probabilities; t is for its columns.
bool all_probabilities(const MatrixView& rows, double* t) {
  constexpr double tolerance = kRowSumTolerance + kSlack;
  const LikelihoodKernel& kernel = best_kernel();
  const Index m = rows.cols();
  return rows.visit([&](const auto* data, Index row_stride, Index col_stride) {
    if (rows.rows() % LikelihoodKernel::kRowMultiple == 0 && col_stride == 1) {
      const bool few = m <= LikelihoodKernel::kFewColumns;
      if constexpr (std::is_same_v<decltype(data), const float*>) {
        const auto check = few ? kernel.few_probabilities_floats : kernel.wide_probabilities_floats;
        return check(data, row_stride, rows.rows(), m, tolerance);
      } else {
        const auto check = few ? kernel.few_probabilities_doubles : kernel.wide_probabilities_doubles;
        return check(data, row_stride, rows.rows(), m, tolerance);
      }
    }
    load_rows(rows, t);
    return kernel.all_probabilities(t, m, kBlockRows, rows.rows(), tolerance);
  });
}

void check_probabilities(const MatrixView& probs, const std::string& name) {
  if (probs.rows() == 0 || probs.cols() == 0)
    throw Error(ErrorKind::kInput, fmt::format("{} has {} rows and {} columns; at least one row and two classes are "
                                               "needed",
                                               name, probs.rows(), probs.cols()));
  if (probs.cols() < 2)
    throw Error(ErrorKind::kInput,
                fmt::format("{} has one column; at least two classes are needed, one column each", name));
  AlignedDoubles t(probs.cols() * kBlockRows);
  for (Index first = 0; first < probs.rows(); first += kBlockRows) {
    const Index count = std::min(kBlockRows, probs.rows() - first);
    if (all_probabilities(probs.middle_rows(first, count), t.data())) continue;
    for (Index j = first; j < first + count; ++j) check_row(probs, j, name);
  }
}

const char* advice_for(double bad_logit) {
  if (std::isnan(bad_logit)) return "remove the row or repair it";
  return bad_logit < 0.0 ? "write -1000 for a class that is ruled out"
                         : "compute logits that overflow in a wider type, or leave the row out";
}

void check_logits(const MatrixView& logits, const std::string& name) {
  if (logits.rows() == 0 || logits.cols() < 2)
    throw Error(ErrorKind::kInput, fmt::format("{} has {} rows and {} columns; at least one row and two classes are "
                                               "needed, one column each",
                                               name, logits.rows(), logits.cols()));
  for (Index i = 0; i < logits.rows(); ++i)
    for (Index c = 0; c < logits.cols(); ++c)
      if (!std::isfinite(logits(i, c)))
        throw Error(ErrorKind::kInput, fmt::format("{}, row {}, column {}: found {}, expected a finite logit; {}", name,
                                                   i + 1, c + 1, logits(i, c), advice_for(logits(i, c))));
}

}  // namespace

Scores::Scores(const MatrixView& values, bool logits, const std::string& name) : Scores(Known{}, values, logits) {
  if (logits)
    check_logits(values, name.empty() ? "logits" : name);
  else
    check_probabilities(values, name.empty() ? "probabilities" : name);
}

}  // namespace labelshift
