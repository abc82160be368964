#include "labelshift/federation/node_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "labelshift/core/error.hpp"
#include "labelshift/data/input_file.hpp"
#include "labelshift/data/safetensors.hpp"
#include "labelshift/data/sha256.hpp"
#include "labelshift/data/text_lines.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

// A saved store is this file: tensors are what was in memory, metadata name what was on disk by its number of floats
// and its SHA-256. The files 0.f32, 1.f32, ... beside it belong to the metadata in their order, so that no path is ever
// read from a file.
constexpr const char* kSaved = "nodes.safetensors";
constexpr const char* kExtension = ".f32";  // floats and nothing else

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}", path, why));
}

[[noreturn]] void cannot_write(const std::string& path, int error) {
  throw Error(ErrorKind::kSystem,
              fmt::format("cannot write {}: {}; free some space or choose another place", path, errno_text(error)));
}

std::string key_of(Index node, const std::string& name) {
  return fmt::format("{}/{}", node, name);
}

/// A whole number written as we write one, or nothing.
bool parse_count(std::string_view text, std::uint64_t& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && fmt::to_string(count) == text;
}

std::string sum_of(std::span<const float> values) {
  return sha256_of({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

/// The floats of a file that has this many of them and this sum.
std::vector<float> read_floats(const std::string& path, std::uint64_t count, const std::string& sum) {
  const std::string bytes = read_file(path);
  if (bytes.size() % sizeof(float) != 0 || bytes.size() / sizeof(float) != count)
    refuse(path, fmt::format("found {} bytes, expected {} numbers of 4; copy it again", bytes.size(), count));
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  if (sum_of(values) != sum) refuse(path, "its bytes are not those it was written with, by its SHA-256; copy it again");
  return values;
}

void check_key(const std::string& path, const std::string& key) {
  const auto slash = key.find('/');
  std::uint64_t node = 0;
  if (slash == std::string::npos || slash + 1 == key.size() || !parse_count(key.substr(0, slash), node))
    refuse(path, fmt::format("found an entry {}, expected NODE/NAME; it is no memory of nodes", excerpt(key)));
}

/// The same file under another name; a copy where file systems differ or have no links.
void link_or_copy(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);
  if (error) cannot_write(to, error.value());
}

/// Waits until all files of a folder are on the disk, in one go: one by one, ten thousand took a minute.
void sync_all(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) cannot_write(folder, errno);
  const int error = ::syncfs(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error != 0) cannot_write(folder, error);
}

}  // namespace

/// A file of the store's own, which goes with its last user. A link to it in a saved store stays.
struct NodeStore::File {
  File(std::string path_, std::uint64_t count_, std::string sum_)
      : path(std::move(path_)), count(count_), sum(std::move(sum_)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::unlink(path.c_str()); }

  const std::string path;
  const std::uint64_t count;  // of floats
  const std::string sum;      // SHA-256
};

NodeStore::NodeStore(NodeStoreSettings settings) : settings_(std::move(settings)) {}

NodeStore::~NodeStore() {
  entries_.clear();
  std::error_code ignored;
  if (files_ > 0) fs::remove(settings_.folder, ignored);  // if nothing else is in it
}

std::string NodeStore::new_path() {
  const std::lock_guard lock(mutex_);
  if (files_ == 0) {
    std::error_code error;
    fs::create_directories(settings_.folder, error);
    if (error) cannot_write(settings_.folder, error.value());
    // Written over, a file of a killed run would also change in the checkpoint that it is linked into.
    for (fs::directory_iterator at(settings_.folder, error), end; !error && at != end; at.increment(error))
      if (at->path().extension() == kExtension && !fs::remove(at->path(), error)) break;
    if (error) cannot_write(settings_.folder, error.value());
  }
  return fmt::format("{}/{}{}", settings_.folder, files_++, kExtension);
}

std::shared_ptr<const NodeStore::File> NodeStore::write_file(std::span<const float> values) {
  const auto file = std::make_shared<const File>(new_path(), values.size(), sum_of(values));
  errno = 0;
  std::ofstream out(file->path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
  out.close();
  if (!out) cannot_write(file->path, errno != 0 ? errno : EIO);
  return file;
}

std::vector<float> NodeStore::get(Index node, const std::string& name) const {
  std::shared_ptr<const File> file;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key_of(node, name));
    if (found == entries_.end()) return {};
    if (!found->second.file) return found->second.values;
    file = found->second.file;
  }
  return read_floats(file->path, file->count, file->sum);
}

void NodeStore::put(Index node, const std::string& name, std::vector<float> values) {
  const std::string key = key_of(node, name);
  const std::uint64_t bytes = values.size() * sizeof(float);
  std::uint64_t before = 0;
  Entry entry;  // the new one, then the old one, which goes when nobody waits for it
  std::unique_lock lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end())
    before = found->second.values.size() * sizeof(float);
  if (in_memory_ - before + bytes > settings_.memory_limit) {
    lock.unlock();
    entry.file = write_file(values);
    lock.lock();
  } else {
    in_memory_ += bytes;
    entry.values = std::move(values);
  }
  in_memory_ -= before;
  if (bytes > 0) {
    std::swap(entries_[key], entry);
  } else if (const auto node_handle = entries_.extract(key)) {
    entry = std::move(node_handle.mapped());
  }
  lock.unlock();
}

void NodeStore::save(const std::string& folder) const {
  const std::lock_guard lock(mutex_);
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> counts;  // in the order of entries_
  for (const auto& [key, entry] : entries_) {
    if (!entry.file) {
      tensors.push_back({key, {std::ssize(entry.values)}, entry.values});
      continue;
    }
    const std::string path = fmt::format("{}/{}{}", folder, counts.size(), kExtension);
    link_or_copy(entry.file->path, path);
    counts[key] = fmt::format("{} {}", entry.file->count, entry.file->sum);
  }
  if (!counts.empty()) sync_all(folder);
  write_safetensors(folder + "/" + kSaved, tensors, counts);
}

void NodeStore::load(const std::string& folder) {
  const SafetensorsFile saved(folder + "/" + kSaved);
  saved.require_sum();
  std::map<std::string, Entry> entries;
  std::uint64_t in_memory = 0;
  for (const NamedTensor& tensor : saved.tensors()) {
    check_key(saved.path(), tensor.name);
    Entry& entry = entries[tensor.name];
    if (in_memory + tensor.values.size_bytes() > settings_.memory_limit) {
      entry.file = write_file(tensor.values);
    } else {
      in_memory += tensor.values.size_bytes();
      entry.values.assign(tensor.values.begin(), tensor.values.end());
    }
  }
  std::size_t number = 0;
  for (const auto& [key, text] : saved.metadata()) {
    check_key(saved.path(), key);
    std::uint64_t count = 0;
    const std::size_t space = text.find(' ');
    if (space == text.npos || !parse_count(std::string_view(text).substr(0, space), count))
      refuse(saved.path(),
             fmt::format("{} has {}, expected a number of values and a sum", excerpt(key), excerpt(text)));
    const std::string sum = text.substr(space + 1);
    if (entries.contains(key)) refuse(saved.path(), fmt::format("names {} twice", excerpt(key)));
    const std::string path = fmt::format("{}/{}{}", folder, number++, kExtension);
    std::error_code error;
    if (!fs::is_regular_file(fs::symlink_status(path, error))) refuse(path, "is missing or no file; copy it again");
    read_floats(path, count, sum);
    auto file = std::make_shared<const File>(new_path(), count, sum);
    link_or_copy(path, file->path);
    entries[key].file = std::move(file);
  }
  const std::lock_guard lock(mutex_);
  entries_.swap(entries);
  in_memory_ = in_memory;
}

}  // namespace labelshift
