#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "labelshift/data/datasets/dataset.hpp"

namespace labelshift {

/// Bytes of all images that are decoded: small files can promise more than any memory holds.
inline constexpr std::int64_t kMostImageBytes = std::int64_t{16} << 30;

/// Reads a folder of .png, .jpg and .jpeg images of one size: either one sub-folder a class, named after it, or the
/// images themselves, which then have no labels. Classes and images are in the order of their names, byte by byte.
/// The examples are grey if every image is, else all have three channels. Hidden files are left out; any other file
/// in a class's folder is an error, so that no example is missing in silence.
///
/// `class_names` are what folders must be among; a class without a folder is one without examples. If it is empty,
/// every folder is a class. `like` is the other part of the same data, whose size and channels are then expected.
/// Throws Error{kInput} naming the first image that does not decode or differs, or if all together have more than
/// kMostImageBytes.
Dataset read_image_folder(const std::string& directory, const std::vector<std::string>& class_names = {},
                          const Dataset* like = nullptr);

}  // namespace labelshift
