#include "labelshift/engine/tree_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

template <typename From, typename To>
LABELSHIFT_INLINE inline void add_to(const From* __restrict from, std::size_t size, To* __restrict to) {
  for (std::size_t i = 0; i < size; ++i) to[i] += static_cast<To>(from[i]);
}

LABELSHIFT_INLINE inline void add_leaves(const float* __restrict a, const float* __restrict b, std::size_t size,
                                         double* __restrict to) {
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<double>(a[i]) + static_cast<double>(b[i]);
}

}  // namespace

TreeSum::TreeSum(Index nodes, std::span<const Index> expected) : nodes_(nodes), expected_(expected) {}

bool TreeSum::expects(Range range) const {
  const auto first = std::lower_bound(expected_.begin(), expected_.end(), range.begin);
  return first != expected_.end() && *first < range.end;
}

void TreeSum::add(Index node, std::vector<std::uint64_t> words, std::vector<double> numbers,
                  std::vector<float> weights) {
  settle({node, node + 1, /*empty=*/false, std::move(words), std::move(numbers), std::move(weights), {}});
}

void TreeSum::skip(Index node) {
  settle({node, node + 1});
}

void TreeSum::add(RangeSum sum) {
  settle(std::move(sum));
}

void TreeSum::settle(RangeSum part) {
  const Range whole{part.begin, part.end};
  std::vector<std::pair<Range, Range>> path;  // from the root: a range and its other half
  Range at{0, nodes_};
  while (at != whole) {
    if (at.end - at.begin <= 1 || whole.begin < at.begin || whole.end > at.end || whole.begin >= whole.end)
      throw Error(ErrorKind::kPeer, fmt::format("a sum of nodes {} to {} is no part of the sum of {} nodes",
                                                whole.begin + 1, whole.end, nodes_));
    const Index middle = at.begin + (at.end - at.begin) / 2;
    const Range lower{at.begin, middle}, upper{middle, at.end};
    at = whole.begin < middle ? lower : upper;
    path.emplace_back(at, whole.begin < middle ? upper : lower);
  }
  for (; !path.empty(); path.pop_back()) {
    const auto& [mine, other] = path.back();
    part.begin = mine.begin;
    part.end = mine.end;
    if (!expects(other)) continue;
    RangeSum first;
    {
      const std::lock_guard lock(mutex_);
      const auto found = waiting_.find(other);
      if (found == waiting_.end()) {
        waiting_.emplace(mine, std::move(part));
        return;
      }
      first = std::move(found->second);
      waiting_.erase(found);
    }
    part = mine < other ? added(std::move(part), std::move(first)) : added(std::move(first), std::move(part));
  }
  part.begin = 0;
  part.end = nodes_;
  const std::lock_guard lock(mutex_);
  total_ = std::move(part);
}

RangeSum TreeSum::added(RangeSum lower, RangeSum upper) {
  if (upper.empty) return lower;
  if (lower.empty) return upper;
  assert(lower.words.size() == upper.words.size());
  for (std::size_t i = 0; i < lower.words.size(); ++i) lower.words[i] += upper.words[i];
  assert(lower.numbers.size() == upper.numbers.size());
  for (std::size_t i = 0; i < lower.numbers.size(); ++i) lower.numbers[i] += upper.numbers[i];
  const std::size_t size = std::max(lower.leaf.size(), lower.weights.size());
  assert(size == std::max(upper.leaf.size(), upper.weights.size()));
  if (lower.weights.empty() && upper.weights.empty()) {
    {
      const std::lock_guard lock(mutex_);
      if (!spare_.empty()) {
        lower.weights = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    lower.weights.resize(size);
    on_this_cpu(
        [&]() LABELSHIFT_INLINE { add_leaves(lower.leaf.data(), upper.leaf.data(), size, lower.weights.data()); });
  } else if (upper.weights.empty()) {
    on_this_cpu([&]() LABELSHIFT_INLINE { add_to(upper.leaf.data(), size, lower.weights.data()); });
  } else if (lower.weights.empty()) {  // a + b is b + a to the bit
    on_this_cpu([&]() LABELSHIFT_INLINE { add_to(lower.leaf.data(), size, upper.weights.data()); });
    lower.weights = std::move(upper.weights);
  } else {
    on_this_cpu([&]() LABELSHIFT_INLINE { add_to(upper.weights.data(), size, lower.weights.data()); });
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(upper.weights));
  }
  lower.leaf = {};
  return lower;
}

CohortSums TreeSum::take() {
  const std::lock_guard lock(mutex_);
  assert(waiting_.empty());
  if (total_.weights.empty()) total_.weights.assign(total_.leaf.begin(), total_.leaf.end());
  return {std::move(total_.words), std::move(total_.numbers), std::move(total_.weights)};
}

std::vector<RangeSum> TreeSum::take_ranges() {
  const std::lock_guard lock(mutex_);
  std::vector<RangeSum> ranges;
  for (auto& [range, sum] : waiting_) ranges.push_back(std::move(sum));
  waiting_.clear();
  if (total_.end > 0) ranges.push_back(std::exchange(total_, {}));
  return ranges;
}

}  // namespace labelshift
