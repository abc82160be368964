#pragma once

#include <Eigen/Core>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "labelshift/core/calibration/calibration.hpp"
#include "labelshift/core/calibration/pooled_calibration.hpp"
#include "labelshift/data/datasets/splits.hpp"
#include "labelshift/federation/federated_data.hpp"
#include "labelshift/federation/federation_settings.hpp"
#include "labelshift/federation/streams.hpp"
#include "labelshift/learning/methods.hpp"
#include "labelshift/learning/model_selection.hpp"

/// Alg. 2 and its baselines as their papers write them: in double precision, one loop an equation, without messages,
/// memory or threads. Every batch is a whole node, so there are no draws to follow. The fit of a calibration alone is
/// the library's.
namespace labelshift::reference {

using Eigen::ArrayXd;
using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;

struct Examples {
  MatrixXd x;          // (n, d)
  std::vector<int> y;  // (n) empty where nobody knows
};

inline Examples examples_of(const Dataset& data, std::span<const Index> rows) {
  const Index d = data.shape.size();
  Examples result{MatrixXd(std::ssize(rows), d), {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (Index j = 0; j < d; ++j)
      result.x(static_cast<Index>(i), j) = std::get<std::vector<float>>(data.values)[rows[i] * d + j];
    if (!data.labels.empty()) result.y.push_back(data.labels[rows[i]]);
  }
  return result;
}

inline VectorXd counts_of(const Examples& examples, Index classes) {
  VectorXd counts = VectorXd::Zero(classes);
  for (const int label : examples.y) counts[label] += 1.0;
  return counts;
}

inline VectorXd prior_of(const Examples& examples, Index classes) {
  return counts_of(examples, classes) / static_cast<double>(examples.y.size());
}

/// softmax(W z + b), where z is x or a batch norm of x. Its parameters are (gamma, beta,) W by rows, b; its buffers the
/// running mean and variance of the batch norm.
struct Net {
  Index columns = 0, classes = 0;
  bool batch_norm = false;

  Index norm() const { return batch_norm ? 2 * columns : 0; }
  Index size() const { return norm() + classes * columns + classes; }

  MatrixXd weight(const VectorXd& w) const {  // (m, d)
    return w.segment(norm(), classes * columns).reshaped<Eigen::RowMajor>(classes, columns);
  }
  MatrixXd normed(const MatrixXd& x, const RowVectorXd& mean, const RowVectorXd& variance) const {
    return (x.rowwise() - mean).array().rowwise() / (variance.array() + 1e-5).sqrt();
  }
  /// log softmax (n, m); `hat` is what `normed` gave, or x.
  MatrixXd log_probs(const VectorXd& w, const MatrixXd& z) const {
    MatrixXd logits = z * weight(w).transpose();
    logits.rowwise() += w.tail(classes).transpose();
    for (auto row : logits.rowwise())
      row.array() -= row.maxCoeff() + std::log((row.array() - row.maxCoeff()).exp().sum());
    return logits;
  }
  MatrixXd scaled(const VectorXd& w, const MatrixXd& hat) const {
    if (!batch_norm) return hat;
    return (hat.array().rowwise() * w.head(columns).transpose().array()).rowwise() +
           w.segment(columns, columns).transpose().array();
  }
  /// In evaluation mode.
  MatrixXd predict(const VectorXd& w, const VectorXd& buffers, const MatrixXd& x) const {
    if (!batch_norm) return log_probs(w, x);
    return log_probs(w, scaled(w, normed(x, buffers.head(columns).transpose(), buffers.tail(columns).transpose())));
  }
  /// Of mean_i r(y_i) (cross-entropy_i + zeta sum_c phi_c log phi_c): (IW-ERM) for zeta = 0, Eq. (4) for r = 1. Moves
  /// the running statistics by a tenth.
  VectorXd gradient(const VectorXd& w, VectorXd& buffers, const Examples& of, const VectorXd& r, double zeta) const {
    const auto n = static_cast<double>(of.x.rows());
    MatrixXd hat = of.x;
    if (batch_norm) {
      const RowVectorXd mean = of.x.colwise().mean();
      const RowVectorXd variance = (of.x.rowwise() - mean).array().square().colwise().mean();
      hat = normed(of.x, mean, variance);
      VectorXd seen(2 * columns);
      seen << mean.transpose(), variance.transpose() * n / (n - 1.0);
      buffers += 0.1 * (seen - buffers);
    }
    const MatrixXd z = scaled(w, hat);
    const MatrixXd log_phi = log_probs(w, z);
    MatrixXd slope(of.x.rows(), classes);  // by the logits
    for (Index i = 0; i < slope.rows(); ++i) {
      const ArrayXd log_row = log_phi.row(i).transpose(), phi = log_row.exp();
      const double omega = (phi * log_row).sum();
      ArrayXd row = phi + zeta * phi * (log_row - omega);
      row[of.y[i]] -= 1.0;
      slope.row(i) = (r[of.y[i]] / n * row).transpose();
    }
    const MatrixXd by_weight = slope.transpose() * z;  // (m, d)
    const MatrixXd by_z = slope * weight(w);           // (n, d)
    VectorXd g(size());
    if (batch_norm)
      g.head(norm()) << by_z.cwiseProduct(hat).colwise().sum().transpose(), by_z.colwise().sum().transpose();
    g.segment(norm(), classes * columns) = by_weight.reshaped<Eigen::RowMajor>();
    g.tail(classes) = slope.colwise().sum().transpose();
    return g;
  }
};

/// SGD with momentum, Adam (Kingma and Ba 2015), Yogi (Zaheer et al. 2018).
struct Optimiser {
  ServerSettings settings;
  VectorXd m, v;
  int t = 0;

  void step(Eigen::Ref<VectorXd> w, const VectorXd& update) {
    if (t++ == 0) m = v = VectorXd::Zero(w.size());
    const VectorXd g = update + settings.weight_decay * w;
    if (settings.optimiser == "sgd") {
      m = settings.momentum * m + g;
      w -= settings.learning_rate * m;
      return;
    }
    const double b1 = settings.beta1, b2 = settings.beta2;
    const ArrayXd g2 = g.array().square();
    m = b1 * m + (1.0 - b1) * g;
    if (settings.optimiser == "adam")
      v = b2 * v.array() + (1.0 - b2) * g2;
    else
      v.array() -= (1.0 - b2) * (v.array() - g2).sign() * g2;
    w.array() -= settings.learning_rate * (m.array() / (1.0 - std::pow(b1, t))) /
                 ((v.array() / (1.0 - std::pow(b2, t))).sqrt() + settings.epsilon);
  }
};

/// Eq. (3) by expectation-maximisation, to the end: q of rows with these log-probabilities under a source prior p.
inline VectorXd maximum_likelihood(const MatrixXd& log_probs, const VectorXd& p) {
  const MatrixXd a = log_probs.array().exp().rowwise() / p.transpose().array();
  VectorXd q = p;
  for (int i = 0; i < 20'000; ++i)
    q = q.cwiseProduct((a.array().colwise() / (a * q).array()).colwise().mean().matrix().transpose());
  return q;
}

/// A predictor of one node or of all.
struct Predictor {
  VectorXd w, buffers;
  VectorXd prior;           // (m) of the examples it was trained on
  Calibration calibration;  // of the classes in `prior`
  MatrixXd confusion;       // of the same, for bbse alone
};

inline Index top(const MatrixXd& scores, Index row) {
  Index best = 0;
  scores.row(row).maxCoeff(&best);
  return best;
}

struct Node {
  Examples train, held_out;  // `held_out` are source examples for the reweighted accuracy
  Examples test;             // to estimate from
  Examples evaluate;
  VectorXd truth;           // (m) the true prior of all test examples; 0 without any
  VectorXd target;          // (m) q_k
  VectorXd ratio;           // (m) r_k
  VectorXd control;         // (p) c_k
  VectorXd norms, buffers;  // FedBN's own
};

struct Evaluation {
  double accuracy = 0.0, loss = 0.0;
  double reweighted = 0.0, low = 0.0, high = 0.0, effective = 0.0;
  bool sandwich = false;  // the interval is that of the sandwich, not of Kish's number
};

/// The state of all parties.
struct Federation {
  const FederationSettings& settings;
  const bool local_batch_norm = settings.algorithm == "fedbn";
  const bool control_variates = settings.algorithm == "scaffold";
  Net net;
  Net predictor_net;
  VectorXd w, buffers, control;     // of the server
  VectorXd first_w, first_buffers;  // of a predictor
  Optimiser server;
  std::vector<Node> nodes;
  VectorXd target_sum;
  double target_error = 0.0;

  Index classes() const { return net.classes; }
  auto K() const { return static_cast<double>(nodes.size()); }

  /// Training examples with a part held out. Which examples go is the library's choice; a caller whose examples of a
  /// class are all the same at a node need not know.
  static HoldOut split(const std::vector<int>& labels, const std::vector<Index>& rows, Index classes, double fraction) {
    if (fraction == 0.0) return {.kept = rows};
    return hold_out_repeated(labels, rows, classes, Fraction{fraction}, /*seed=*/0);
  }

  Federation(const FederationSettings& settings_, const FederatedData& data) : settings(settings_) {
    const Index m = data.classes(), d = data.shape.size();
    net = predictor_net = {.columns = d, .classes = m};
    server.settings = settings.server;
    double n = 0.0;
    RowVectorXd sum = RowVectorXd::Zero(d), squares = sum;
    for (const NodeData& has : data.nodes) {
      const HoldOut rows = split(has.train->labels, has.train_rows, m, settings.source_holdout);
      Node node{.train = examples_of(*has.train, rows.kept), .held_out = examples_of(*has.train, rows.held_out)};
      node.test = node.evaluate = examples_of(*has.test, has.test_rows);
      node.truth = node.test.y.empty() ? VectorXd::Zero(m) : prior_of(node.test, m);
      node.ratio = VectorXd::Ones(m);
      n += static_cast<double>(node.train.x.rows());
      sum += node.train.x.colwise().sum();
      squares += node.train.x.array().square().matrix().colwise().sum();
      nodes.push_back(std::move(node));
    }
    // All agree on one normalisation: that of the examples they train on.
    const RowVectorXd mean = sum / n, scale = (squares / n - mean.cwiseAbs2()).cwiseSqrt().cwiseInverse();
    for (Node& node : nodes)
      for (Examples* part : {&node.train, &node.held_out, &node.test, &node.evaluate})
        part->x = (part->x.rowwise() - mean).array().rowwise() * scale.array();
  }

  /// Before the first round.
  void start(const VectorXd& w_, const VectorXd& buffers_) {
    w = w_;
    buffers = buffers_;
    control = VectorXd::Zero(w.size());
    for (Node& node : nodes) {
      node.control = control;
      node.norms = w.head(net.norm());
      node.buffers = buffers;
    }
  }

  // ---- Phases 1 and 2

  VectorXd holders() const {  // (m) K_c
    VectorXd sum = VectorXd::Zero(classes());
    for (const Node& node : nodes) sum.array() += (counts_of(node.train, classes()).array() > 0.0).cast<double>();
    return sum;
  }

  MatrixXd present_columns(const MatrixXd& log_probs, const VectorXd& prior) const {
    MatrixXd part(log_probs.rows(), (prior.array() > 0.0).count());
    for (Index c = 0, i = 0; c < prior.size(); ++c)
      if (prior[c] > 0.0) part.col(i++) = log_probs.col(c);
    for (auto row : part.rowwise()) row.array() -= std::log(row.array().exp().sum());
    return part;
  }
  static VectorXd present_entries(const VectorXd& prior) {
    VectorXd part((prior.array() > 0.0).count());
    for (Index c = 0, i = 0; c < prior.size(); ++c)
      if (prior[c] > 0.0) part[i++] = prior[c];
    return part;
  }

  static Examples rows_of(const Examples& from, const std::vector<Index>& rows) {
    Examples result{from.x(rows, Eigen::all), {}};
    for (const Index row : rows) result.y.push_back(from.y[row]);
    return result;
  }
  bool bbse() const { return settings.ratio.method == "bbse"; }
  bool calibrated() const {
    const Method& method = find_method(settings.ratio.method);
    return method.chooses() || find_calibration(method.calibration).kind != CalibrationKind::kNone;
  }
  /// What a predictor is trained on and what its calibration is fitted to.
  struct PredictorExamples {
    Examples train, held_out;
  };
  PredictorExamples predictor_examples(const Node& node) const {
    std::vector<Index> rows = all_rows(std::ssize(node.train.y));
    if (settings.ratio.fraction < 1.0)
      rows = stratified_part(node.train.y, rows, classes(), Fraction{settings.ratio.fraction}, /*seed=*/0);
    const HoldOut part = split(node.train.y, rows, classes(), calibrated() || bbse() ? settings.ratio.held_out : 0.0);
    return {rows_of(node.train, part.kept), rows_of(node.train, part.held_out)};
  }
  Optimiser predictor_optimiser() const {
    return {.settings = {.learning_rate = settings.ratio.learning_rate, .weight_decay = settings.ratio.weight_decay}};
  }

  /// Alg. 2 line 3 with Adam on whole batches, then a calibration on held-out examples, which have about the mix of
  /// those trained on, since each class has its share of them.
  Predictor local_predictor(const Node& node) const {
    const Method& method = find_method(settings.ratio.method);
    const auto [train, held_out] = predictor_examples(node);
    Predictor result{first_w, first_buffers, prior_of(train, classes()), {}};
    Optimiser adam = predictor_optimiser();
    const Index held = (result.prior.array() > 0.0).count();
    result.calibration = Calibration::identity(held);
    for (int epoch = 0; epoch < settings.ratio.epochs && held > 1; ++epoch) {
      double cross_entropy = 0.0;  // while the weights moved, so before the step
      const MatrixXd log_phi = predictor_net.predict(result.w, result.buffers, train.x);
      for (Index i = 0; i < log_phi.rows(); ++i) cross_entropy -= log_phi(i, train.y[i]);
      adam.step(result.w,
                predictor_net.gradient(result.w, result.buffers, train, VectorXd::Ones(classes()), *method.zeta));
      if (cross_entropy / static_cast<double>(log_phi.rows()) < settings.ratio.stop_below) break;
    }
    if (held_out.y.empty()) return result;
    const RowMajorMatrix<double> f = present_columns(predict(result, held_out.x), result.prior);
    const VectorXd counts = counts_of(held_out, classes());
    if (bbse()) {  // p(argmax f = j, y = c)
      result.confusion = MatrixXd::Zero(held, held);
      for (Index i = 0; i < f.rows(); ++i)
        result.confusion(top(f, i), (result.prior.head(held_out.y[i]).array() > 0.0).count()) +=
            result.prior[held_out.y[i]] / counts[held_out.y[i]];
      return result;
    }
    std::vector<int> y;
    for (const int label : held_out.y) y.push_back(static_cast<int>((result.prior.head(label).array() > 0.0).count()));
    CalibrationKind kind = find_calibration(method.calibration).kind;
    if ((counts.array() > 0.0).count() < held) kind = CalibrationKind::kTemperature;  // a bias has nothing to go by
    result.calibration = fit_calibration(kind, {f, /*logits=*/true}, y).calibration;
    return result;
  }

  MatrixXd predict(const Predictor& predictor, const MatrixXd& x) const {
    return predictor_net.predict(predictor.w, predictor.buffers, x);
  }

  /// Alg. 2 line 4: q of a node's unlabelled examples.
  VectorXd estimate(const Predictor& predictor, const MatrixXd& x) const {
    VectorXd q = VectorXd::Zero(classes());
    if (x.rows() == 0) return q;
    const VectorXd p = present_entries(predictor.prior);
    MatrixXd z = present_columns(predict(predictor, x), predictor.prior);
    MatrixXd mixing = predictor.calibration.scale.asDiagonal();
    if (predictor.calibration.mixing.size() > 0) mixing += predictor.calibration.mixing;
    z = (z * mixing.transpose()).rowwise() + predictor.calibration.bias.transpose();
    for (auto row : z.rowwise()) row.array() -= std::log(row.array().exp().sum());
    VectorXd found;
    if (bbse()) {
      VectorXd predicted = VectorXd::Zero(p.size());
      for (Index i = 0; i < z.rows(); ++i) predicted[top(z, i)] += 1.0 / static_cast<double>(z.rows());
      found = p.cwiseProduct(predictor.confusion.inverse() * predicted);
    } else {
      found = maximum_likelihood(z, p);
    }
    for (Index c = 0, i = 0; c < classes(); ++c)
      if (predictor.prior[c] > 0.0) q[c] = found[i++];
    return q;
  }

  /// One predictor of all, every class counting the same over all and the same at each of its holders.
  Predictor train_together(const std::vector<PredictorExamples>& parts, double zeta) const {
    const Index m = classes();
    Predictor result{first_w, first_buffers, VectorXd::Constant(m, 1.0 / static_cast<double>(m)),
                     Calibration::identity(m)};
    Optimiser adam = predictor_optimiser();
    for (int round = 0; round < settings.ratio.rounds; ++round) {
      VectorXd mean = VectorXd::Zero(result.w.size()), mean_buffers = VectorXd::Zero(result.buffers.size());
      for (const PredictorExamples& part : parts) {
        const VectorXd p = prior_of(part.train, m);
        VectorXd r = VectorXd::Zero(m);  // (1 / m) (K / K_c) / p_k
        for (Index c = 0; c < m; ++c)
          if (p[c] > 0.0) r[c] = K() / holders()[c] / static_cast<double>(m) / p[c];
        VectorXd moved = result.buffers;
        mean += predictor_net.gradient(result.w, moved, part.train, r, zeta) / K();
        mean_buffers += moved / K();
      }
      adam.step(result.w, mean);
      result.buffers = mean_buffers;
    }
    return result;
  }

  /// The same with the zeta and the calibration that are best on what all have held out, lying in one place.
  Predictor federated_predictor() const {
    std::vector<PredictorExamples> parts;
    for (const Node& node : nodes) parts.push_back(predictor_examples(node));
    const Method& method = find_method(settings.ratio.method);
    if (!calibrated()) return train_together(parts, *method.zeta);
    // Where a node alone would fit BCTS, all together choose between that and matrix scaling.
    std::vector<PooledCandidate> path = pooled_path();
    if (method.calibration == std::string("ts")) path = {{.kind = CalibrationKind::kTemperature}};
    std::vector<double> zetas = SelectionSettings().zetas;
    if (method.zeta) zetas = {*method.zeta};
    Predictor best;
    double best_nll = std::numeric_limits<double>::infinity();
    for (const double zeta : zetas) {
      Predictor predictor = train_together(parts, zeta);
      const PooledFit fit = calibrate_in_one_place(predictor, parts, path);
      if (fit.judgement() >= best_nll) continue;
      best_nll = fit.judgement();
      predictor.calibration = fit.calibration;
      best = predictor;
    }
    return best;
  }

  PooledFit calibrate_in_one_place(const Predictor& predictor, const std::vector<PredictorExamples>& parts,
                                   const std::vector<PooledCandidate>& path) const {
    const Index m = classes();
    std::vector<int> labels;
    std::vector<Index> folds;
    RowMajorMatrix<double> z(0, m);
    MatrixXd counts = MatrixXd::Zero(m, kPooledFolds);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const Examples& held_out = parts[k].held_out;
      const std::vector<Index> of_node =
          pooled_folds(held_out.y, m, node_seed(settings.seed, Stream::kFolds, static_cast<Index>(k)));
      for (std::size_t i = 0; i < of_node.size(); ++i) ++counts(held_out.y[i], of_node[i]);
      labels.insert(labels.end(), held_out.y.begin(), held_out.y.end());
      folds.insert(folds.end(), of_node.begin(), of_node.end());
      z.conservativeResize(z.rows() + held_out.x.rows(), m);
      z.bottomRows(held_out.x.rows()) = predict(predictor, held_out.x);
    }
    PooledCalibration calibration(counts, path);
    while (const auto question = calibration.next())
      calibration.take(pooled_sums(*question, {z, /*logits=*/true}, labels, folds));
    return calibration.result();
  }

  /// Eq. (1) for all nodes from sum_j q_j, or from what node k takes it to be.
  void set_ratio(Node& node, const VectorXd& sum) {
    const VectorXd p = prior_of(node.train, classes());
    VectorXd pooled = VectorXd::Zero(classes());
    double n = 0.0;
    for (const Node& other : nodes) {
      pooled += counts_of(other.train, classes());
      n += static_cast<double>(other.train.y.size());
    }
    for (Index c = 0; c < classes(); ++c) {
      node.ratio[c] = settings.weighting == Weighting::kPooled ? sum[c] / (pooled[c] / n)
                      : p[c] > 0.0                             ? K() / holders()[c] * sum[c] / p[c]
                                                               : 0.0;
      if (settings.ratio.max_ratio) node.ratio[c] = std::min(node.ratio[c], *settings.ratio.max_ratio);
    }
  }

  void estimate_ratios() {
    const RatioSettings& ratio = settings.ratio;
    if (!ratio.weighted()) return;
    target_sum = VectorXd::Zero(classes());
    if (ratio.exchange == RatioExchange::kPairwise) {
      for (Node& node : nodes) {  // ratio_k = sum_j r_kj
        const Predictor predictor = local_predictor(node);
        VectorXd sum = VectorXd::Zero(classes());
        for (const Node& other : nodes) sum += estimate(predictor, other.test.x);
        node.target = estimate(predictor, node.test.x);
        set_ratio(node, sum);
        target_sum += sum / K();
      }
      note_error(/*goal=*/0);
      return;
    }
    const Predictor shared = ratio.estimated() && ratio.predictor == PredictorScope::kFederated && ratio.goal_shift
                                 ? federated_predictor()
                                 : Predictor{};
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      Node& node = nodes[k];
      if (ratio.goal_node != 0 && static_cast<std::size_t>(ratio.goal_node) != k + 1) continue;
      if (!ratio.goal_shift)
        node.target = prior_of(node.train, classes());
      else if (!ratio.estimated())
        node.target = node.truth;
      else
        node.target = estimate(shared.w.size() > 0 ? shared : local_predictor(node), node.test.x);
      target_sum += node.target;
    }
    for (Node& node : nodes) set_ratio(node, target_sum);
    note_error(ratio.goal_node);
  }

  void note_error(int goal) {
    VectorXd truth = VectorXd::Zero(classes());
    for (std::size_t k = 0; k < nodes.size(); ++k)
      if (goal == 0 || static_cast<std::size_t>(goal) == k + 1) truth += nodes[k].truth;
    target_error = (target_sum - truth).lpNorm<1>() / (goal == 0 ? K() : 1.0);
  }

  // ---- Phase 3

  void round(const std::vector<Index>& cohort) {
    const LocalSettings& local = settings.local;
    const Index own = local_batch_norm ? net.norm() : 0;            // parameters that stay, the first ones
    const int tau = local.epochs > 0 ? local.epochs : local.steps;  // an epoch is one step here
    const double eta = local.learning_rate;
    VectorXd update = VectorXd::Zero(w.size()), next_buffers = VectorXd::Zero(buffers.size());
    VectorXd control_change = VectorXd::Zero(w.size());
    double weights = 0.0;
    for (const Index k : cohort) {
      Node& node = nodes[static_cast<std::size_t>(k)];
      const double weight = settings.weighting == Weighting::kPooled ? static_cast<double>(node.train.y.size()) : 1.0;
      VectorXd x = w;
      x.head(own) = node.norms.head(own);
      VectorXd y = x, moved = local_batch_norm ? node.buffers : buffers, sent;
      if (local.sends_gradient()) {
        sent = net.gradient(y, moved, node.train, node.ratio, 0.0);
        y -= eta * (sent + local.weight_decay * y);  // of batch norms, which the server does not see
      } else {
        for (int step = 0; step < tau; ++step) {
          VectorXd g = net.gradient(y, moved, node.train, node.ratio, 0.0) + local.weight_decay * y;
          g += local.proximal * (y - x);                      // FedProx
          if (control_variates) g += control - node.control;  // SCAFFOLD
          y -= eta * g;
        }
        sent = x - y;
      }
      if (control_variates) {  // option II
        const VectorXd next = node.control - control + (x - y) / (tau * eta);
        control_change += next - node.control;
        node.control = next;
      }
      node.norms = y.head(net.norm());
      node.buffers = moved;
      update += weight * sent;
      next_buffers += weight * moved;
      weights += weight;
    }
    update /= weights;
    server.step(w.tail(w.size() - own), update.tail(w.size() - own));
    if (!local_batch_norm) buffers = next_buffers / weights;
    control += control_change / K();
  }

  /// How the model does at a node.
  Evaluation judge(const Node& node) const {
    VectorXd mine = w, statistics = buffers;
    if (local_batch_norm) {
      mine.head(net.norm()) = node.norms;
      statistics = node.buffers;
    }
    Evaluation result;
    const auto right = [](const MatrixXd& log_probs, Index i, int label) {
      return top(log_probs, i) == label ? 1.0 : 0.0;
    };
    const MatrixXd log_probs = net.predict(mine, statistics, node.evaluate.x);
    const auto n = static_cast<double>(node.evaluate.y.size());
    for (Index i = 0; i < std::ssize(node.evaluate.y); ++i) {
      result.accuracy += right(log_probs, i, node.evaluate.y[i]) / n;
      result.loss -= log_probs(i, node.evaluate.y[i]) / n;
    }
    if (node.held_out.y.empty() || node.target.size() == 0) return result;
    // Wilson's interval for sum w a / sum w, with the smaller of Kish's n and what the sandwich makes of it.
    const MatrixXd held = net.predict(mine, statistics, node.held_out.x);
    const VectorXd p = prior_of(node.held_out, classes());
    const Index rows = held.rows();
    ArrayXd weight(rows), hit(rows);
    for (Index i = 0; i < rows; ++i) {
      weight[i] = node.target[node.held_out.y[i]] / p[node.held_out.y[i]];
      hit[i] = right(held, i, node.held_out.y[i]);
    }
    const double a = (weight * hit).sum() / weight.sum();
    result.reweighted = a;
    result.effective = weight.sum() * weight.sum() / weight.square().sum();
    const double variance = (weight * (hit - a)).square().sum() / (weight.sum() * weight.sum());
    const double size = a > 0.0 && a < 1.0 ? std::min(result.effective, a * (1.0 - a) / variance) : result.effective;
    result.sandwich = size < result.effective;
    const double z = 1.959963984540054, share = z * z / size;
    const double half = z * std::sqrt(a * (1.0 - a) / size + share / (4.0 * size));
    result.low = std::max(0.0, (a + share / 2.0 - half) / (1.0 + share));
    result.high = std::min(1.0, (a + share / 2.0 + half) / (1.0 + share));
    return result;
  }
};

}  // namespace labelshift::reference
