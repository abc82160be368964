#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "labelshift/data/datasets/dataset.hpp"

namespace labelshift {

/// An array of unsigned bytes in IDX, the format of MNIST.
struct IdxArray {
  std::vector<Index> shape;
  std::vector<std::uint8_t> values;
};

/// Reads an IDX file, plain or gzipped. Throws Error{kInput} unless it holds unsigned bytes in this many dimensions,
/// at least one of them and exactly as many as its header promises.
IdxArray read_idx(const std::string& path, int dimensions);

/// Reads grey images (n, height, width) and, unless `labels_path` is empty, their labels (n). The classes are
/// `class_names`, where a label is found by its number if that is a name and else by its position; if there are none,
/// they are the numbers from 0 to the greatest label. Throws Error{kInput} if there are more images than labels, or
/// fewer, or a label is no class.
Dataset read_idx_images(const std::string& images_path, const std::string& labels_path,
                        const std::vector<std::string>& class_names = {});

}  // namespace labelshift
