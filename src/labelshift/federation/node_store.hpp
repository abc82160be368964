#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "labelshift/core/matrix_view.hpp"

namespace labelshift {

struct NodeStoreSettings {
  std::string folder;                          // the store's own, for what does not fit; it is made when needed
  std::uint64_t memory_limit = 2'000'000'000;  // bytes; what goes beyond is kept on disk
};

/// What nodes remember between rounds (control variates, batch norms, ratios), by node and name. Several threads may
/// use it at once for different nodes. On disk every entry is a file of its own that is written whole, never changed,
/// and replaced by another; the store leaves no file behind, and removes those of a store that was killed.
class NodeStore {
 public:
  explicit NodeStore(NodeStoreSettings settings);
  ~NodeStore();

  /// Empty if there is nothing of this name. Throws Error{kInput} if it was on disk and is not what was written.
  std::vector<float> get(Index node, const std::string& name) const;
  /// What is there of this name is replaced; by nothing, if there are no values.
  void put(Index node, const std::string& name, std::vector<float> values);

  /// Writes everything into `folder`, which is there and empty: what is in memory as one safetensors file, files as
  /// hard links, or as copies where there are no links. It is all on the disk when this returns. Nobody may put()
  /// meanwhile.
  void save(const std::string& folder) const;
  /// Takes up what save() wrote, in place of all there is; `folder` is not needed afterwards. Throws Error{kInput} if
  /// something is damaged, and then everything stays as it was.
  void load(const std::string& folder);

 private:
  struct File;
  struct Entry {
    std::vector<float> values;         // in memory, or
    std::shared_ptr<const File> file;  // on disk
  };
  std::string new_path();
  std::shared_ptr<const File> write_file(std::span<const float> values);

  const NodeStoreSettings settings_;
  mutable std::mutex mutex_;              // for all below; never held while a file of a single entry is read or written
  std::map<std::string, Entry> entries_;  // by NODE/NAME
  std::uint64_t in_memory_ = 0;           // bytes
  std::uint64_t files_ = 0;               // made so far; numbers their names
};

}  // namespace labelshift
