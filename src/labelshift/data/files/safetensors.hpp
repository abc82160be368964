#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// A tensor of float32 that somebody else keeps.
struct NamedTensor {
  std::string name;
  std::vector<Index> shape;
  std::span<const float> values;  // the product of `shape` of them, the last index running fastest
};

/// Writes the safetensors format, which PyTorch users load without running anybody's code: eight bytes with the length
/// of a JSON header, the header, the numbers. The file appears whole or not at all, and its metadata have its SHA-256.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

/// A safetensors file in memory.
class SafetensorsFile {
 public:
  /// Throws Error{kInput} unless the file is whole, its tensors are float32 and they fill it without gap or overlap;
  /// also if it has a sum, and its bytes are not those that it was made of.
  explicit SafetensorsFile(const std::string& path);
  SafetensorsFile(SafetensorsFile&&) = default;

  const std::string& path() const { return path_; }
  /// Throws Error{kInput} if nothing vouches for the bytes, as in files that others or older versions wrote.
  void require_sum() const;
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// But the sum.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The tensor of this name. Throws Error{kInput} if there is none or it has another shape.
  std::span<const float> tensor(const std::string& name, const std::vector<Index>& shape) const;
  /// Throws Error{kInput} unless there is such an entry.
  const std::string& metadata(const std::string& key) const;

 private:
  std::string path_;
  bool has_sum_ = false;
  std::vector<float> values_;
  std::vector<NamedTensor> tensors_;  // views of values_
  std::map<std::string, std::string> metadata_;
};

/// Whether there is such a file, with a sum, and nothing is wrong with it.
bool is_whole_safetensors(const std::string& path);

/// Throws Error{kInput} that names both versions unless the format of a file of ours is the one that can be read.
/// `writer` is the version of the program that wrote it.
void check_format(const std::string& path, int found, int expected, const std::string& writer);

}  // namespace labelshift
