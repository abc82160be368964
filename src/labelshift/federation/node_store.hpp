#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "labelshift/federation/node_memory.hpp"

namespace labelshift {

struct NodeStoreSettings {
  std::string folder;                          // the store's own, for what does not fit; it is made when needed
  std::uint64_t memory_limit = 2'000'000'000;  // bytes; what goes beyond is kept on disk
};

/// The memories of all nodes that live in one process. Several threads may use it at once for different nodes. It is as
/// safe as the process is; save() makes it safer. On disk every entry is a file of its own that is written whole, never
/// changed, and replaced by another; the store leaves no file behind, and removes those of a store that was killed.
class NodeStore {
 public:
  explicit NodeStore(NodeStoreSettings settings);
  ~NodeStore();

  /// One node's part of the store, which must outlive it.
  std::unique_ptr<NodeMemory> of(Index node);

  /// Writes everything into `folder`, which is there and empty: what is in memory as one file, files as hard links, or
  /// as copies where there are no links. It is all on the disk when this returns. Nobody may put() meanwhile.
  void save(const std::string& folder) const;
  /// Takes up what save() wrote, in place of all there is; `folder` is not needed afterwards. Throws Error{kInput} if
  /// something is damaged, and then everything stays as it was.
  void load(const std::string& folder);

 private:
  class Memory;
  struct File;
  struct Entry {
    Bytes bytes;                       // in memory, or
    std::shared_ptr<const File> file;  // on disk
  };
  std::optional<Bytes> get(const std::string& key) const;
  void put(const std::string& key, Bytes bytes);
  void erase(const std::string& key);
  std::vector<std::string> names(const std::string& prefix, std::size_t cut) const;
  std::string new_path();
  std::shared_ptr<const File> write_new_file(std::span<const std::byte> bytes);

  const NodeStoreSettings settings_;
  mutable std::mutex mutex_;              // for all below; never held while a file of a single entry is read or written
  std::map<std::string, Entry> entries_;  // by NODE/NAME
  std::uint64_t in_memory_ = 0;           // bytes
  std::uint64_t files_ = 0;               // made so far; numbers their names
};

}  // namespace labelshift
