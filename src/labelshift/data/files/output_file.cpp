#include "labelshift/data/files/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/printable.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"

namespace labelshift {
namespace {

/// /dev/stdout may lead to a regular file, but one that others are writing to as well: it must not be replaced.
bool names_a_descriptor(const std::string& path) {
  return path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
}

/// Whether this is what a temporary file's name adds to that of its target: "PID-ATTEMPT.tmp".
bool is_temporary(std::string_view ending) {
  const auto digits = [&] {
    const std::size_t count = std::min(ending.find_first_not_of("0123456789"), ending.size());
    ending.remove_prefix(count);
    return count > 0;
  };
  if (!digits() || !ending.starts_with('-')) return false;
  ending.remove_prefix(1);
  return digits() && ending == ".tmp";
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path), target_(path) {
  if (path.empty()) fail(ENOENT);
  if (path == "/dev/stdout" || path == "/dev/stderr") {
    // Opened anew, a regular file behind it would have a place of its own, and what follows would be written over this.
    descriptor_ = ::fcntl(path == "/dev/stdout" ? STDOUT_FILENO : STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) fail(errno);
    return;
  }
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail(EISDIR);
  if (names_a_descriptor(path) || (exists && !S_ISREG(status.st_mode))) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (descriptor_ < 0) fail(errno);
    return;
  }
  if (exists) {
    std::error_code error;
    target_ = std::filesystem::canonical(path, error).string();
    if (error) fail(error.value());
    if (::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) fail(errno);
  }
  remove_leftovers();
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = fmt::format("{}.{}-{}.tmp", target_, ::getpid(), attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) {
      temporary_.clear();
      fail(errno);
    }
    struct stat made {};
    if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 && ::fstat(descriptor_, &made) == 0 &&
        made.st_nlink == 0) {  // another process took it for a leftover, before it was locked
      ::close(std::exchange(descriptor_, -1));
    }
  }
  lock_ = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);           // the lock lasts as long as one of the two is open
  if (exists) ::fchmod(descriptor_, status.st_mode & 07777);  // what was private stays private
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (lock_ >= 0) ::close(lock_);
}

/// Removes temporary files of this target that nobody has locked. Where locks do not work, none is removed.
void OutputFile::remove_leftovers() const {
  const std::filesystem::path target(target_);
  const std::string start = target.filename().string() + '.';
  std::error_code error;
  std::vector<std::string> found;
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(start) && is_temporary(std::string_view(name).substr(start.size())))
      found.push_back(entry->path().string());
  }
  for (const std::string& leftover : found) {
    const int descriptor = ::open(leftover.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) continue;
    struct stat locked {};
    const bool unused = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    // Without a link the name may be that of another file by now.
    if (unused && ::fstat(descriptor, &locked) == 0 && locked.st_nlink > 0) ::unlink(leftover.c_str());
    ::close(descriptor);
  }
}

void OutputFile::write(std::string_view bytes) {
  std::string shown;
  if (::isatty(descriptor_)) bytes = shown = printable(bytes, "\n\t");
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail(errno);
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::finish() {
  if (descriptor_ < 0) return;
  if (!temporary_.empty() && ::fsync(descriptor_) != 0) fail(errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(errno);
}

void OutputFile::commit() {
  finish();
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
}

void OutputFile::fail(int error) const {
  std::string why = errno_text(error) + "; choose another place";
  if (error == ENOENT) why = "no such directory; create it or choose another place";
  if (error == EISDIR) why = "it is a directory; name a file in it";
  if (error == ENOSPC || error == EDQUOT) why = errno_text(error) + "; free some or choose another place";
  throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: {}", path_, why));
}

void write_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace labelshift
