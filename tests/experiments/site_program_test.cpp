#include "labelshift/experiments/site_program.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "labelshift/engine/in_process/in_process_engine.hpp"
#include "labelshift/experiments/site_settings.hpp"
#include "labelshift/federation/federation.hpp"
#include "labelshift/federation/node_program.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

const std::string kRun(64, 'a');

/// Sites with tables of their own; site k has more of class k.
class SiteProgram : public Scratch {
 protected:
  SiteProgram() {
    settings_.data = {.nodes = 3, .classes = {"a", "b", "c"}, .columns = {"x", "y"}};
    settings_.federation.model = {"logistic", {}};
    settings_.federation.ratio.net = {"logistic", {}};
    settings_.federation.ratio.epochs = 2;
    settings_.federation.algorithm = "iw-erm";
    settings_.federation.ratio.method = "mlls";
    settings_.federation.rounds = 4;
    settings_.federation.evaluate_every = 2;
    for (int k = 0; k < 3; ++k) {
      const std::string folder = "site-" + std::to_string(k);
      std::filesystem::create_directory(path(folder));
      for (const char* part : {"train", "test"}) {
        std::string table = "x,y,label\n";
        for (int i = 0; i < 30; ++i) {
          const int c = i < 20 ? i % 3 : k;
          table += fmt::format("{},{},{}\n", c + 0.1 * (i % 7), 2 - c + 0.1 * (i % 5), "abc"[c]);
        }
        file(folder + "/" + part + ".csv", table);
      }
    }
  }

  SitePrograms programs_of(int k, const std::string& run = kRun, Index min_examples = 0) const {
    return make_site_programs(
        run, site_settings_text(settings_, described_data(settings_.data)),
        [folder = path("site-" + std::to_string(k))](const std::string&, const RunSettings& said) {
          return SiteData(folder, {}).in_terms_of(said.data);
        },
        {.name = "site-" + std::to_string(k),
         .memory = path("memory-" + std::to_string(k)),
         .min_examples = min_examples});
  }
  NodeProgramFactory site(int k, const std::string& run = kRun, Index min_examples = 0) const {
    return programs_of(k, run, min_examples).make;
  }

  /// Hands each node to the program of its own site.
  class AllSites : public NodeProgram {
   public:
    explicit AllSites(std::vector<std::unique_ptr<NodeProgram>> sites) : sites_(std::move(sites)) {}
    Answer run(const NodeCall& call) override {
      longest = std::max(longest, encoded_size(call.to) + encoded_size(call.request));
      return sites_[static_cast<std::size_t>(call.to.node)]->run(call);
    }
    inline static std::uint64_t longest = 0;  // request

   private:
    std::vector<std::unique_ptr<NodeProgram>> sites_;
  };

  FederationState run_sites(Index min_examples_of_last = 0, const std::string& hello = kRun,
                            const std::string& digest = kRun, FederationState start = {}) {
    start.settings = digest;
    const std::vector<NodeProgramFactory> factories{site(0), site(1), site(2, kRun, min_examples_of_last)};
    const auto engine = make_in_process_engine(3,
                                               [&] {
                                                 std::vector<std::unique_ptr<NodeProgram>> programs;
                                                 for (const NodeProgramFactory& factory : factories)
                                                   programs.push_back(factory());
                                                 return std::make_unique<AllSites>(std::move(programs));
                                               },
                                               {.workers = 1});
    return run_federation(settings_.federation,
                          {.shape = {1, 1, 2}, .class_names = settings_.data.classes, .run = hello}, *engine,
                          {.checkpoint =
                               [&](const FederationMoment& moment) {
                                 if (moment.round == 2) halfway_ = moment.state();
                                 return true;
                               }},
                          std::move(start));
  }
  FederationState run_sites_from(FederationState start) { return run_sites(0, kRun, kRun, std::move(start)); }
  void forget() const {
    for (const char* memory : {"memory-0", "memory-1", "memory-2"}) std::filesystem::remove_all(path(memory));
  }

  RunSettings settings_;
  FederationState halfway_;
};

TEST_F(SiteProgram, EstimatesAnewWhereItsDataAreOthersThanThoseItRemembers) {
  const FederationState kept{.settings = kRun, .estimates_kept = true};
  const FederationState october = run_sites();
  EXPECT_EQ(run_sites_from(kept).target_sum, october.target_sum);
  file("site-0/test.csv", "x,y\n0.1,2.1\n0.2,2.2\n0,1.9\n");
  const FederationState november = run_sites_from(kept);
  EXPECT_NE(november.target_sum, october.target_sum);
  forget();
  EXPECT_EQ(run_sites_from(kept).target_sum, november.target_sum);
}

TEST_F(SiteProgram, GoesOnWithItsOwnDataAndItsOwnMemoryAlone) {
  run_sites();
  ASSERT_EQ(halfway_.round, 2);
  EXPECT_EQ(run_sites_from(halfway_).round, 4);
  const std::string change = bytes_of(path("site-1/train.csv"));
  file("site-1/train.csv", change + "0.1,2,a\n");
  expect_error(ErrorKind::kPeer,
               "node 2: its data are not those that it began this run with; give it these again, or begin the run "
               "again in another folder",
               [&] { run_sites_from(halfway_); });
  file("site-1/train.csv", change);
  EXPECT_EQ(run_sites_from(halfway_).round, 4);
  std::filesystem::rename(path("memory-0"), path("other"));
  std::filesystem::rename(path("memory-2"), path("memory-0"));
  std::filesystem::rename(path("other"), path("memory-2"));
  expect_error(ErrorKind::kPeer, "node 1: its memory is that of site-2; give every node the memory that is its own",
               [&] { run_sites_from(halfway_); });
}

TEST_F(SiteProgram, GivesTheBitsOfNodesInOneProcess) {
  DataSettings folders;
  for (int k = 0; k < 3; ++k) {
    const std::string folder = path("site-" + std::to_string(k));
    folders.folders.push_back({folder + "/train.csv", folder + "/test.csv"});
  }
  const FederatedData data = make_federated_data(folders, 0);
  NodeStore store({.folder = path("store")});
  const auto engine = make_in_process_engine(3, make_node_programs(settings_.federation, data, store), {.workers = 1});
  const FederationState expected = run_federation(
      settings_.federation, {.shape = data.shape, .class_names = data.class_names, .run = kRun}, *engine);
  const FederationState found = run_sites();
  EXPECT_EQ(found.parameters, expected.parameters);
  EXPECT_EQ(found.target_sum, expected.target_sum);
  EXPECT_EQ(found.warnings, expected.warnings);
}

TEST_F(SiteProgram, DoesNotSayWhatItEstimated) {
  for (const PredictorScope scope : {PredictorScope::kLocal, PredictorScope::kFederated}) {
    settings_.federation.ratio.predictor = scope;
    settings_.federation.ratio.rounds = 2;
    for (const char* memory : {"memory-0", "memory-1", "memory-2"}) std::filesystem::remove_all(path(memory));
    const FederationState state = run_sites();
    EXPECT_FALSE(std::isnan(state.history.back().adapted));
    EXPECT_TRUE(std::isnan(state.history.back().majority));  // which is the share of a class
    for (const NodeRatio& node : state.ratios) {
      EXPECT_FALSE(std::isnan(node.prior_error));  // the error alone, since its test data have labels
      for (const Eigen::VectorXd* shares : {&node.estimate, &node.low, &node.high, &node.truth})
        EXPECT_EQ(shares->size(), 0);
      EXPECT_TRUE(std::isnan(node.p_value));
    }
  }
}

TEST_F(SiteProgram, KeepsItsLabelMixToItselfWithFewExamplesOfAClass) {
  const FederationState all = run_sites(7);  // the rarest class of the last site has 7
  EXPECT_NEAR(all.target_sum.sum(), 3.0, 1e-9);
  std::filesystem::remove_all(path("memory-0"));
  std::filesystem::remove_all(path("memory-1"));
  std::filesystem::remove_all(path("memory-2"));
  const FederationState fewer = run_sites(8);
  EXPECT_NEAR(fewer.target_sum.sum(), 2.0, 1e-9);
  EXPECT_THAT(fewer.warnings,
              testing::Contains("node 3 keeps its label mix to itself, having few examples of some class: it is left "
                                "out of phase 1 and counts in training alone"));
  EXPECT_FALSE(std::isnan(fewer.history.back().accuracy));  // it is judged all the same
}

TEST_F(SiteProgram, RefusesWhatWasNotAnnounced) {
  expect_error(ErrorKind::kPeer,
               "node 1: the handshake failed: this is the run \"bbbb\", and " + kRun + " was announced",
               [&] { run_sites(0, "bbbb"); });
  expect_error(ErrorKind::kPeer,
               "node 1: the handshake failed: the coordinator goes on with the settings \"cccc\", and " + kRun +
                   " were announced; look whether it was started with another experiment",
               [&] { run_sites(0, kRun, "cccc"); });
  expect_error(ErrorKind::kPeer,
               "the coordinator calls its run \"../../etc\", expected 64 hexadecimal digits; does it run this version?",
               [&] { site(0, "../../etc"); });
  site(0);
  settings_.federation.rounds = 5;
  expect_error(ErrorKind::kPeer,
               "the handshake failed: the settings of this run are not those that this node remembers of it; give the "
               "node another folder for its memory",
               [&] { site(0); });
  site(0, std::string(64, 'b'));  // another run
}

TEST_F(SiteProgram, KnowsHowLongARequestCanBe) {
  settings_.federation.algorithm = "scaffold";
  settings_.federation.local.steps = 2;
  for (const PredictorScope scope : {PredictorScope::kLocal, PredictorScope::kFederated})
    for (const char* net : {"logistic", "mlp"}) {
      settings_.federation.ratio.predictor = scope;
      settings_.federation.ratio.net.name = net;
      settings_.federation.ratio.rounds = 2;
      for (const char* memory : {"memory-0", "memory-1", "memory-2"}) std::filesystem::remove_all(path(memory));
      AllSites::longest = 0;
      const std::uint64_t most = programs_of(0).most_request_bytes;
      run_sites();
      constexpr std::uint64_t kSlack = 1 << 20;
      EXPECT_LE(AllSites::longest, most - kSlack) << net;
      EXPECT_LE(most, 2 * kSlack + 4 * AllSites::longest) << net;
    }
}

TEST_F(SiteProgram, IsNotHarmedByWeightsThatTheCoordinatorSends) {
  const FederationState done = run_sites();
  const std::unique_ptr<NodeProgram> program = site(0)();
  const std::atomic<bool> cancelled = false;
  Request request{.task = static_cast<std::uint32_t>(TaskKind::kTrain), .round = 5, .body = to_bytes(Train::Request{})};
  const Addressee to{.node = 0, .counted = 4};
  std::uint64_t serial = std::uint64_t{1} << 40;
  const auto answer = [&](std::vector<float> weights) {
    request.weights = std::move(weights);
    return program->run({to, request, ++serial, cancelled});
  };
  const std::size_t p = done.parameters.size();
  const Answer expected = answer(done.parameters);
  for (const float huge : {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(), -INFINITY,
                           std::nanf("")}) {  // an engine refuses the last two before
    try {
      EXPECT_EQ(answer(std::vector<float>(p, huge)).weights.size(), p);
    } catch (const Error&) {
      // The node may also say that it cannot train with these.
    }
  }
  expect_error(ErrorKind::kPeer, fmt::format("a message has {} weights, expected {}", p + 1, p),
               [&] { answer(std::vector<float>(p + 1)); });
  EXPECT_EQ(answer(done.parameters).weights, expected.weights);  // to the bit
}

TEST_F(SiteProgram, RefusesAnotherNumberOfNodes) {
  settings_.data.nodes = 4;
  expect_error(ErrorKind::kPeer, "node 1: the handshake failed: there are 3 nodes, and 4 were announced",
               [&] { run_sites(); });
}

}  // namespace
}  // namespace labelshift
