#pragma once

#include <ctime>
#include <memory>
#include <string>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/federation/federated_data.hpp"

namespace labelshift {

inline constexpr Index kBenchNodes = 5;
inline constexpr Index kExamples = 6168;  // of a node of the paper's

/// Of this process, of all its threads.
inline double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// Five nodes with images of noise, as large as those of Fashion-MNIST.
inline FederatedData random_images() {
  Rng rng(1);
  auto set = std::make_unique<Dataset>();
  set->shape = {1, 28, 28};
  std::vector<std::uint8_t> values(kBenchNodes * kExamples * set->shape.size());
  for (auto& value : values) value = static_cast<std::uint8_t>(rng.below(256));
  set->values = std::move(values);
  for (Index i = 0; i < kBenchNodes * kExamples; ++i) set->labels.push_back(static_cast<int>(rng.below(10)));
  for (int c = 0; c < 10; ++c) set->class_names.push_back(std::to_string(c));
  FederatedData data{.shape = set->shape, .class_names = set->class_names};
  for (Index node = 0; node < kBenchNodes; ++node) {
    NodeData has{.train = set.get(), .test = set.get()};
    for (Index i = 0; i < kExamples; ++i) has.train_rows.push_back(node * kExamples + i);
    has.test_rows = {node};
    data.nodes.push_back(std::move(has));
  }
  data.sets.push_back(std::move(set));
  return data;
}

}  // namespace labelshift
