#pragma once

#include <Eigen/Core>
#include <string>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// How far the sum of a row of probabilities may be from 1: a float32 softmax is within 1e-6, ten probabilities
/// rounded to four decimals within 5e-4.
inline constexpr double kRowSumTolerance = 1e-3;

/// What a classifier said: one row an example, one column a class. The rows are checked when they become scores, which
/// costs a pass, and never again: whoever takes scores has nothing to check. They must stay as they were.
class Scores : public MatrixView {
 public:
  /// Logits are raw scores, whose softmax is f(x); without them the values are f(x) itself. Throws Error{kInput} naming
  /// `name` ("logits" or "probabilities" if it is empty), row, column and value unless there are a row and two columns
  /// and every logit is finite, or no probability is negative and every row sums to 1.
  Scores(const MatrixView& values, bool logits = false, const std::string& name = "");

  /// Rows that the caller has made such, or has checked one by one.
  static Scores known(const MatrixView& values, bool logits) { return Scores(Known{}, values, logits); }

  bool logits() const { return logits_; }

  Scores every(Index step) const { return known(MatrixView::every(step), logits_); }

 protected:
  struct Known {};
  Scores(Known, const MatrixView& values, bool logits) : MatrixView(values), logits_(logits) {}

 private:
  bool logits_;
};

/// Scores that are f(x) itself: what estimators and tests work on.
class Probabilities : public Scores {
 public:
  /// As Scores. A view asks for it by name, since code that passes views on has most often checked them before.
  explicit Probabilities(const MatrixView& values, const std::string& name = "") : Scores(values, false, name) {}
  template <typename Scalar, int Options>
  Probabilities(const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Options>& matrix)
      : Probabilities(MatrixView(matrix)) {}

  /// Rows that the caller has made such: a softmax, a copy of probabilities, scores that are no logits.
  static Probabilities known(const MatrixView& values) { return Probabilities(Known{}, values); }

  Probabilities every(Index step) const { return known(MatrixView::every(step)); }
  Probabilities middle_rows(Index first, Index count) const { return known(MatrixView::middle_rows(first, count)); }

 private:
  Probabilities(Known, const MatrixView& values) : Scores(Known{}, values, false) {}
};

}  // namespace labelshift
