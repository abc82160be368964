#pragma once

#include <string>
#include <vector>

#include "labelshift/experiments/experiment_file.hpp"
#include "labelshift/experiments/federation_run.hpp"
#include "labelshift/experiments/mean_interval.hpp"
#include "labelshift/experiments/training_cost.hpp"
#include "labelshift/report/mean_deviation.hpp"

namespace labelshift {

/// One candidate of a row's settings.
struct TuningTrial {
  std::string settings;        // "training.learning-rate = 0.001"
  double accuracy = kUnknown;  // unknown: the loss did not stay finite
};

/// What came of a row of a comparison. An accuracy is on test data; where these have no labels, it is unknown, and
/// there is the accuracy on held-out source data that is weighted by estimated ratios.
struct RowResult {
  std::string name;
  PaperFigure paper;
  std::vector<RunResult> runs;  // one a seed, but of those that failed
  std::vector<TuningTrial> trials;
  std::size_t chosen = 0;  // of the trials

  MeanDeviation accuracy;             // over seeds: of the average over nodes, or of the node that is reported
  MeanDeviation reweighted_accuracy;  // the same on source data
  /// The same of the model corrected at each node for its own estimated mix, and of always saying the most frequent
  /// class of that mix. It is personalisation: no accuracy of the row's method.
  MeanDeviation adapted, majority;
  std::vector<MeanDeviation> nodes;  // (K) the accuracies of each node
  MeanDeviation worst, best;         // nodes
  MeanDeviation spread;              // standard deviation between nodes
};

/// How much more than that of another row a row's accuracy is, seed by seed.
struct PairedDifference {
  std::string row, of;  // accuracy(row) - accuracy(of)
  std::size_t seeds = 0;
  MeanInterval difference;
};

/// A run that could not be made, and why.
struct RunFailure {
  std::string row;
  std::uint64_t seed = 0;
  Error error;
};

struct ComparisonResult {
  std::vector<RowResult> rows;
  std::vector<RunFailure> failures;
  std::vector<std::string> notes;     // to be said next to every figure
  std::vector<std::string> warnings;  // of the runs, each with its row
  std::string folder;
  std::string table;          // CSV with a line for each row, seed and node
  std::string summary;        // JSON
  std::string figure;         // SVG, accuracy against iterations; empty where no accuracy is known
  std::string spread_figure;  // SVG, best, average and worst node
  std::string mix_figure;     // SVG, nodes' estimated mixes against the truth; empty where neither is known
  std::string report;         // HTML, all of it to be looked at; empty if there is none

  /// Whether any row has an accuracy on test data.
  bool is_judged() const;
};

/// The accuracy on test data that a run is judged by: the average over its nodes, or that of the node that is reported.
double judged_accuracy(const Experiment& experiment, const RunResult& run);
/// The same of another number of an evaluation.
double judged_by(const Experiment& experiment, const RunResult& run, double NodeEvaluation::*number);

/// T of a row after so many rounds: the stochastic gradients of a node, on average over the seeds.
double mean_iterations(const Experiment& experiment, const ComparedRun& row, int rounds);

/// Every row against the one that all are measured by: the first with true ratios, which is the upper bound, or else
/// the first. Rows need two seeds in common with it. Taken of the accuracies on test data.
std::vector<PairedDifference> paired_differences(const Experiment& experiment, const ComparisonResult& result);

/// Takes a run of a row up into the result, with what is to be said of it.
void take_run(const ComparedRun& run, std::size_t row, RunResult made, ComparisonResult& result);

/// Makes up what the rows come to, once they have their runs.
void summarise(const Experiment& experiment, ComparisonResult& result);

struct ComparisonSettings {
  std::string output = "results";
  bool resume = true;                    // whether to go on with runs that were stopped
  unsigned workers = 0;                  // threads; 0: one a core. Results do not depend on it
  std::function<void()> prepare_thread;  // called on each thread before it computes anything
  OpenNodes open_nodes;                  // empty: nodes are threads of this process
};

/// Throws Error{kUsage} for what can be said without data: settings of any row that do not go together, and what
/// check_folder() refuses.
void check_comparison(const Experiment& experiment, const ComparisonSettings& settings);

/// Makes the runs of an experiment that are not in OUTPUT/NAME yet, a folder for each row and seed. Candidates of tuned
/// rows come first. Several runs are made side by side, on one thread each. A run that fails does not keep the others
/// from being made: it is among the failures, here and in the summary.
///
/// Throws as check_comparison(), before anything is run; Stopped as run_in_folder() does.
ComparisonResult run_comparison(const Experiment& experiment, const ComparisonSettings& settings,
                                const Observer& observer = {});

/// What the runs that are not there yet would take on one thread, of an experiment on a known data set.
double comparison_seconds(const Experiment& experiment, const std::string& output, TrainingCost& cost);

}  // namespace labelshift
