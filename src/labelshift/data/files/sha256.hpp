#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace labelshift {

/// The SHA-256 of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  ~Sha256();
  void add(const void* data, std::size_t size);
  /// 64 hexadecimal digits, once and last.
  std::string digits();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_of(std::string_view bytes);

/// The SHA-256 of a file's bytes, unpacked first if it is gzipped. Throws Error{kInput} if it cannot be read.
std::string sha256_of_file(const std::string& path);

/// A folder's list of sums, which `sha256sum -c SHA256SUMS` checks as well.
inline constexpr const char* kSumsFile = "SHA256SUMS";

/// A line of that list.
std::string sum_line(std::string_view bytes, const std::string& name);

/// Why a folder is not what its list says: a file that is missing or has other bytes, no list, or a list without one of
/// `needed`. Nothing if all is well.
std::optional<std::string> damage_of(const std::string& folder, const std::vector<std::string>& needed);

}  // namespace labelshift
