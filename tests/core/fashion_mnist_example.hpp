#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "labelshift/core/base/rng.hpp"

namespace labelshift {

/// The source sample of examples/fashion-mnist: a real, over-confident classifier on rows it was not trained on.
struct FashionMnistExample {
  using Probs = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Probs probs;              // (2000, 10)
  std::vector<int> labels;  // (2000)
};

/// Reads just the files of the example, since core has no readers: a version 1 .npy of float32 in C order, and a CSV
/// of class names under a header line.
inline FashionMnistExample read_fashion_mnist_example() {
  const std::filesystem::path folder = std::filesystem::path(LABELSHIFT_EXAMPLES) / "fashion-mnist";
  const auto lines = [&](const char* file) {
    std::ifstream in(folder / file);
    std::vector<std::string> result;
    for (std::string line; std::getline(in, line);) result.push_back(line);
    return result;
  };
  const std::vector<std::string> names = lines("classes.txt");
  const std::vector<std::string> labels = lines("source_labels.csv");
  if (names.empty() || labels.size() < 2) throw std::runtime_error("cannot read " + folder.string());

  FashionMnistExample example;
  for (std::size_t i = 1; i < labels.size(); ++i) {
    const auto at = std::find(names.begin(), names.end(), labels[i]);
    if (at == names.end()) throw std::runtime_error("unknown class " + labels[i]);
    example.labels.push_back(static_cast<int>(at - names.begin()));
  }
  example.probs.resize(static_cast<Eigen::Index>(example.labels.size()), static_cast<Eigen::Index>(names.size()));
  std::ifstream npy(folder / "source_probs.npy", std::ios::binary);
  unsigned char start[10] = {};  // magic (6), version (2), little-endian length of the header text (2)
  npy.read(reinterpret_cast<char*>(start), sizeof start);
  npy.seekg(start[8] + 256 * start[9], std::ios::cur);
  npy.read(reinterpret_cast<char*>(example.probs.data()),
           static_cast<std::streamsize>(sizeof(float)) * example.probs.size());
  if (!npy) throw std::runtime_error("source_probs.npy is shorter than its labels");
  return example;
}

/// The same rows in random order, to split into a source and a target between which nothing has shifted.
inline FashionMnistExample shuffled(const FashionMnistExample& example, Rng& rng) {
  FashionMnistExample result = example;
  for (Eigen::Index i = result.probs.rows() - 1; i > 0; --i) {
    const Eigen::Index j = rng.below(i + 1);
    result.probs.row(i).swap(result.probs.row(j));
    std::swap(result.labels[static_cast<std::size_t>(i)], result.labels[static_cast<std::size_t>(j)]);
  }
  return result;
}

}  // namespace labelshift
