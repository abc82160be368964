#pragma once

#include <memory>
#include <string>
#include <vector>

#include "labelshift/data/files/child_process.hpp"
#include "labelshift/engine/grpc/grpc_engine.hpp"
#include "labelshift/experiments/experiment.hpp"
#include "labelshift/experiments/run_nodes.hpp"

namespace labelshift::cli {

/// A federation between sites on this machine alone, to try it out: this process coordinates, and every node is another
/// process of this program, with a certificate that is thrown away and the data of its node. All end when this object
/// goes, and when this process ends in any other way.
class LocalSites {
 public:
  /// `memory` is where nodes keep what they remember, so that a run can be resumed. Throws Error{kUsage} if the rows of
  /// the experiment do not have the same number of nodes.
  LocalSites(const Experiment& experiment, std::string memory);
  LocalSites(const LocalSites&) = delete;
  LocalSites& operator=(const LocalSites&) = delete;
  ~LocalSites();

  std::unique_ptr<RunNodes> open(const RunTask& task);

  /// All runs are done: what nodes remember is not needed any more.
  void forget();

 private:
  /// A folder that is gone with this object, or if its process is killed when the next one is made.
  struct Scratch {
    Scratch();
    Scratch(const Scratch&) = delete;
    ~Scratch();
    std::string path;
    int lock = -1;
  };
  std::string certificates() const { return scratch_.path + "/certs"; }
  void remove_keys();
  void check_alive();

  const std::string memory_;
  Scratch scratch_;
  std::unique_ptr<GrpcEngine> engine_;
  bool keys_removed_ = false;
  std::vector<std::unique_ptr<BackgroundProgram>> nodes_;
};

}  // namespace labelshift::cli
