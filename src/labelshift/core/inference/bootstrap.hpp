#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <span>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/inference/intervals.hpp"

namespace labelshift {

/// The fewest replicates that say something about the ends of an interval: of 100 two or three lie beyond each end at a
/// level of 95 %. Published intervals want 1,000 or more (Efron and Tibshirani 1993).
inline constexpr int kLeastReplicates = 100;

struct BootstrapOptions {
  int replicates = 1000;
  std::uint64_t seed = 0;
  double level = 0.95;
};

/// One estimate from reweighted rows.
struct BootstrapReplicate {
  Eigen::VectorXd target_prior;  // (m) q
  Eigen::VectorXd ratio;         // (m) r
};

/// Percentile intervals from replicates that draw rows with replacement, each with its own random stream, on all cores;
/// the bits depend on the seed alone. `estimate` gets the weights of the source rows and of the target rows (how often
/// each was drawn, times its own weight) and must be safe to call from several threads. Where `target_prior` is 0 the
/// interval is one-sided. A class of which a draw has no source example gets one of its rows. A draw that `estimate`
/// throws an Error{kInput} for is drawn again, up to 50 times in all. The observer is told after each replicate, by
/// one thread at a time.
///
/// A replicate is a weight a row, not a copy of rows. What else it needs is up to `estimate`, once for each core: after
/// a calibration, which every replicate fits anew, analyse_label_shift needs a calibrated copy of the target (for the
/// confusion-matrix estimators of the source too).
Intervals bootstrap_intervals(
    const Eigen::VectorXd& target_prior, std::span<const int> source_labels, std::span<const double> source_weights,
    Index target_rows, std::span<const double> target_weights, const BootstrapOptions& options,
    const std::function<BootstrapReplicate(std::span<const double>, std::span<const double>)>& estimate,
    const Observer& observer = {});

/// The intervals of a bootstrap, mended where it is inconsistent: next to 0 (Andrews 2000). Resampling target rows that
/// hold few examples of a class draws none of them too often, and of rows that hold none it only ever draws none, so
/// that the interval is [0, 0] however few the rows are. So where a percentile interval reaches 0, by a share of less
/// than a thousandth of one of the `rows` of the target, it starts there and ends no lower than the `analytic` one,
/// whose end is one-sided where the estimate is 0.
Intervals join_at_zero(const Intervals& percentile, const Intervals& analytic, double rows);

}  // namespace labelshift
