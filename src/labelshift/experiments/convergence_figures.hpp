#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "labelshift/federation/federation_settings.hpp"

namespace labelshift {

/// What is measured of a run.
enum class Measure {
  kRounds,    // of communication, until F - F* is epsilon times what it was at first
  kGradient,  // mean over the steps of |grad F|^2
  kExcess,    // risk on the true target mix above the least there is, at the exact minimiser
};

/// How the step size is found.
enum class StepChoice {
  kTuned,    // the fewest rounds, on seeds that are not reported
  kTheorem,  // as the theorem says, from r_max, beta and what else it names
};

/// A federation over an evenly mixed target, and what is done with it. Every second class is rare at a node, and the
/// others at the next: what a node has of a rare class is 1 / shift of its even share, so r_max = shift K.
struct ConvergenceRecipe {
  std::string algorithm = "fedavg";
  std::string server = "sgd";  // the server's optimiser
  bool always_steps = false;   // nodes take their step themselves also where they take one
  std::string net = "logistic";
  bool weighted = true;
  int nodes = 8;               // K
  double shift = 8.0;          // r_max / K
  Index examples = 320;        // n_k
  int local_steps = 1;         // tau
  Index batch = 0;             // 0: all a node has, so that gradients have no noise
  Index sampled = 0;           // nodes of a round; 0: all
  std::string codec = "none";  // a row of codecs()
  double variance = 0.0;       // q that the codec comes closest to
  double l2 = 0.01;            // of F / K where examples are weighted, since their weights add up to K
  double accuracy = 1e-2;      // epsilon
  int rounds = 4000;           // at most; of kGradient, exactly
  StepChoice step = StepChoice::kTuned;
};

/// What the panels vary.
enum class Knob {
  kShift,
  kShiftRootCondition,  // the same against r_max sqrt(kappa)
  kRootShiftCondition,  // the same against sqrt(r_max kappa)
  kLocalSteps,
  kNodes,  // among which as many examples are dealt
  kSampled,
  kVariance,
  kAccuracy,   // powers of ten of 1 / epsilon
  kDecades,    // the same against the power
  kDecay,      // of the weights, against kappa
  kGradients,  // T, of a node
  kExamples,
};

/// The recipe with its knob at a value.
ConvergenceRecipe turned(ConvergenceRecipe recipe, Knob knob, double value);

/// One line of a panel.
struct ConvergenceSeries {
  std::string name;
  ConvergenceRecipe recipe;
  std::optional<double> predicted;  // the slope of log y against log x by the theorem, at most; none: a baseline
};

struct ConvergencePanel {
  std::string title;
  Measure measure = Measure::kRounds;
  Knob knob;
  std::vector<double> values;
  std::vector<ConvergenceSeries> series;
  std::optional<double> ratio = {};  // the slope that the theorem predicts, at most, for the first series by the second
  double seconds = 1.0;  // a point of a series takes on one core, roughly: to tell how much of the work is done
};

/// A theorem.
struct ConvergenceFigure {
  std::string name;
  std::string title;
  std::vector<ConvergencePanel> panels;
};

/// What `labelshift reproduce` calls them all.
inline constexpr const char* kConvergence = "convergence";

/// Prop. 4.1 and Thm. 5.2, 5.3, 5.5, F.1, F.2 and F.3, as far as they can be measured.
std::span<const ConvergenceFigure> convergence_figures();

}  // namespace labelshift
