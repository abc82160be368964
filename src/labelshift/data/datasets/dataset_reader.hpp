#pragma once

#include <string>

#include "labelshift/data/datasets/dataset.hpp"
#include "labelshift/data/datasets/table_reader.hpp"

namespace labelshift {

/// Reads whatever `path` is:
///   a directory with the four IDX files of MNIST, and a classes.txt if the classes have names;
///   a directory with the binary files of CIFAR-10 or CIFAR-100;
///   a directory with train/ and test/, each a folder of images (see image_folder.hpp);
///   a folder of images, with one sub-folder a class, or with the images themselves and no labels;
///   an IDX file of images, a .npy array or a text (.csv, .tsv, .txt, also .gz) (see table_reader.hpp).
/// Any of the files in a directory may be gzipped. A label column goes with a table; an IDX file takes its labels from
/// an IDX file. Class names that are given hold for all but CIFAR and a classes.txt, which name theirs; a class need
/// not have examples. Where there is one part only, `test` has no examples. Throws Error{kInput} if it is none of these
/// or not well formed.
TrainAndTest read_dataset(const std::string& path, const LabelOptions& options = {});

}  // namespace labelshift
