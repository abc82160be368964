#pragma once

#include <Eigen/Core>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/core/estimators/ratio_estimator.hpp"

namespace labelshift {

/// The least share of a class in a source prior. Ratios divide by it, and their variances by its fourth power, which
/// still is a number here. A share that small is a slip: the classifier cannot have learnt the class.
inline constexpr double kLeastPrior = 1e-50;

/// Throws Error{kInput} if the weights are not empty and not n finite non-negative numbers with a positive sum.
void check_weights(std::span<const double> weights, Index rows, const std::string& name);

/// The weights times the power of two that makes the largest 1 to 2: only relative weights mean anything, and squares
/// of these do not overflow, nor underflow where they matter. What check_weights refuses is left as it is.
std::vector<double> relative_weights(std::span<const double> weights);

/// Throws Error{kInput} if there are not n labels or one is outside {0, ..., classes - 1}.
void check_labels(std::span<const int> labels, Index rows, Index classes, const std::string& name);

/// The number of equally weighted rows that would have the same variance: (sum w)^2 / sum w^2, Kish's formula.
double effective_rows(std::span<const double> weights, Index rows);

/// The sum of the weights; the number of rows where there are none.
double total_weight(std::span<const double> weights, Index rows);

/// Where the source rows clearly have another mix than the `prior` that f was trained on (chi-squared, p < 0.001; a
/// validation set is often balanced): weights that give them that mix, so that what is fitted to them belongs to
/// `prior`. Else nothing. Every class must have a row.
std::optional<std::vector<double>> weights_for_prior(const Eigen::VectorXd& prior, std::span<const int> labels,
                                                     std::span<const double> weights);

/// The class of the largest entry of a row, the first of equals.
int arg_max(const MatrixView& probs, Index row);

/// The classes that have no example, or none with any weight.
std::vector<Index> unseen_classes(std::span<const int> labels, std::span<const double> weights, Index classes);

/// "class cat" or "class cat, dog and 3 more", by number where there are no names.
std::string list_classes(std::span<const Index> classes, std::span<const std::string> class_names);

/// p_tr(y) from (weighted) label counts: (n_c + smoothing) / (n + m smoothing), where weights count as multiples of
/// their mean. Throws Error{kInput} naming the classes
/// that have no example: f / p_tr is right only with the share of the class in what f was trained on, and neither
/// nothing nor smoothing can say what that was. `class_names` is for that message and may be empty.
Eigen::VectorXd label_prior(std::span<const int> labels, std::span<const double> weights, Index classes,
                            double smoothing = 0.0, std::span<const std::string> class_names = {});

/// The confusion matrices of a labelled sample, scaled so that their columns sum to `prior`: with smoothing, or with a
/// prior that is known from elsewhere, C[j, c] = p(argmax f = j | y = c) prior_c stays consistent with it.
SourceSummary summarise_source(const SourceSample& source, const Eigen::VectorXd& prior);

}  // namespace labelshift
