#include "labelshift/engine/engine.hpp"

#include <fmt/format.h>

#include <new>
#include <stdexcept>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/engine/float_loops.hpp"

namespace labelshift {

// Nodes are counted from 1 for people.

void NodeFailure::raise() const {
  const std::string text = fmt::format("{}: {}", name.empty() ? fmt::format("node {}", node + 1) : name, sentence);
  if (!kind) throw std::runtime_error(text);
  throw Error(*kind, text, remedy);
}

namespace {

NodeFailure described_failure(Index node) {
  try {
    throw;
  } catch (const Error& error) {
    return {node, error.kind(), error.what(), error.remedy()};
  } catch (const Stopped&) {
    return {node, ErrorKind::kPeer, ""};  // whoever stopped it knows why
  } catch (const std::bad_alloc&) {
    return {node, ErrorKind::kSystem, "out of memory; use fewer workers, or a smaller model"};
  } catch (const std::exception& bug) {
    return {node, std::nullopt, bug.what()};
  } catch (...) {
    return {node, std::nullopt, "something was thrown that is no exception"};
  }
}

}  // namespace

NodeFailure failure_of_current_exception(Index node) noexcept {
  try {
    return described_failure(node);
  } catch (...) {
    return {node, ErrorKind::kSystem, "out of memory"};  // a sentence so short takes none
  }
}

void check_answer(Index node, Answer& answer, const AnswerTerms& terms) {
  if (terms.accept) terms.accept(node, answer);
  if (answer.words.size() != terms.words || answer.numbers.size() != terms.numbers ||
      answer.weights.size() != terms.weights)
    throw Error(ErrorKind::kPeer,
                fmt::format("it sent {} words, {} numbers and {} weights, expected {}, {} and {}; does it run this "
                            "version, with the same data columns and model?",
                            answer.words.size(), answer.numbers.size(), answer.weights.size(), terms.words,
                            terms.numbers, terms.weights));
  if (answer.report.size() > terms.report)
    throw Error(ErrorKind::kPeer,
                fmt::format("it sent a report of {} bytes, expected at most {}; does it run this version?",
                            answer.report.size(), terms.report));
  if (!all_finite(answer.numbers) || !all_finite(answer.weights))
    throw Error(
        ErrorKind::kPeer,
        "it sent a number that is not finite; use a smaller learning rate, or look for extreme values in its data");
  if (terms.check_words) terms.check_words(answer.words);
}

void check_cohort(std::span<const Addressee> cohort, Index nodes) {
  for (std::size_t i = 0; i < cohort.size(); ++i) {
    const Index node = cohort[i].node;
    if (node < 0 || node >= nodes)
      throw Error(ErrorKind::kUsage, fmt::format("the cohort has a node {}, but there are {}", node + 1, nodes));
    if (i > 0 && node <= cohort[i - 1].node)
      throw Error(ErrorKind::kUsage, fmt::format("node {} comes after node {} in the cohort, expected ascending order",
                                                 node + 1, cohort[i - 1].node + 1));
  }
}

}  // namespace labelshift
