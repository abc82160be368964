#pragma once

#include "labelshift/engine/task.hpp"

// Every task there is, in the order in which a run asks for them. m is the number of classes, parts the channels or
// columns of an example.

namespace labelshift {

/// Raised whenever a message changes its meaning. Nodes and coordinators of different versions do not talk.
inline constexpr std::uint32_t kProtocolVersion = 8;

enum class TaskKind : std::uint32_t {
  kHello,
  kJoin,
  kAgree,
  kTarget,
  kShare,
  kAssess,
  kRatio,
  kTrainPredictor,
  kHeldOut,
  kCalibrate,
  kTargetTogether,
  kSharedMix,
  kSharedTarget,
  kMixture,
  kTrain,
  kEvaluate,
};

/// The net that a question is about, whose weights come with it.
enum class AskedNet : std::uint8_t {
  kPredictor,  // that all train before the model
  kModel,      // while it is being trained; `round` of the request says how many rounds are done
};
constexpr AskedNet last_of(AskedNet) {
  return AskedNet::kModel;
}

/// The shares of classes in a target, and nothing else.
struct TargetSums {
  Eigen::VectorXd target;  // (m) q_k, which leaves a node as a summand only

  template <typename Self, typename Visit>
  static void words(Self& self, Visit& visit) {
    visit(self.target);
  }
  template <typename Self, typename Visit>
  static void numbers(Self&, Visit&) {}
  template <typename Self, typename Visit>
  static void weights(Self&, Visit&) {}
};

struct EstimateReport {
  /// What is nobody's business, and leaves a node in a simulation alone.
  struct Details {
    Eigen::VectorXd estimate;       // (m) q_k
    Eigen::VectorXd low, high;      // (m) ends of 95 % intervals, or empty
    Eigen::VectorXd truth;          // (m) where test labels tell, or empty
    std::optional<double> p_value;  // that predicted labels bear out the estimate

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.estimate, self.low, self.high, self.truth, self.p_value);
    }
  };
  std::optional<double> prior_error;  // |q_k - truth|_1, where test labels tell
  double seconds = 0.0;
  std::optional<Details> details;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.prior_error, self.seconds, self.details);
  }
};

/// A sum of weights and what it weighs: the update of a net from its local training, and its buffers, each times the
/// node's weight. What the parts of `weights` are is the algorithm's to say.
template <typename Real>
struct TrainingSums {
  double weight = 0.0;
  double loss = 0.0;  // times weight
  std::vector<Real> parts;

  template <typename Self, typename Visit>
  static void words(Self&, Visit&) {}
  template <typename Self, typename Visit>
  static void numbers(Self& self, Visit& visit) {
    visit(self.weight, self.loss);
  }
  template <typename Self, typename Visit>
  static void weights(Self& self, Visit& visit) {
    visit(self.parts);
  }
};

/// The handshake: what both sides must agree on before anything else is said.
struct Hello {
  static constexpr TaskKind kTask = TaskKind::kHello;
  struct Request {
    std::uint32_t protocol = kProtocolVersion;
    std::string run;       // which run this is
    std::string settings;  // a digest of all that decides its bits
    std::vector<std::string> class_names;
    Index channels = 0, height = 0, width = 0;
    Index nodes = 0;  // K

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.protocol, self.run, self.settings, self.class_names, self.channels, self.height, self.width,
            self.nodes);
    }
    bool operator==(const Request&) const = default;
  };
  using Own = Nothing;
  template <typename>
  using Sums = Nothing;
  using Report = Nothing;
};

/// What there is at the nodes.
struct Join {
  static constexpr TaskKind kTask = TaskKind::kJoin;
  static constexpr double kCountUnit = 0x1p20;  // so that words hold all counts up to 2^43, and exactly
  using Request = Nothing;
  using Own = Nothing;
  struct JoinSums {
    Eigen::VectorXd holders;        // (m) nodes with a training example of the class
    Eigen::VectorXd tested;         // (m) nodes that are known to have a test example of the class
    Eigen::VectorXd counts;         // (m) training examples / kCountUnit
    Eigen::VectorXd value_sums;     // (parts kValueDigits.digits) of all training examples
    Eigen::VectorXd value_squares;  // (parts kSquareDigits.digits)

    template <typename Self, typename Visit>
    static void words(Self& self, Visit& visit) {
      visit(self.holders, self.tested, self.counts, self.value_sums, self.value_squares);
    }
    template <typename Self, typename Visit>
    static void numbers(Self&, Visit&) {}
    template <typename Self, typename Visit>
    static void weights(Self&, Visit&) {}
  };
  template <typename>
  using Sums = JoinSums;
  /// What is nobody's business, and leaves a node in a simulation alone.
  struct Details {
    Index test_examples = 0;
    std::vector<Index> missing;  // classes without training examples

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.test_examples, self.missing);
    }
  };
  struct Report {
    bool tested = false;     // it has test examples
    bool withholds = false;  // it keeps its label mix to itself, and counts as one without test examples
    std::optional<Details> details;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.tested, self.withholds, self.details);
    }
  };
};

/// The second half of the handshake: what follows from everybody's data.
struct Agree {
  static constexpr TaskKind kTask = TaskKind::kAgree;
  struct Request {
    std::vector<float> mean;   // (parts) of the normalisation
    std::vector<float> scale;  // (parts)
    std::string schema;        // of the model and of what its algorithm sends, in words

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.mean, self.scale, self.schema);
    }
  };
  using Own = Nothing;
  template <typename>
  using Sums = Nothing;
  struct Report {
    /// Of the node's normalised training examples the largest |x|^2, where step sizes are made of it. It leaves a node
    /// in a simulation alone.
    std::optional<double> largest_square;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.largest_square);
    }
  };
};

/// Alg. 2 lines 3 and 4 by a node's own predictor, or what stands in for them.
struct Target {
  static constexpr TaskKind kTask = TaskKind::kTarget;
  enum class Kind : std::uint8_t {
    kEstimate,
    kTruth,
    kSource,
    kKeptEstimate,  // what the node remembers, or else kEstimate
  };
  friend constexpr Kind last_of(Kind) { return Kind::kKeptEstimate; }
  struct Request {
    Kind kind = Kind::kEstimate;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.kind);
    }
  };
  using Own = Nothing;
  template <typename>
  using Sums = TargetSums;
  using Report = EstimateReport;
};

/// A predictor as it travels in the pairwise exchange, beside its weights.
struct SharedPredictor {
  Eigen::VectorXd prior;        // (m) of the examples it was trained on
  Eigen::VectorXd scale, bias;  // (m) of its calibration

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.prior, self.scale, self.bias);
  }
};

/// Pairwise exchange: a node trains its predictor and gives it away.
struct Share {
  static constexpr TaskKind kTask = TaskKind::kShare;
  using Request = Nothing;
  using Own = Nothing;
  template <typename>
  using Sums = Nothing;
  struct Report {
    SharedPredictor predictor;
    std::vector<float> weights;
    double seconds = 0.0;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.predictor, self.weights, self.seconds);
    }
  };
};

/// Pairwise exchange: nodes estimate with somebody's predictor, whose weights the request has.
struct Assess {
  static constexpr TaskKind kTask = TaskKind::kAssess;
  struct Request {
    Index whose = 0;
    SharedPredictor predictor;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.whose, self.predictor);
    }
  };
  using Own = Nothing;
  template <typename>
  using Sums = TargetSums;
  using Report = EstimateReport;  // the error is that of a node's own predictor alone
};

/// Phase 2: every node turns a numerator into its importance weights, and keeps them under the request's round: how
/// many rounds of training were done when they were made.
struct Ratio {
  static constexpr TaskKind kTask = TaskKind::kRatio;
  enum class Kind : std::uint8_t {
    kNumerator,  // to be divided by the node's source prior
    kRatio,      // as it is
    kBalance,    // kNumerator, for the examples that a federated predictor is trained on
  };
  friend constexpr Kind last_of(Kind) { return Kind::kBalance; }
  struct Request {
    Kind kind = Kind::kNumerator;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.kind);
    }
  };
  struct Own {
    Eigen::VectorXd values;  // (m)

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.values);
    }
  };
  struct RatioSums {
    double examples = 0.0;            // for training, / Join::kCountUnit
    double effective_examples = 0.0;  // (sum w)^2 / sum w^2 over them, / Join::kCountUnit

    template <typename Self, typename Visit>
    static void words(Self& self, Visit& visit) {
      visit(self.examples, self.effective_examples);
    }
    template <typename Self, typename Visit>
    static void numbers(Self&, Visit&) {}
    template <typename Self, typename Visit>
    static void weights(Self&, Visit&) {}
  };
  template <typename>
  using Sums = RatioSums;
  /// What is nobody's business, and leaves a node in a simulation alone.
  struct Details {
    double largest = 0.0;  // importance weight of a training example
    Index examples = 0;    // as in RatioSums
    double effective_examples = 0.0;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.largest, self.examples, self.effective_examples);
    }
  };
  struct Report {
    std::optional<Details> details;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.details);
    }
  };
};

/// A round of a predictor that all train together. The request's weights are the predictor's.
struct TrainPredictor {
  static constexpr TaskKind kTask = TaskKind::kTrainPredictor;
  struct Request {
    double zeta = 0.0;  // of Eq. (4)

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.zeta);
    }
  };
  using Own = Nothing;
  template <typename Real>
  using Sums = TrainingSums<Real>;
  using Report = Nothing;
};

/// What a net that all train says of the examples that it does not train on. Lists of m numbers stand one behind the
/// other.
struct HeldOut {
  static constexpr TaskKind kTask = TaskKind::kHeldOut;
  struct Request {
    AskedNet net = AskedNet::kPredictor;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.net);
    }
  };
  using Own = Nothing;
  struct HeldOutSums {
    Eigen::VectorXd of_fold;    // (m folds) examples of each class in a fold, / Join::kCountUnit
    Eigen::VectorXd predicted;  // (m m) of the examples of a class, those taken for each class, / Join::kCountUnit
    Eigen::VectorXd soft;       // (m m) over the examples of a class, the sum of f, / Join::kCountUnit

    template <typename Self, typename Visit>
    static void words(Self& self, Visit& visit) {
      visit(self.of_fold, self.predicted, self.soft);
    }
    template <typename Self, typename Visit>
    static void numbers(Self&, Visit&) {}
    template <typename Self, typename Visit>
    static void weights(Self&, Visit&) {}
  };
  template <typename>
  using Sums = HeldOutSums;
  using Report = Nothing;
};

/// A step of the calibration of the net that HeldOut was about: the losses of several candidates and their derivatives
/// (core/calibration/pooled_calibration.hpp).
struct Calibrate {
  static constexpr TaskKind kTask = TaskKind::kCalibrate;
  struct Request {
    double examples = 0.0;        // effective number, held out at all nodes: 1 / sum of w^2
    Eigen::VectorXd weights;      // (m (folds + 1)) of an example of a class, and where each fold is left out
    std::vector<Index> left_out;  // (P) 0, or the fold that the candidate does not see, from 1
    Eigen::VectorXd parameters;   // (p P)
    bool curvature = false;
    bool noise = false;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.examples, self.weights, self.left_out, self.parameters, self.curvature, self.noise);
    }
  };
  using Own = Nothing;
  struct CalibrationSums {
    Eigen::VectorXd values;     // (P)
    Eigen::VectorXd held_out;   // (P)
    Eigen::VectorXd gradients;  // (p P)
    Eigen::VectorXd curvature;  // or empty
    Eigen::VectorXd noise;      // or empty; in units of 2^8 / examples

    template <typename Self, typename Visit>
    static void words(Self& self, Visit& visit) {
      visit(self.values, self.held_out, self.gradients, self.curvature, self.noise);
    }
    template <typename Self, typename Visit>
    static void numbers(Self&, Visit&) {}
    template <typename Self, typename Visit>
    static void weights(Self&, Visit&) {}
  };
  template <typename>
  using Sums = CalibrationSums;
  using Report = Nothing;
};

/// Alg. 2 line 4 with a net that all trained together, and calibrated together. A node keeps its q_k under the
/// request's round, as it keeps weights.
struct TargetTogether {
  static constexpr TaskKind kTask = TaskKind::kTargetTogether;
  struct Request {
    AskedNet net = AskedNet::kPredictor;
    Eigen::VectorXd prior;          // (m) that its calibrated probabilities take for granted
    Eigen::VectorXd scale, bias;    // (m) of its calibration
    Eigen::VectorXd mixing;         // (m m) or empty
    Eigen::VectorXd covariance;     // (p p) of its parameters, or empty where nothing was fitted
    Eigen::VectorXd examples;       // (m) held out, of each class; empty where none were
    Eigen::VectorXd conditional;    // (m m) of the examples of a class, the shares taken for each class; or empty
    Eigen::VectorXd conditional_f;  // (m m) over the examples of a class, the mean of f; or empty

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.net, self.prior, self.scale, self.bias, self.mixing, self.covariance, self.examples, self.conditional,
            self.conditional_f);
    }
  };
  using Own = Nothing;
  struct TogetherSums : TargetSums {
    double doubtful = 0.0;  // nodes whose predicted labels do not bear out their estimate

    template <typename Self, typename Visit>
    static void words(Self& self, Visit& visit) {
      visit(self.target, self.doubtful);
    }
  };
  template <typename>
  using Sums = TogetherSums;
  using Report = EstimateReport;
};

/// A step of the search for the prior that all nodes' mixes share (core/estimators/shared_prior.hpp), about the rows
/// that TargetTogether left at a node.
struct SharedMix {
  static constexpr TaskKind kTask = TaskKind::kSharedMix;
  enum class Kind : std::uint8_t {
    kShares,  // what a mix makes of the rows
    kLogs,    // what is known of the logarithms of the node's mix under a prior
  };
  friend constexpr Kind last_of(Kind) { return Kind::kLogs; }
  struct Request {
    Kind kind = Kind::kShares;
    std::uint32_t step = 0;  // of the search
    Eigen::VectorXd values;  // (m) the mix, or alpha of the prior

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.kind, self.step, self.values);
    }
  };
  using Own = Nothing;
  struct SharedMixSums {
    double nodes = 0.0;        // that have rows; others add nothing
    Eigen::VectorXd shares;    // (m) MixShares
    Eigen::VectorXd products;  // (m m)
    Eigen::VectorXd logs;      // (m) MixPosterior::mean_log; this, or the two above, is empty

    template <typename Self, typename Visit>
    static void words(Self& self, Visit& visit) {
      visit(self.nodes, self.shares, self.products, self.logs);
    }
    template <typename Self, typename Visit>
    static void numbers(Self&, Visit&) {}
    template <typename Self, typename Visit>
    static void weights(Self&, Visit&) {}
  };
  template <typename>
  using Sums = SharedMixSums;
  using Report = Nothing;
};

/// The end of that: every node's q_k under the prior that was found, in place of the one it had.
struct SharedTarget {
  static constexpr TaskKind kTask = TaskKind::kSharedTarget;
  struct Request {
    Eigen::VectorXd alpha;  // (m)

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.alpha);
    }
  };
  using Own = Nothing;
  template <typename>
  using Sums = TargetSums;
  using Report = EstimateReport;
};

/// A step of the search for weights of nodes that bring the mix of their data to the target
/// (federation/mixture_weights.hpp). Every node keeps the weight that the last question gave it.
struct Mixture {
  static constexpr TaskKind kTask = TaskKind::kMixture;
  struct Request {
    double examples = 0.0;  // n, for training at all nodes
    double level = 0.0;
    Eigen::VectorXd price;  // (m)

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.examples, self.level, self.price);
    }
  };
  using Own = Nothing;
  struct MixtureSums {
    double weight = 0.0;            // alpha_k
    Eigen::VectorXd mix;            // (m) alpha_k p_k
    double moving = 0.0;            // n_k / n of a node whose alpha moves with level and price; of others these are 0
    Eigen::VectorXd moving_mix;     // (m) n_k / n p_k
    Eigen::VectorXd moving_square;  // (m m) n_k / n p_k p_k^T

    static MixtureSums zero(Index m) {
      return {0.0, Eigen::VectorXd::Zero(m), 0.0, Eigen::VectorXd::Zero(m), Eigen::VectorXd::Zero(m * m)};
    }
    template <typename Self, typename Visit>
    static void words(Self& self, Visit& visit) {
      visit(self.weight, self.mix, self.moving, self.moving_mix, self.moving_square);
    }
    template <typename Self, typename Visit>
    static void numbers(Self&, Visit&) {}
    template <typename Self, typename Visit>
    static void weights(Self&, Visit&) {}
  };
  template <typename>
  using Sums = MixtureSums;
  using Report = Nothing;
};

/// A round of the model. The request's weights are the parts that the algorithm sends.
struct Train {
  static constexpr TaskKind kTask = TaskKind::kTrain;
  static constexpr std::uint32_t kMostSteps = 1'000'000;
  /// A node's steps where the coordinator decides on them: by chance, or by what all nodes said.
  struct Request {
    std::uint32_t steps = 0;     // 0: as many as the settings say
    std::optional<double> rate;  // without it as the settings say
    std::uint32_t weighed = 0;   // the round under which the node keeps the importance weights that count

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.steps, self.rate, self.weighed);
    }
  };
  using Own = Nothing;
  template <typename Real>
  using Sums = TrainingSums<Real>;
  using Report = Nothing;
};

/// How the model does at each node.
struct Evaluate {
  static constexpr TaskKind kTask = TaskKind::kEvaluate;
  struct Request {
    std::uint32_t weighed = 0;  // as in Train: the round under which the node keeps the q_k that counts
    /// (m) The label mix that the model is trained towards, from which a node goes on to its own; empty: it does not.
    Eigen::VectorXd trained_mix;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.weighed, self.trained_mix);
    }
  };
  using Own = Nothing;
  template <typename>
  using Sums = Nothing;
  /// Held-out source examples, weighted by the ratio of the node's own target to its source.
  struct Reweighted {
    double accuracy = 0.0;
    double low = 0.0, high = 0.0;  // ends of a 95 % interval
    double examples = 0.0;         // effective number

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.accuracy, self.low, self.high, self.examples);
    }
  };
  /// Right predictions on the test set of a node that knows its own mix, q_k.
  struct Adapted {
    Index right = 0;  // of the model, corrected for q_k
    /// Of "always the most frequent class of q_k". It tells the share of a class, so it leaves a node in a simulation
    /// alone.
    std::optional<Index> by_majority;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.right, self.by_majority);
    }
  };
  struct Report {
    Index examples = 0;              // of the test set
    std::optional<double> accuracy;  // on them, where they have labels
    std::optional<double> loss;      // mean cross-entropy there
    std::optional<Reweighted> reweighted;
    std::optional<Adapted> adapted;

    template <typename Self, typename Visit>
    static void fields(Self& self, Visit& visit) {
      visit(self.examples, self.accuracy, self.loss, self.reweighted, self.adapted);
    }
  };
};

}  // namespace labelshift
