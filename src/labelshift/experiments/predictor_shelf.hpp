#pragma once

#include <optional>
#include <string>

#include "labelshift/experiments/experiment.hpp"
#include "labelshift/federation/federation.hpp"

namespace labelshift {

/// Predictors that all nodes of a run trained together, kept for other runs in which the very same training would come
/// to the same bits: other calibrations and estimators, other models, other candidates of a tuned row.
class PredictorShelf {
 public:
  /// Whether a run trains a predictor that others may share. Between sites nobody knows all the data that it is made
  /// from.
  static bool is_for(const RunSettings& settings);

  /// `settings`, which it is for, are those that the run is made with, and `fingerprint` is of its data and of the
  /// model it starts from.
  PredictorShelf(std::string folder, const RunSettings& settings, const std::string& fingerprint);

  /// Nothing where there is none, or where its file is damaged.
  std::optional<TrainedTogether> find(double zeta) const;
  void keep(double zeta, const TrainedTogether& trained) const;

  /// Where one with this zeta is kept.
  std::string path(double zeta) const;

 private:
  std::string folder_;
  std::string made_from_;  // JSON: all that its training depends on, but zeta
};

}  // namespace labelshift
