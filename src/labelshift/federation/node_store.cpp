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

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/data/files/text_lines.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

// A saved store is this file: the length of an index, the index, the bytes of what was in memory one after another, the
// SHA-256 of all that. The files 0.bin, 1.bin, ... beside it belong to the entries on disk in their order, so that no
// path is ever read from a file.
constexpr const char* kSaved = "nodes.bin";
constexpr const char* kExtension = ".bin";
constexpr std::uint32_t kFormat = 2;  // 1 kept floats
constexpr std::size_t kSumDigits = 64;

struct SavedEntry {
  std::string key;
  std::uint64_t size = 0;
  std::string sum;  // of a file of its own; empty: among those in memory

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.key, self.size, self.sum);
  }
};

struct SavedIndex {
  std::uint32_t format = kFormat;
  std::vector<SavedEntry> entries;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.format, self.entries);
  }
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}", path, why));
}

[[noreturn]] void cannot_write(const std::string& path, int error) {
  throw Error(ErrorKind::kSystem,
              fmt::format("cannot write {}: {}; free some space or choose another place", path, errno_text(error)));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// The bytes of a file that has this many of them and this sum.
Bytes read_bytes(const std::string& path, std::uint64_t size, const std::string& sum) {
  const std::string text = read_file(path);
  if (text.size() != size) refuse(path, fmt::format("found {} bytes, expected {}; copy it again", text.size(), size));
  if (sha256_of(text) != sum)
    refuse(path, "its bytes are not those it was written with, by its SHA-256; copy it again");
  return bytes_of(text);
}

void check_key(const std::string& path, const std::string& key) {
  const std::size_t slash = key.find('/');
  std::uint64_t node = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + std::min(slash, key.size()), node);
  if (slash == std::string::npos || slash + 1 == key.size() || error != std::errc() || end != key.data() + slash ||
      key.substr(0, slash) != fmt::to_string(node))
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
  File(std::string path_, std::uint64_t size_, std::string sum_)
      : path(std::move(path_)), size(size_), sum(std::move(sum_)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::unlink(path.c_str()); }

  const std::string path;
  const std::uint64_t size;
  const std::string sum;  // SHA-256
};

class NodeStore::Memory : public NodeMemory {
 public:
  Memory(NodeStore& store, Index node) : store_(store), prefix_(fmt::format("{}/", node)) {}
  std::optional<Bytes> get(const std::string& name) const override { return store_.get(prefix_ + name); }
  void put(const std::string& name, Bytes bytes) override { store_.put(prefix_ + name, std::move(bytes)); }
  void erase(const std::string& name) override { store_.erase(prefix_ + name); }
  std::vector<std::string> names(const std::string& prefix) const override {
    return store_.names(prefix_ + prefix, prefix_.size());
  }

 private:
  NodeStore& store_;
  const std::string prefix_;
};

NodeStore::NodeStore(NodeStoreSettings settings) : settings_(std::move(settings)) {}

NodeStore::~NodeStore() {
  entries_.clear();
  std::error_code ignored;
  if (files_ > 0) fs::remove(settings_.folder, ignored);  // if nothing else is in it
}

std::unique_ptr<NodeMemory> NodeStore::of(Index node) {
  return std::make_unique<Memory>(*this, node);
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

std::shared_ptr<const NodeStore::File> NodeStore::write_new_file(std::span<const std::byte> bytes) {
  const auto file = std::make_shared<const File>(new_path(), bytes.size(), sha256_of(text_of(bytes)));
  errno = 0;
  std::ofstream out(file->path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) cannot_write(file->path, errno != 0 ? errno : EIO);
  return file;
}

std::optional<Bytes> NodeStore::get(const std::string& key) const {
  std::shared_ptr<const File> file;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    if (!found->second.file) return found->second.bytes;
    file = found->second.file;
  }
  return read_bytes(file->path, file->size, file->sum);
}

void NodeStore::put(const std::string& key, Bytes bytes) {
  const std::uint64_t size = bytes.size();
  std::uint64_t before = 0;
  Entry entry;  // the new one, then the old one, which goes when nobody waits for it
  std::unique_lock lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) before = found->second.bytes.size();
  if (in_memory_ - before + size > settings_.memory_limit) {
    lock.unlock();
    entry.file = write_new_file(bytes);
    lock.lock();
  } else {
    in_memory_ += size;
    entry.bytes = std::move(bytes);
  }
  in_memory_ -= before;
  std::swap(entries_[key], entry);
  lock.unlock();
}

void NodeStore::erase(const std::string& key) {
  std::unique_lock lock(mutex_);
  const auto gone = entries_.extract(key);  // its file goes when nobody waits for it
  if (gone) in_memory_ -= gone.mapped().bytes.size();
  lock.unlock();
}

std::vector<std::string> NodeStore::names(const std::string& prefix, std::size_t cut) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (auto at = entries_.lower_bound(prefix); at != entries_.end() && at->first.starts_with(prefix); ++at)
    found.push_back(at->first.substr(cut));
  return found;
}

void NodeStore::save(const std::string& folder) const {
  const std::lock_guard lock(mutex_);
  SavedIndex index;
  std::size_t files = 0;
  for (const auto& [key, entry] : entries_) {
    if (!entry.file) {
      index.entries.push_back({key, entry.bytes.size(), ""});
      continue;
    }
    link_or_copy(entry.file->path, fmt::format("{}/{}{}", folder, files++, kExtension));
    index.entries.push_back({key, entry.file->size, entry.file->sum});
  }
  if (files > 0) sync_all(folder);
  OutputFile out(folder + "/" + kSaved);
  Sha256 sum;
  const auto write = [&](std::span<const std::byte> bytes) {
    sum.add(bytes.data(), bytes.size());
    out.write(text_of(bytes));
  };
  const Bytes head = to_bytes(index);
  const std::uint64_t length = head.size();
  write(std::as_bytes(std::span(&length, 1)));
  write(head);
  for (const auto& [key, entry] : entries_) write(entry.bytes);
  out.write(sum.digits());
  out.commit();
}

void NodeStore::load(const std::string& folder) {
  const std::string path = folder + "/" + kSaved;
  const std::string text = read_file(path);
  std::string_view rest = text;
  std::uint64_t length = 0;
  if (rest.size() < sizeof length + kSumDigits) refuse(path, "it is cut short; copy it again");
  const std::string_view sum = rest.substr(rest.size() - kSumDigits);
  rest.remove_suffix(kSumDigits);
  if (sha256_of(rest) != sum)
    refuse(path, "its bytes are not those it was written with, by its SHA-256; copy it again");
  std::memcpy(&length, rest.data(), sizeof length);
  rest.remove_prefix(sizeof length);
  if (length > rest.size()) refuse(path, "its index is cut short; copy it again");
  SavedIndex index;
  try {
    index = from_bytes<SavedIndex>(std::as_bytes(std::span(rest.substr(0, length))));
  } catch (const Error& error) {
    refuse(path, fmt::format("its index is damaged: {}", error.what()));
  }
  if (index.format != kFormat)
    refuse(path, fmt::format("it has format {}, expected {}; another version wrote it", index.format, kFormat));
  rest.remove_prefix(length);
  std::map<std::string, Entry> entries;
  std::uint64_t in_memory = 0;
  std::size_t number = 0;
  for (const SavedEntry& saved : index.entries) {
    check_key(path, saved.key);
    if (entries.contains(saved.key)) refuse(path, fmt::format("it names {} twice", excerpt(saved.key)));
    Entry& entry = entries[saved.key];
    if (!saved.sum.empty()) {
      const std::string from = fmt::format("{}/{}{}", folder, number++, kExtension);
      std::error_code error;
      if (!fs::is_regular_file(fs::symlink_status(from, error))) refuse(from, "is missing or no file; copy it again");
      read_bytes(from, saved.size, saved.sum);
      auto file = std::make_shared<const File>(new_path(), saved.size, saved.sum);
      link_or_copy(from, file->path);
      entry.file = std::move(file);
      continue;
    }
    if (saved.size > rest.size()) refuse(path, fmt::format("{} is cut short; copy it again", excerpt(saved.key)));
    const auto bytes = std::as_bytes(std::span(rest.substr(0, saved.size)));
    rest.remove_prefix(saved.size);
    if (in_memory + saved.size > settings_.memory_limit) {
      entry.file = write_new_file(bytes);
    } else {
      in_memory += saved.size;
      entry.bytes.assign(bytes.begin(), bytes.end());
    }
  }
  if (!rest.empty()) refuse(path, fmt::format("it has {} bytes after its end; copy it again", rest.size()));
  const std::lock_guard lock(mutex_);
  entries_.swap(entries);
  in_memory_ = in_memory;
}

}  // namespace labelshift
