#pragma once

#include "labelshift/data/datasets/known_datasets.hpp"
#include "tests/data/dataset_bytes.hpp"

namespace labelshift {

/// The files of a published data set that is small enough for a test: two training and two test images.
struct TinyFiles {
  std::string train_images = idx_bytes({2, 1, 1}, "ab");
  std::string train_labels = idx_bytes({2}, std::string("\x01\x00", 2));
  std::string test_images = idx_bytes({2, 1, 1}, "cd");
  std::string test_labels = idx_bytes({2}, std::string("\x00\x01", 2));
};

/// A row about them. The checksum is that of the training images.
inline KnownDataset tiny_known_dataset() {
  return {.name = "tiny",
          .summary = "four pixels",
          .files = {{"train-images-idx3-ubyte", "9c00dfb76a41febae0d35d8ab107c2d86fea2b4ab41d5353eab74acd73736a20"},
                    {"train-labels-idx1-ubyte", ""},
                    {"t10k-images-idx3-ubyte", ""},
                    {"t10k-labels-idx1-ubyte", ""}},
          .classes = 2,
          .class_names = {"cat", "dog"},
          .train_size = 2,
          .test_size = 2,
          .balanced = true,
          .npm_package = "tiny-data@1.0.0"};
}

}  // namespace labelshift
