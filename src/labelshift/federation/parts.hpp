#pragma once

#include <cassert>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// What an algorithm keeps, by name.
using NamedParts = std::map<std::string, std::vector<float>>;

/// Names for the runs of one vector: what an algorithm sends.
class PartLayout {
 public:
  struct Part {
    std::string name;
    Index offset = 0, size = 0;
  };
  PartLayout& add(std::string name, Index size) {
    parts_.push_back({std::move(name), size_, size});
    size_ += size;
    return *this;
  }
  Index size() const { return size_; }

  /// Says of a run that is there that it has no number below 0, such as one of squares. An answer that has one is
  /// refused.
  PartLayout& never_negative(std::string name, Index offset, Index size) {
    assert(offset + size <= size_);
    never_negative_.push_back({std::move(name), offset, size});
    return *this;
  }
  const std::vector<Part>& never_negative() const { return never_negative_; }

  /// The run of `values` with this name, which there must be.
  template <typename Value>
  std::span<Value> of(std::span<Value> values, std::string_view name) const {
    assert(std::ssize(values) == size_);
    for (const Part& part : parts_)
      if (part.name == name) return values.subspan(part.offset, part.size);
    assert(false);
    return {};
  }
  template <typename Value>
  std::span<Value> of(std::vector<Value>& values, std::string_view name) const {
    return of(std::span(values), name);
  }
  template <typename Value>
  std::span<const Value> of(const std::vector<Value>& values, std::string_view name) const {
    return of(std::span(values), name);
  }

  /// In words, for a handshake: "parameters 7850, buffers 0".
  std::string describe() const {
    std::string text;
    for (const Part& part : parts_) text += (text.empty() ? "" : ", ") + part.name + " " + std::to_string(part.size);
    return text;
  }

 private:
  std::vector<Part> parts_, never_negative_;
  Index size_ = 0;
};

}  // namespace labelshift
