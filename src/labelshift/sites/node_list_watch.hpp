#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "labelshift/engine/grpc/grpc_engine.hpp"
#include "labelshift/experiments/node_list.hpp"

namespace labelshift {

/// Reads a list of nodes again when its file changes, and tells the engine: a name that is taken off or excluded is
/// locked out, and one that comes back is let in. A file that cannot be read, or leaves too few in, changes nothing,
/// which is logged.
class NodeListWatch {
 public:
  /// `names` are those that the engine knows.
  NodeListWatch(std::string path, GrpcEngine& engine, std::vector<std::string> names, GrpcLog log);

  /// Looks at the file, but not more often than twice a second. A list that leaves fewer nodes in than `fewest` waits
  /// until there may be as few.
  void look(std::size_t fewest = 1);

 private:
  struct Stamp {
    std::int64_t seconds = 0, nanoseconds = 0, size = 0;
    std::uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  Stamp stamp() const;
  bool apply(const std::vector<ListedNode>& list, std::size_t fewest);

  const std::string path_;
  GrpcEngine& engine_;
  const std::vector<std::string> names_;
  const GrpcLog log_;
  std::vector<bool> out_;              // of names_: locked out
  std::vector<std::string> too_late_;  // names that were added, and said to be too late
  std::chrono::steady_clock::time_point looked_;
  Stamp waits_;  // of a list that leaves too few in
  Stamp known_;  // none at first, lest a change be missed between the first reading and this
};

}  // namespace labelshift
