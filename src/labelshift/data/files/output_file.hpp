#pragma once

#include <string>
#include <string_view>

namespace labelshift {

/// A file that appears whole or not at all: it is written under another name in the same directory and takes its own
/// name, over a file of that name, in commit(). Without commit() nothing is left behind, but by a process that is
/// killed; the next one that writes this file removes that. A pipe or device such as /dev/stdout is written directly,
/// and a terminal gets printable text alone.
class OutputFile {
 public:
  /// Throws Error{kSystem} saying why `path` cannot be written.
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::string_view bytes);
  /// Makes sure the bytes are on the disk; no write may follow. Of several files that belong together, finish all
  /// before the first is committed: what can go wrong in normal use (a full disk) goes wrong here.
  void finish();
  /// Finishes, then gives the file its name. Call it once, last.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;
  void remove_leftovers() const;
  std::string path_;       // as the user wrote it, for messages
  std::string target_;     // the same with symbolic links followed
  std::string temporary_;  // empty if the target is written directly
  int descriptor_ = -1;
  int lock_ = -1;  // of the temporary file: whoever can lock one that he did not make knows that nobody uses it
};

/// Writes a file of this text, whole or not at all.
void write_file(const std::string& path, std::string_view text);

}  // namespace labelshift
