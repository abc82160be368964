#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace labelshift {

enum class FileKind {
  kAny,      // what a user names: pipes and devices too
  kRegular,  // what this program wrote: opening a pipe in its place would wait for a writer that never comes
};

/// A file opened for reading, closed on destruction. Pipes and devices are files too, but have no size and cannot be
/// looked into before they are read.
class InputFile {
 public:
  /// Throws Error{kInput} saying why `path` cannot be read.
  explicit InputFile(const std::string& path, FileKind kind = FileKind::kAny);
  InputFile(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::int64_t size() const { return size_; }
  /// Whether the first bytes are `magic`; false for a pipe.
  bool starts_with(std::string_view magic) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// All bytes of a regular file. Throws Error{kInput} if it is none or cannot be read.
std::string read_file(const std::string& path);

/// The path of a file in a directory, plain or as NAME.gz; empty if neither is there.
std::string find_file(const std::string& directory, const std::string& name);

/// The same, or the plain path if neither is there, so that whoever opens it says so.
std::string path_to_open(const std::string& directory, const std::string& name);

}  // namespace labelshift
