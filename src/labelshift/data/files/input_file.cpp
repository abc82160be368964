#include "labelshift/data/files/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/errno_text.hpp"

namespace labelshift {
namespace {

std::string advice(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case EACCES:
      return "ask its owner for permission to read it";
    default:
      return "copy it to a place that can be read";
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  const InputFile file(path, FileKind::kRegular);
  std::string bytes;
  std::string chunk(1 << 16, '\0');
  for (ssize_t got = 1; got != 0;) {
    got = ::read(file.descriptor(), chunk.data(), chunk.size());
    if (got < 0 && errno != EINTR)
      throw Error(ErrorKind::kInput, fmt::format("cannot read {}: {}; {}", path, errno_text(errno), advice(errno)));
    if (got > 0) bytes.append(chunk, 0, static_cast<std::size_t>(got));
  }
  return bytes;
}

std::string find_file(const std::string& directory, const std::string& name) {
  for (const char* packed : {"", ".gz"}) {
    const std::string path = directory + "/" + name + packed;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path;
  }
  return "";
}

std::string path_to_open(const std::string& directory, const std::string& name) {
  const std::string found = find_file(directory, name);
  return found.empty() ? directory + "/" + name : found;
}

InputFile::InputFile(const std::string& path, FileKind kind)
    : path_(path),
      // Standard input goes on from where it is, and may be a socket, which cannot be opened.
      descriptor_(path == "/dev/stdin"
                      ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                      : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (kind == FileKind::kRegular ? O_NONBLOCK : 0))) {
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw Error(ErrorKind::kInput, fmt::format("cannot read {}: {}; {}", path, errno_text(error), advice(error)));
  }
  if (S_ISDIR(status.st_mode)) {
    ::close(descriptor_);
    throw Error(ErrorKind::kInput, fmt::format("cannot read {}: it is a directory; name a file in it", path));
  }
  if (kind == FileKind::kRegular && !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw Error(
        ErrorKind::kInput,
        fmt::format(
            "cannot read {}: it is a pipe or a device, expected a regular file; put one in its place, or name another",
            path));
  }
  size_ = status.st_size;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool InputFile::starts_with(std::string_view magic) const {
  std::string found(magic.size(), '\0');
  const ssize_t got = ::pread(descriptor_, found.data(), found.size(), 0);
  return got == static_cast<ssize_t>(magic.size()) && found == magic;
}

}  // namespace labelshift
