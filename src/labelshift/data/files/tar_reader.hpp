#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {

/// The regular files of a tar archive (ustar), plain or gzipped, one after another. What else is in it is passed over.
/// Throws Error{kInput} if the archive is damaged or cut off, a name leads out of the directory it is unpacked in, or
/// more than kMostPassedOver bytes are not what anybody reads.
class TarReader {
 public:
  static constexpr std::uint64_t kMostPassedOver = std::uint64_t{4} << 30;

  /// `between` is called between entries and now and then in what is passed over; it may throw to end the reading.
  explicit TarReader(
      const std::string& path, std::function<void()> between = [] {});

  /// Moves to the next file; false at the end.
  bool next();
  const std::string& name() const { return name_; }  // with its directories: package/data/x
  std::uint64_t size() const { return size_; }
  /// The file's next bytes; fewer than asked for only at its end.
  std::size_t read(std::span<char> bytes);

 private:
  [[noreturn]] void fail(const std::string& problem) const;
  void read_fully(char* bytes, std::size_t count);
  void skip(std::uint64_t count);
  std::string path_;
  UnpackedFile file_;
  std::function<void()> between_;
  std::string name_;
  std::uint64_t size_ = 0;
  std::uint64_t left_ = 0;     // of the file's bytes
  std::uint64_t padding_ = 0;  // after them, up to a whole block
  std::uint64_t passed_over_ = 0;
};

}  // namespace labelshift
