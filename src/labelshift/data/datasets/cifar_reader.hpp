#pragma once

#include <string>
#include <vector>

#include "labelshift/data/datasets/dataset.hpp"

namespace labelshift {

/// The two binary layouts: records of one label (CIFAR-10) or a coarse and a fine label (CIFAR-100), then 3 x 32 x 32
/// bytes.
enum class CifarLayout { kCifar10, kCifar100 };

/// Reads the records of some files, one file after another; the labels of CIFAR-100 are the fine ones. Throws
/// Error{kInput} naming the file if one holds no whole number of records or a label that `class_names` does not name.
Dataset read_cifar(const std::vector<std::string>& paths, CifarLayout layout, std::vector<std::string> class_names);

/// Reads data_batch_1.bin to data_batch_5.bin, test_batch.bin and batches.meta.txt (CIFAR-10), or train.bin, test.bin
/// and fine_label_names.txt (CIFAR-100), each plain or gzipped.
TrainAndTest read_cifar_directory(const std::string& directory, CifarLayout layout);

}  // namespace labelshift
