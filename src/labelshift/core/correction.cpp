#include "labelshift/core/correction.hpp"

#include "labelshift/core/likelihood/sample_summary.hpp"

namespace labelshift {

Correction Correction::of(const LabelShiftResult& result) {
  const auto& fit = result.calibration_fit;
  return {.calibration = fit ? fit->calibration : Calibration::identity(result.target_prior.size()),
          .ratio = result.estimate.ratio,
          .target_prior = result.target_prior};
}

Correction Correction::none(Index classes) {
  return {.calibration = Calibration::identity(classes)};
}

void Correction::apply(const Scores& scores, Index first, Eigen::Ref<RowMajorMatrix<double>> out,
                       Adaptation& adaptation) const {
  RowMajorMatrix<double> calibrated(out.rows(), out.cols());
  apply_calibration(calibration, scores, first, calibrated);
  if (corrects())
    adapt_rows(calibrated, ratio, target_prior, 0, out);
  else
    out = calibrated;
  adaptation.corrected = corrects();
  adaptation.rows += out.rows();
  const MatrixView used(out.data(), out.rows(), out.cols(), out.outerStride(), 1);
  for (Index i = 0; i < out.rows(); ++i) {
    const int said = arg_max(scores, first + i);
    adaptation.changed += arg_max(used, i) != said;
    adaptation.changed_by_calibration += arg_max(calibrated, i) != said;
  }
}

}  // namespace labelshift
