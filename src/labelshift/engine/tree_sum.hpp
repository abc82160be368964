#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// What the answers of a cohort come to.
struct CohortSums {
  std::vector<std::uint64_t> words;  // mod 2^64
  std::vector<double> numbers;
  std::vector<double> weights;

  bool operator==(const CohortSums&) const = default;
};

/// The sum of a range of nodes, one of those that TreeSum halves. It may travel: whoever has the other half adds the
/// two.
struct RangeSum {
  Index begin = 0, end = 0;
  bool empty = true;  // nobody in it contributed
  std::vector<std::uint64_t> words;
  std::vector<double> numbers;
  std::vector<float> leaf;      // weights of one node, or
  std::vector<double> weights;  // a sum of them

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.begin, self.end, self.empty, self.words, self.numbers, self.leaf, self.weights);
  }
};

/// Adds answers by recursive halving of the node numbers 0, ..., K - 1: the sum of a range is that of its lower half
/// plus that of its upper half, and who is absent is left out. So the bits of a sum depend on who contributed and on
/// nothing else: not on who came first, nor on who added which range. Whoever brings the second half of a range adds
/// the two, on his own thread; several threads may do so at once. About log2 K sums wait at a time, besides answers
/// that came before their neighbours.
class TreeSum {
 public:
  /// `expected` are the nodes that will be added or skipped, here or elsewhere, each once, in ascending order; it must
  /// outlive the sum.
  TreeSum(Index nodes, std::span<const Index> expected);

  /// All answers have as many words, numbers and weights.
  void add(Index node, std::vector<std::uint64_t> words, std::vector<double> numbers, std::vector<float> weights);
  void skip(Index node);
  /// What take_ranges() gave elsewhere. Throws Error{kPeer} for a range that is none of this sum's.
  void add(RangeSum sum);

  /// Once all are there. Empty if all were skipped.
  CohortSums take();
  /// The largest ranges of which all are there, in ascending order: for those who have not added everybody.
  std::vector<RangeSum> take_ranges();

 private:
  struct Range {
    Index begin, end;
    auto operator<=>(const Range&) const = default;
  };
  bool expects(Range range) const;
  void settle(RangeSum part);
  RangeSum added(RangeSum lower, RangeSum upper);

  const Index nodes_;
  const std::span<const Index> expected_;
  std::mutex mutex_;                   // for all below
  std::map<Range, RangeSum> waiting_;  // for the other half
  RangeSum total_;
  std::vector<std::vector<double>> spare_;  // memory to use again
};

}  // namespace labelshift
