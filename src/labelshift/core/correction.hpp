#pragma once

#include <Eigen/Core>

#include "labelshift/core/label_shift.hpp"

namespace labelshift {

/// What became of the target's predictions.
struct Adaptation {
  bool corrected = true;  // else they were left alone
  Index rows = 0;
  Index changed = 0;                 // rows whose most probable class is another than the classifier's
  Index changed_by_calibration = 0;  // rows where it would be another after the calibration alone
};

/// Turns a classifier's scores into probabilities for another mix than that of its source: first the calibration, then
/// p_te(y | x), which is proportional to f_y(x) r_y.
struct Correction {
  Calibration calibration;
  Eigen::VectorXd ratio;         // (m) r(y); empty: the predictions are left alone, not calibrated either
  Eigen::VectorXd target_prior;  // (m) q = p_tr r

  /// The one that a result found, or one that leaves predictions alone.
  static Correction of(const LabelShiftResult& result);
  static Correction none(Index classes);

  bool corrects() const { return ratio.size() > 0; }

  /// Rows [first, first + out.rows()) into `out`; what became of them is added to `adaptation`.
  void apply(const Scores& scores, Index first, Eigen::Ref<RowMajorMatrix<double>> out, Adaptation& adaptation) const;
};

}  // namespace labelshift
