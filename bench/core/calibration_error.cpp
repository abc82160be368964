// Prints, as Markdown tables, how well --calibration auto does against each single kind of calibration, and how often
// its intervals hold the truth: for simulated classifiers, for examples/fashion-mnist, and for what other classifiers
// said, given as FOLDER arguments that hold probs.csv, whose header names the classes, and labels.csv.
// docs/estimators.md holds its output.
//
//     calibration_error REPLICATES MOST_SOURCE_ROWS [FOLDER...]
//
// With 10,000 source rows there are a quarter of the replicates, with 100,000 a sixteenth.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/parallel.hpp"
#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/label_shift.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/datasets/class_names.hpp"
#include "labelshift/data/files/label_file.hpp"
#include "labelshift/data/files/matrix_file.hpp"

namespace labelshift {
namespace {

struct Sample {
  RowMajorMatrix<double> probs;  // (n, m)
  std::vector<int> labels;       // (n)
};

class Population {
 public:
  virtual ~Population() = default;
  virtual Index classes() const = 0;
  /// What a classifier says of an example of a class.
  virtual Eigen::RowVectorXd draw(int label, Rng& rng) const = 0;

  Sample sample(Index rows, const Eigen::VectorXd& prior, Rng& rng) const {
    Sample sample{.probs = RowMajorMatrix<double>(rows, classes()), .labels = {}};
    for (Index i = 0; i < rows; ++i) {
      double left = rng.uniform();
      int label = 0;
      while (label + 1 < classes() && (left -= prior[label]) >= 0.0) ++label;
      sample.labels.push_back(label);
      sample.probs.row(i) = draw(label, rng);
    }
    return sample;
  }
};

/// Unit-variance Gaussian classes with random means in eight dimensions or fewer. The classifier's logits are those of
/// the exact posteriors under a uniform prior, distorted.
class Simulated : public Population {
 public:
  struct Distortion {
    double spread;           // standard deviation of the class means: 2 is a good classifier, 1 a weak one
    double sharpness = 1.0;  // multiplies the logits; above 1 is over-confident
    double bias = 0.0;       // standard deviation of what is added to the logit of a class
    double tilt = 0.0;       // standard deviation of the logarithm of a factor of a class's logit
  };

  Simulated(Index classes, const Distortion& distortion) : means_(std::min<Index>(classes, 8), classes) {
    Rng rng(1);
    for (double& x : means_.reshaped()) x = distortion.spread * rng.normal();
    scale_.resize(classes);
    bias_.resize(classes);
    for (double& x : bias_) x = distortion.bias * rng.normal();
    for (double& x : scale_) x = distortion.sharpness * std::exp(distortion.tilt * rng.normal());
  }

  Index classes() const override { return means_.cols(); }

  Eigen::RowVectorXd draw(int label, Rng& rng) const override {
    Eigen::VectorXd x = means_.col(label);
    for (double& feature : x) feature += rng.normal();
    Eigen::ArrayXd z = -0.5 * (means_.colwise() - x).colwise().squaredNorm().transpose().array();
    z -= z.maxCoeff();
    z = scale_ * (z - std::log(z.exp().sum())) + bias_;
    const Eigen::ArrayXd f = (z - z.maxCoeff()).exp();
    return (f / f.sum()).matrix().transpose();
  }

 private:
  Eigen::MatrixXd means_;  // (d, m)
  Eigen::ArrayXd scale_, bias_;
};

/// Rows that a real classifier said, drawn with replacement: they are the whole population.
class Pool : public Population {
 public:
  explicit Pool(Sample rows) : rows_(std::move(rows)), of_class_(static_cast<std::size_t>(rows_.probs.cols())) {
    for (std::size_t i = 0; i < rows_.labels.size(); ++i)
      of_class_[static_cast<std::size_t>(rows_.labels[i])].push_back(static_cast<Index>(i));
  }

  Index classes() const override { return rows_.probs.cols(); }

  Eigen::RowVectorXd draw(int label, Rng& rng) const override {
    const auto& rows = of_class_[static_cast<std::size_t>(label)];
    return rows_.probs.row(rows[static_cast<std::size_t>(rng.below(std::ssize(rows)))]);
  }

 private:
  Sample rows_;
  std::vector<std::vector<Index>> of_class_;
};

/// `classes` may be empty where the columns have names.
void add_file(const std::string& probs, const std::string& labels, const std::vector<std::string>& classes,
              Sample& rows) {
  const MatrixFile file = read_matrix(probs);
  const MatrixView view = file.view();
  const Labels found = read_labels(labels, classes.empty() ? file.column_names() : classes, view.cols());
  const Index before = rows.probs.rows();
  rows.probs.conservativeResize(before + view.rows(), view.cols());
  for (Index i = 0; i < view.rows(); ++i)
    for (Index c = 0; c < view.cols(); ++c) rows.probs(before + i, c) = view(i, c);
  rows.labels.insert(rows.labels.end(), found.labels.begin(), found.labels.end());
}

std::unique_ptr<Pool> read_example() {
  const std::string folder = LABELSHIFT_EXAMPLES "/fashion-mnist/";
  const std::vector<std::string> classes = read_class_names(folder + "classes.txt");
  Sample rows;
  add_file(folder + "source_probs.npy", folder + "source_labels.csv", classes, rows);
  add_file(folder + "target_probs.npy", folder + "target_labels.csv", classes, rows);
  return std::make_unique<Pool>(std::move(rows));
}

constexpr const char* kAll[] = {"none", "ts", "bcts", "vs", "matrix", kAutoCalibration};
constexpr std::size_t kSingle = std::size(kAll) - 1;
constexpr Index kTargetRows = 2000;
constexpr double kLargeShare = 0.02;

struct Cell {
  double error[std::size(kAll)] = {};  // mean squared error of q
  double held = 0.0, shares = 0.0;     // intervals of auto that hold the truth, and how many there are
  double held_large = 0.0, large = 0.0;
  std::map<std::string, int> chosen;
};

/// One source and target; a source that lacks a class is drawn again, as nobody could use it.
Cell replicate(const Population& population, Index source_rows, Rng rng) {
  const Index m = population.classes();
  const Eigen::VectorXd p = Eigen::VectorXd::Constant(m, 1.0 / static_cast<double>(m));
  Eigen::VectorXd q(m);
  for (double& share : q) share = rng.gamma(1.0);
  q /= q.sum();
  Sample source;
  do source = population.sample(source_rows, p, rng);
  while ((label_prior(source.labels, {}, m, 1e-9).array() < 1e-6).any());
  const Sample target = population.sample(kTargetRows, q, rng);
  LabelShiftProblem problem{.target = {target.probs}};
  problem.source = SourceExamples{{source.probs}, source.labels, {}};
  Cell cell;
  for (std::size_t k = 0; k < std::size(kAll); ++k) {
    LabelShiftOptions options;
    options.calibration = kAll[k];
    const LabelShiftResult result = analyse_label_shift(problem, options);
    cell.error[k] = (result.target_prior - q).squaredNorm();
    if (k < kSingle) continue;
    ++cell.chosen[to_string(result.calibration_fit->kind)];
    for (Index c = 0; c < m; ++c) {
      const bool holds = result.intervals.prior_low[c] <= q[c] && q[c] <= result.intervals.prior_high[c];
      cell.shares += 1.0;
      cell.held += holds;
      cell.large += q[c] > kLargeShare;
      cell.held_large += holds && q[c] > kLargeShare;
    }
  }
  return cell;
}

Cell measure(const Population& population, Index source_rows, Index replicates) {
  std::vector<Cell> cells(static_cast<std::size_t>(replicates));
  run_in_parallel(replicates, /*workers=*/0, [&](Index i) {
    cells[static_cast<std::size_t>(i)] =
        replicate(population, source_rows, Rng(static_cast<std::uint64_t>(source_rows), static_cast<std::uint64_t>(i)));
  });
  Cell sum;
  for (const Cell& cell : cells) {
    for (std::size_t k = 0; k < std::size(kAll); ++k) sum.error[k] += cell.error[k] / static_cast<double>(replicates);
    sum.held += cell.held;
    sum.shares += cell.shares;
    sum.held_large += cell.held_large;
    sum.large += cell.large;
    for (const auto& [name, times] : cell.chosen) sum.chosen[name] += times;
  }
  return sum;
}

}  // namespace
}  // namespace labelshift

int main(int argc, char** argv) {
  using namespace labelshift;
  if (argc < 3) {
    fmt::print(stderr, "usage: calibration_error REPLICATES MOST_SOURCE_ROWS [FOLDER...]\n");
    return EXIT_FAILURE;
  }
  use_one_blas_thread();
  const Index replicates = std::atol(argv[1]);
  struct Named {
    std::string name;
    std::unique_ptr<Population> population;
  };
  std::vector<Named> populations;
  const auto simulate = [&](const char* name, const Simulated::Distortion& distortion) {
    populations.push_back({name, std::make_unique<Simulated>(10, distortion)});
  };
  simulate("good, well calibrated", {.spread = 2.0});
  simulate("good, over-confident", {.spread = 2.0, .sharpness = 2.0});
  simulate("good, under-confident", {.spread = 2.0, .sharpness = 0.6});
  simulate("good, over-confident, biased", {.spread = 2.0, .sharpness = 1.7, .bias = 0.5});
  simulate("weak, well calibrated", {.spread = 1.0});
  simulate("weak, over-confident", {.spread = 1.0, .sharpness = 2.0});
  simulate("weak, under-confident", {.spread = 1.0, .sharpness = 0.6});
  simulate("weak, over-confident, biased", {.spread = 1.0, .sharpness = 1.7, .bias = 0.5});
  simulate("weak, a scale a class", {.spread = 1.0, .sharpness = 1.5, .bias = 0.3, .tilt = 0.3});
  populations.push_back({"examples/fashion-mnist", read_example()});
  for (int i = 3; i < argc; ++i) {
    Sample rows;
    const std::filesystem::path folder = argv[i];
    add_file(folder / "probs.csv", folder / "labels.csv", {}, rows);
    populations.push_back({folder.filename(), std::make_unique<Pool>(std::move(rows))});
  }

  fmt::print(
      "| classifier | source rows | none | ts | bcts | vs | matrix | auto | auto / best | coverage | of shares "
      "above {} | chosen |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      kLargeShare);
  double of_best = 0.0, worst = 0.0, cells = 0.0;
  double logs[std::size(kAll)] = {};
  for (const Named& named : populations) {
    for (const Index rows : {150, 1000, 10'000, 100'000}) {
      if (rows > std::atol(argv[2])) continue;
      const Index fewer = rows > 10'000 ? 16 : rows > 1000 ? 4 : 1;
      const Cell cell = measure(*named.population, rows, (replicates + fewer - 1) / fewer);
      const double best = *std::min_element(cell.error, cell.error + kSingle);
      std::string line = fmt::format("| {} | {} |", named.name, rows);
      for (const double error : cell.error) line += fmt::format(" {:.3f} |", 1e3 * error);
      line += fmt::format(" {:.2f} | {:.3f} | {:.3f} |", cell.error[kSingle] / best, cell.held / cell.shares,
                          cell.held_large / cell.large);
      for (const auto& [name, times] : cell.chosen) line += fmt::format(" {} {}", name, times);
      fmt::print("{} |\n", line);
      std::fflush(stdout);
      cells += 1.0;
      of_best += std::log(cell.error[kSingle] / best);
      worst = std::max(worst, cell.error[kSingle] / best);
      for (std::size_t k = 0; k < std::size(kAll); ++k) logs[k] += std::log(cell.error[k]);
    }
  }
  const double single = *std::min_element(logs, logs + kSingle);
  fmt::print(
      "\nMean squared errors of q are in thousandths. Geometric mean of auto / best of the cell: {:.3f}; largest: "
      "{:.2f}. Geometric mean of auto over that of the best single kind: {:.3f}.\n",
      std::exp(of_best / cells), worst, std::exp((logs[kSingle] - single) / cells));
  return EXIT_SUCCESS;
}
