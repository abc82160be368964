#pragma once

#include <utility>

#include "labelshift/engine/engine.hpp"
#include "labelshift/engine/fixed_point.hpp"

// A task is a struct with a number, kTask, and what travels for it:
//
//   Request   what all nodes are asked; a struct that lists its fields (engine/wire.hpp)
//   Own       what one node alone is told; the same
//   Sums      what nodes answer to be added up: lists, as fields() does, what is added as words(), in fixed point and
//             perhaps under masks, as numbers(), in doubles, and as weights()
//   Report    what a node discloses about itself; as Request
//
// Sums<float> is what a node answers and Sums<double> what the coordinator gets: only weights change their type.

namespace labelshift {

/// For tasks that have no such part.
struct Nothing {
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&) {}
  template <typename Self, typename Visit>
  static void words(Self&, Visit&) {}
  template <typename Self, typename Visit>
  static void numbers(Self&, Visit&) {}
  template <typename Self, typename Visit>
  static void weights(Self&, Visit&) {}
};

/// What a node gives back: sums and report of a task.
template <typename Task>
struct TaskAnswer {
  typename Task::template Sums<float> sums;
  typename Task::Report report;
};

template <typename Task>
struct TaskReport {
  Index node = 0;
  typename Task::Report report;
};

template <typename Task>
struct TaskOutcome {
  typename Task::template Sums<double> sums;
  std::vector<TaskReport<Task>> contributed;
  std::vector<NodeFailure> failed;
  Traffic traffic;
};

/// Appends the fields of sums to one vector.
template <typename Value>
class FieldAppender {
 public:
  explicit FieldAppender(std::vector<Value>& to) : to_(to) {}
  template <typename... Fields>
  void operator()(Fields&... fields) {
    (append(fields), ...);
  }

 private:
  void append(Value value) { to_.push_back(value); }
  void append(const Eigen::VectorXd& values) { to_.insert(to_.end(), values.begin(), values.end()); }
  void append(std::vector<Value>& values) {
    if (to_.empty())
      to_ = std::move(values);  // a copy of 44,000 weights is worth saving in a step of LeNet
    else
      to_.insert(to_.end(), values.begin(), values.end());
  }
  std::vector<Value>& to_;
};

/// Counts the values of sums, whose vectors have their sizes.
class FieldCounter {
 public:
  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (count(fields), ...);
  }
  std::size_t total() const { return total_; }

 private:
  void count(double) { ++total_; }
  void count(const Eigen::VectorXd& values) { total_ += static_cast<std::size_t>(values.size()); }
  template <typename Value>
  void count(const std::vector<Value>& values) {
    total_ += values.size();
  }
  std::size_t total_ = 0;
};

/// Fills sums, whose vectors have their sizes, from one vector.
class FieldFiller {
 public:
  explicit FieldFiller(std::vector<double> from) : from_(std::move(from)) {}
  template <typename... Fields>
  void operator()(Fields&... fields) {
    (fill(fields), ...);
  }

 private:
  void fill(double& value) { value = from_[at_++]; }
  void fill(Eigen::VectorXd& values) {
    values = Eigen::Map<const Eigen::VectorXd>(from_.data() + at_, values.size());
    at_ += static_cast<std::size_t>(values.size());
  }
  void fill(std::vector<double>& values) {
    if (at_ == 0 && values.size() == from_.size()) {
      values = std::move(from_);
      return;
    }
    const auto begin = from_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += values.size();
    values.assign(begin, from_.begin() + static_cast<std::ptrdiff_t>(at_));
  }
  std::vector<double> from_;
  std::size_t at_ = 0;
};

/// What a node sends. Takes the weights out of `answer`. A task with words needs to know how many nodes there are;
/// Error{kInput} for what is too much for one of so many.
template <typename Task>
Answer to_answer(TaskAnswer<Task> answer, Index nodes = 0) {
  Answer result;
  std::vector<double> fixed;
  FieldAppender words(fixed);
  FieldAppender numbers(result.numbers);
  FieldAppender weights(result.weights);
  using Sums = typename Task::template Sums<float>;
  Sums::words(answer.sums, words);
  result.words = to_fixed(fixed, nodes);
  Sums::numbers(answer.sums, numbers);
  Sums::weights(answer.sums, weights);
  result.report = to_bytes(answer.report);
  return result;
}

/// Throws Error{kPeer} for words that are impossible as the sum of so many nodes, or as those of one.
template <typename Task>
using CheckSums = std::function<void(const typename Task::template Sums<double>& sums, Index nodes)>;

/// Runs a task on a cohort. `sums` has the sizes of what nodes answer; `terms` what else their answers must be. Words
/// are checked by `check` wherever they can be read: those of one node where the engine sees them, and the sum of all.
template <typename Task>
TaskOutcome<Task> run_task(Engine& engine, const Request& request, std::span<const Addressee> cohort,
                           typename Task::template Sums<double> sums, const CheckSums<Task>& check, AnswerTerms terms,
                           const Patience& patience, const Observer& observer) {
  using Sums = typename Task::template Sums<double>;
  FieldCounter words, numbers, weights;
  Sums::words(sums, words);
  Sums::numbers(sums, numbers);
  Sums::weights(sums, weights);
  terms.words = words.total();
  terms.numbers = numbers.total();
  terms.weights = weights.total();
  // A report is read before the answer is added, so that nobody is in the sums whose report cannot be read.
  terms.accept = [accept = std::move(terms.accept)](Index node, Answer& answer) {
    if (accept) accept(node, answer);
    from_bytes<typename Task::Report>(answer.report);
  };
  if (terms.words > 0)
    terms.check_words = [&check, shape = sums, nodes = std::ssize(cohort)](std::span<const std::uint64_t> of_one) {
      for (const std::uint64_t word : of_one) check_summand(word, nodes);
      if (!check) return;
      Sums one = shape;
      FieldFiller fill(from_fixed(of_one));
      Sums::words(one, fill);
      check(one, 1);
    };
  CohortOutcome outcome = engine.run(request, cohort, terms, patience, observer);
  TaskOutcome<Task> result{.sums = std::move(sums), .failed = std::move(outcome.failed), .traffic = outcome.traffic};
  if (!outcome.contributed.empty()) {
    FieldFiller fill_words(from_fixed(outcome.sums.words));
    Sums::words(result.sums, fill_words);
    FieldFiller fill_numbers(std::move(outcome.sums.numbers)), fill_weights(std::move(outcome.sums.weights));
    Sums::numbers(result.sums, fill_numbers);
    Sums::weights(result.sums, fill_weights);
    if (check && result.failed.empty()) check(result.sums, std::ssize(outcome.contributed));
  }
  for (const Contribution& one : outcome.contributed)
    result.contributed.push_back({one.node, from_bytes<typename Task::Report>(one.report)});
  return result;
}

}  // namespace labelshift
