#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "labelshift/engine/grpc/grpc_engine.hpp"
#include "labelshift/engine/grpc/grpc_node.hpp"
#include "tests/await.hpp"
#include "tests/engine/grpc/certificates.hpp"
#include "tests/engine/programs.hpp"

// A coordinator and nodes of a test.

namespace labelshift {

/// What was logged.
class Lines {
 public:
  GrpcLog log() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
  }
  int count(const std::string& part) const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(
        lines_.begin(), lines_.end(), [&](const std::string& line) { return line.find(part) != std::string::npos; }));
  }
  void await_line(const std::string& part) const {
    try {
      await([&] { return count(part) > 0; }, "a line was logged");
    } catch (const std::exception&) {
      throw std::runtime_error("nothing was logged with \"" + part + "\", but:\n" + all());
    }
  }
  std::string all() const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const std::string& line : lines_) text += line + '\n';
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Serves nodes on a thread, until it is destroyed or they end.
class ServedNodes {
 public:
  ServedNodes(GrpcNodeSettings settings, GrpcProgramMaker make) {
    settings.first_pause = std::chrono::milliseconds(20);
    settings.longest_pause = std::chrono::milliseconds(200);
    settings.log = lines.log();
    thread_ = std::jthread([this, settings = std::move(settings), make = std::move(make)] {
      try {
        end_ = serve_grpc(settings, make, [this] { return stop_.load(); });
      } catch (...) {
        failure_ = std::current_exception();
      }
      ended_ = true;
    });
  }
  ServedNodes(GrpcNodeSettings settings, const Work& work)
      : ServedNodes(std::move(settings), [work](const RunCard&) { return programs(work); }) {}
  ~ServedNodes() { stop_ = true; }

  /// Waits until they have ended; throws what ended them.
  GrpcEnd join() {
    await([this] { return ended_.load(); }, "nodes ended");
    if (failure_) std::rethrow_exception(failure_);
    return end_;
  }
  Lines lines;

 private:
  std::atomic<bool> stop_ = false, ended_ = false;
  GrpcEnd end_ = GrpcEnd::kStopped;
  std::exception_ptr failure_;
  std::jthread thread_;
};

/// "node-0", ...
inline std::vector<std::string> node_names(Index count) {
  std::vector<std::string> names;
  for (Index node = 0; node < count; ++node) names.push_back("node-" + std::to_string(node));
  return names;
}

inline std::vector<GrpcSeat> plain_seats(Index count) {
  std::vector<GrpcSeat> seats;
  for (const std::string& name : node_names(count)) seats.push_back({.name = name});
  return seats;
}

inline void expect_same(const CohortOutcome& found, const CohortOutcome& expected) {
  EXPECT_EQ(found.sums, expected.sums);
  EXPECT_EQ(found.traffic, expected.traffic);
  ASSERT_EQ(found.contributed.size(), expected.contributed.size());
  for (std::size_t i = 0; i < found.contributed.size(); ++i) {
    EXPECT_EQ(found.contributed[i].node, expected.contributed[i].node);
    EXPECT_EQ(found.contributed[i].report, expected.contributed[i].report);
  }
  ASSERT_EQ(found.failed.size(), expected.failed.size());
  for (std::size_t i = 0; i < found.failed.size(); ++i) {
    EXPECT_EQ(found.failed[i].node, expected.failed[i].node);
    EXPECT_EQ(found.failed[i].kind, expected.failed[i].kind);
    EXPECT_EQ(found.failed[i].sentence, expected.failed[i].sentence);
    EXPECT_EQ(found.failed[i].remedy, expected.failed[i].remedy);
  }
}

inline bool connected(const GrpcEngine& engine, Index node) {
  return engine.status().nodes[static_cast<std::size_t>(node)].connected;
}

}  // namespace labelshift
