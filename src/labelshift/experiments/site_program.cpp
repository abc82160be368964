#include "labelshift/experiments/site_program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/calibration/calibration_objective.hpp"
#include "labelshift/core/calibration/pooled_calibration.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/engine/tasks.hpp"
#include "labelshift/experiments/site_settings.hpp"
#include "labelshift/federation/algorithms.hpp"
#include "labelshift/federation/model_schema.hpp"
#include "labelshift/federation/node_program.hpp"
#include "labelshift/learning/checkpoint.hpp"

namespace labelshift {
namespace {

constexpr const char* kSettingsEntry = "settings";
constexpr const char* kDataEntry = "data";

/// A run is called by a digest, which is the name of its folder.
void check_run_name(const std::string& run) {
  const bool digest = run.size() == sha256_of("").size() && run.find_first_not_of("0123456789abcdef") == run.npos;
  if (!digest)
    throw Error(ErrorKind::kPeer, fmt::format("the coordinator calls its run {}, expected 64 hexadecimal digits; does "
                                              "it run this version?",
                                              excerpt(run)));
}

struct SettingsDigest {
  std::string sha256;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.sha256);
  }
};

/// Whose data what is remembered was made of. It stays at the site.
struct DataDigest {
  std::string node;
  std::string sha256;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit& visit) {
    visit(self.node, self.sha256);
  }
};

/// Throws if the site has heard of this run with other settings.
void check_same_settings(const std::string& memory, const std::string& settings) {
  FolderMemory remembered(memory);
  const SettingsDigest now{sha256_of(settings)};
  const auto before = recall<SettingsDigest>(remembered, kSettingsEntry);
  if (before && before->sha256 != now.sha256)
    throw Error(ErrorKind::kPeer,
                "the handshake failed: the settings of this run are not those that this node remembers of it; give the "
                "node another folder for its memory");
  if (!before) remember(remembered, kSettingsEntry, now);
}

bool has_too_few(const SiteNode& node, Index classes, Index least) {
  const std::vector<Index> counts = class_counts(node.data.train->labels, node.data.train_rows, classes);
  return std::any_of(counts.begin(), counts.end(), [&](Index count) { return count < least; });
}

/// The most bytes of a request: the weights of a net and, for what comes with them, the largest fields of all tasks of
/// engine/tasks.hpp together, as if one had them all.
std::uint64_t most_request_bytes(const RunSettings& run, const ExampleShape& shape) {
  constexpr std::uint64_t kSlack = std::uint64_t{1} << 20;  // names of classes, and all that is short
  const FederationSettings& settings = run.federation;
  const Index m = std::ssize(run.data.classes);
  const auto net_of = [&](const NetChoice& choice) {
    return make_net({.name = choice.name, .settings = choice.settings, .shape = shape, .classes = m}, /*seed=*/0);
  };
  const auto model = net_of(settings.model);
  const auto algorithm = make_algorithm({settings, *model, run.data.nodes});
  Index weights = algorithm->request_parts().size();
  if (settings.ratio.estimated())
    weights = std::max(weights, SharedWeights(*net_of(settings.ratio.net), /*batch_norms=*/true).size());
  const Index p = CalibrationParameters(pooled_kind(m), m).size();
  const Index fits = std::ssize(pooled_path()) * (kPooledFolds + 1);
  const Index numbers = 10 * m + 3 * m * m + p * p                      // TargetTogether, Evaluate, Mixture
                        + m * (kPooledFolds + 1) + fits * (p + 1)       // Calibrate
                        + shape.channels * shape.height * shape.width;  // Agree
  return kSlack + model_schema(*model, *algorithm).size() + static_cast<std::uint64_t>(weights) * sizeof(float) +
         static_cast<std::uint64_t>(numbers) * sizeof(double);
}

/// What all programs of a run share.
struct SiteRun {
  std::string name;
  RunSettings settings;
  SiteNode node;
  NodeData without_tests;  // of the same
  bool withholds = false;
  bool details = false;
  std::string memory;  // its folder
  DataDigest digest;
};

class SiteProgram : public NodeProgram {
 public:
  explicit SiteProgram(std::shared_ptr<const SiteRun> run) : run_(std::move(run)) {
    program_ = make_node_programs(run_->settings.federation, lookup(run_->node.data))();
    if (run_->withholds) withholding_ = make_node_programs(run_->settings.federation, lookup(run_->without_tests))();
  }

  Answer run(const NodeCall& call) override {
    const auto task = static_cast<TaskKind>(call.request.task);
    if (call.to.node < 0 || call.to.node >= run_->settings.data.nodes)
      throw Error(ErrorKind::kPeer,
                  fmt::format("it was asked as node {} of {}", call.to.node + 1, run_->settings.data.nodes));
    if (task == TaskKind::kHello) check_hello(from_bytes<Hello::Request>(call.request.body));
    check_data(/*begins=*/task == TaskKind::kHello && call.to.counted == 0);
    Answer answer = (withholding_ && tells_the_mix(task) ? *withholding_ : *program_).run(call);
    if (task == TaskKind::kJoin) {
      auto report = from_bytes<Join::Report>(answer.report);
      report.withholds = run_->withholds;
      if (!run_->details) report.details.reset();
      answer.report = to_bytes(report);
    }
    if (is_estimate(task) && !run_->details) {
      auto report = from_bytes<EstimateReport>(answer.report);
      report.details.reset();
      answer.report = to_bytes(report);
    }
    if (task == TaskKind::kAgree && !run_->details) answer.report = to_bytes(Agree::Report{});
    if (task == TaskKind::kEvaluate && !run_->details) {
      auto report = from_bytes<Evaluate::Report>(answer.report);
      if (report.adapted) report.adapted->by_majority.reset();
      answer.report = to_bytes(report);
    }
    if (task == TaskKind::kRatio && !run_->details) answer.report = to_bytes(Ratio::Report{});
    return answer;
  }

 private:
  NodeLookup lookup(const NodeData& data) const {
    return [&data, memory = run_->memory](Index) { return NodeHome{data, std::make_unique<FolderMemory>(memory)}; };
  }

  /// What is remembered is of these data, or is forgotten where the run `begins`.
  void check_data(bool begins) {
    if (checked_ && !begins) return;
    FolderMemory memory(run_->memory);
    const auto before = recall<DataDigest>(memory, kDataEntry);
    if (before && before->node != run_->digest.node)
      throw Error(ErrorKind::kPeer,
                  fmt::format("its memory is that of {}; give every node the memory that is its own", before->node));
    if (!begins && before && before->sha256 != run_->digest.sha256)
      throw Error(ErrorKind::kPeer,
                  "its data are not those that it began this run with; give it these again, or begin the run again in "
                  "another folder");
    if (begins && (!before || before->sha256 != run_->digest.sha256)) {
      for (const std::string& name : memory.names(""))
        if (name != kSettingsEntry) memory.erase(name);
      remember(memory, kDataEntry, run_->digest);
    }
    checked_ = true;
  }

  static bool is_estimate(TaskKind task) {
    return task == TaskKind::kTarget || task == TaskKind::kAssess || task == TaskKind::kTargetTogether ||
           task == TaskKind::kSharedTarget;
  }
  static bool tells_the_mix(TaskKind task) {
    return task == TaskKind::kJoin || task == TaskKind::kSharedMix || is_estimate(task);
  }

  void check_hello(const Hello::Request& hello) const {
    if (hello.run != run_->name)
      throw Error(ErrorKind::kPeer, fmt::format("the handshake failed: this is the run {}, and {} was announced",
                                                excerpt(hello.run), run_->name));
    // The digest is of all that the coordinator was told, with paths of its own that no node sees, so it cannot be
    // computed from the settings that were announced. A run is called by it (experiments/federation_run.cpp), which is
    // what a node can check; that the announced settings stay what they were is check_same_settings().
    if (hello.settings != run_->name)
      throw Error(ErrorKind::kPeer,
                  fmt::format("the handshake failed: the coordinator goes on with the settings {}, and {} were "
                              "announced; look whether it was started with another experiment",
                              excerpt(hello.settings), run_->name));
    if (hello.nodes != run_->settings.data.nodes)
      throw Error(ErrorKind::kPeer, fmt::format("the handshake failed: there are {} nodes, and {} were announced",
                                                hello.nodes, run_->settings.data.nodes));
  }

  const std::shared_ptr<const SiteRun> run_;  // first: programs refer to it
  std::unique_ptr<NodeProgram> program_, withholding_;
  bool checked_ = false;  // that the memory is of these data
};

}  // namespace

SitePrograms make_site_programs(const std::string& run, const std::string& settings, const SiteDataSource& data,
                                const SiteTerms& terms) {
  check_run_name(run);
  auto made = std::make_shared<SiteRun>();
  made->name = run;
  made->settings = read_site_settings(settings, terms.model);
  made->node = data(run, made->settings);
  made->memory = fmt::format("{}/{}", terms.memory, run);
  check_same_settings(made->memory, settings);
  made->details = terms.details;
  const NodeData& own = made->node.data;
  made->digest = {terms.name, fingerprint(std::vector{fingerprint(*own.train, own.train_rows),
                                                      fingerprint(*own.test, own.test_rows)})};
  made->without_tests = made->node.data;
  made->without_tests.test_rows.clear();
  made->withholds = has_too_few(made->node, std::ssize(made->settings.data.classes), terms.min_examples);
  const Index nodes = made->settings.data.nodes;
  const std::uint64_t most = most_request_bytes(made->settings, made->node.data.train->shape);
  return {.make = [shared = std::shared_ptr<const SiteRun>(
                       std::move(made))] { return std::make_unique<SiteProgram>(shared); },
          .most_request_bytes = most,
          .nodes = nodes};
}

}  // namespace labelshift
