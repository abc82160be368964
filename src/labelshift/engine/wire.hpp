#pragma once

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "labelshift/core/base/matrix_view.hpp"
#include "labelshift/engine/float_loops.hpp"

// How the fields of a struct become bytes and fields again. A struct that travels lists its fields once,
//
//   template <typename Self, typename Visit>
//   static void fields(Self& self, Visit& visit) { visit(self.kind, self.values); }
//
// and is written, read and measured by that list. There is one way to write a value, so equal bytes are equal messages.
// What is read is checked: lengths before anything is allocated, enumerators and flags by their range, numbers for
// being finite. A number that may be unknown is a std::optional, so that no NaN ever travels.

namespace labelshift {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

using Bytes = std::vector<std::byte>;

template <typename T>
concept Enumeration = std::is_enum_v<T>;

template <typename T>
concept WireNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

class WireWriter {
 public:
  explicit WireWriter(Bytes& bytes) : bytes_(bytes) {}

  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }

 private:
  void append(const void* from, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  template <WireNumber T>
  void put(T value) {
    append(&value, sizeof value);
  }
  void put(bool value) { put(static_cast<std::uint8_t>(value)); }
  template <Enumeration T>
  void put(T value) {
    put(static_cast<std::uint8_t>(value));
  }
  void put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    append(text.data(), text.size());
  }
  void put(const Eigen::VectorXd& values) {
    put(static_cast<std::uint64_t>(values.size()));
    append(values.data(), static_cast<std::size_t>(values.size()) * sizeof(double));
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    if constexpr (WireNumber<T> || std::is_same_v<T, std::byte>)
      append(values.data(), values.size() * sizeof(T));
    else
      for (const T& value : values) put(value);
  }
  template <typename T>
  requires requires(const T& value, WireWriter& visit) { T::fields(value, visit); }
  void put(const T& value) { T::fields(value, *this); }
  Bytes& bytes_;
};

/// Throws Error{kPeer} for bytes that no writer made.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (get(fields), ...);
  }
  /// Nothing may follow.
  void end() const;

 private:
  [[noreturn]] void cut_short(std::uint64_t count, std::size_t size) const;
  [[noreturn]] static void refuse(const char* what);
  std::span<const std::byte> take(std::uint64_t count, std::size_t size);  // count items of so many bytes

  template <WireNumber T>
  void get(T& value) {
    std::memcpy(&value, take(1, sizeof value).data(), sizeof value);
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) refuse("a number that is not finite");
    } else if constexpr (std::is_signed_v<T>) {
      if (value < 0) refuse("a count below 0");  // signed integers are counts
    }
  }
  void get(bool& value) {
    std::uint8_t byte = 0;
    get(byte);
    if (byte > 1) refuse("a flag that is neither 0 nor 1");
    value = byte == 1;
  }
  /// `last_of(T)` is the last enumerator.
  template <Enumeration T>
  void get(T& value) {
    std::uint8_t byte = 0;
    get(byte);
    if (byte > static_cast<std::uint8_t>(last_of(T{}))) refuse("a kind that is not known");
    value = static_cast<T>(byte);
  }
  void get(std::string& text);
  void get(Eigen::VectorXd& values);
  template <typename T>
  void get(std::optional<T>& value) {
    bool there = false;
    get(there);
    value.reset();
    if (!there) return;
    T found{};
    get(found);
    value = std::move(found);
  }
  template <typename T>
  void get(std::vector<T>& values) {
    std::uint64_t count = 0;
    get(count);
    if constexpr (WireNumber<T> || std::is_same_v<T, std::byte>) {
      const auto from = take(count, sizeof(T));
      values.resize(count);
      if (count > 0) std::memcpy(values.data(), from.data(), from.size());
      if constexpr (std::is_floating_point_v<T>)
        if (!all_finite(values)) refuse("a number that is not finite");
      if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
        for (const T value : values)
          if (value < 0) refuse("a count below 0");
    } else {
      if (count > bytes_.size()) cut_short(count, 1);  // an item has a byte or more
      values.clear();                                  // and may take many in memory: none is made before it is read
      for (std::uint64_t i = 0; i < count; ++i) get(values.emplace_back());
    }
  }
  template <typename T>
  requires requires(T& value, WireReader& visit) { T::fields(value, visit); }
  void get(T& value) { T::fields(value, *this); }
  std::span<const std::byte> bytes_;
};

template <typename Message>
Bytes to_bytes(const Message& message) {
  Bytes bytes;
  WireWriter writer(bytes);
  Message::fields(message, writer);
  return bytes;
}

/// Throws Error{kPeer} unless the bytes are one whole message.
template <typename Message>
Message from_bytes(std::span<const std::byte> bytes) {
  Message message;
  WireReader reader(bytes);
  Message::fields(message, reader);
  reader.end();
  return message;
}

}  // namespace labelshift
