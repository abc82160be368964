#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/calibration/source_fit.hpp"
#include "labelshift/learning/trainer.hpp"

namespace labelshift {

/// What is tried, and how it is judged.
struct SelectionSettings {
  std::vector<double> zetas = {0.0, 0.1, 0.3, 1.0};
  std::vector<int> epochs;  // at which to look, ascending; empty: an eighth, a quarter, a half and all of the training
  std::vector<std::string> calibrations = {"none", "ts", "bcts"};
  std::vector<double> alphas = {0.1, 1.0, 10.0};  // of the Dirichlet distributions of priors
  int priors = 20;                                // drawn for each alpha, from each half of the held-out examples
  std::string estimator = "mlls-sqp";
};

struct Candidate {
  double zeta = 0.0;
  int epochs = 0;
  std::string calibration;
  double error = 0.0;           // mean over all priors drawn of the mean squared error of the ratio
  double standard_error = 0.0;  // of `error`, over the priors drawn; all candidates are judged on the same ones
};

struct Selection {
  std::vector<Candidate> candidates;
  std::size_t chosen = 0;
  int epochs = 0;         // trained, over all zetas
  int resumed_from = 0;   // of them, those that were there already
  SourceFit calibration;  // the chosen one, fitted on all held-out examples as it was judged

  const Candidate& best() const { return candidates[chosen]; }
};

/// How far off ratios are that a predictor finds where the truth is known: source examples it was not trained on,
/// resampled to priors of our choice. Target labels are needed nowhere. A calibration is fitted on one half and judged
/// on the other, then the other way round, so that it cannot flatter itself.
class PriorTrials {
 public:
  /// `labels` of the held-out examples; the priors are drawn once, here. Throws Error{kInput} if a half has no example.
  PriorTrials(std::span<const int> labels, const Eigen::VectorXd& source_prior, const SelectionSettings& settings,
              std::uint64_t seed);

  struct Score {
    double error = 0.0;
    double standard_error = 0.0;
  };
  /// `logits` (n, m) of the held-out examples.
  Score score(const RowMajorMatrix<float>& logits, const std::string& calibration) const;

 private:
  struct Trial {
    std::vector<Index> rows;  // of the held-out examples, with repetitions
    Eigen::VectorXd ratio;    // (m) the truth
  };
  struct Half {
    std::vector<Index> rows;
    std::vector<Trial> trials;
  };
  std::vector<int> labels_;
  Eigen::VectorXd source_prior_;
  std::string estimator_;
  Half halves_[2];
};

/// Where choose_predictor() keeps its last state of a zeta.
std::string selection_checkpoint(const std::string& folder, double zeta);

/// Chooses zeta, the number of epochs and the calibration together, for `--zeta auto`: trains once for each zeta from
/// the weights that `net` has, looks at it after some epochs, and keeps what errs least in PriorTrials. The net then
/// has the chosen weights. Costs as many trainings as there are zetas. `training.zeta` is not used.
///
/// With a folder it keeps there what it has trained, after every epoch, and goes on from what it finds there, to the
/// same bits. Throws as load_checkpoint() does if that is of another run.
Selection choose_predictor(Net& net, const TrainingExamples& examples, std::span<const Index> held_out,
                           const TrainingSettings& training, const SelectionSettings& settings = {},
                           const Observer& observer = {}, const std::string& checkpoint_folder = "");

}  // namespace labelshift
