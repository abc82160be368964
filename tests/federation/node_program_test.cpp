#include "labelshift/federation/node_program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "labelshift/engine/tasks.hpp"
#include "tests/federation/gaussian_federation.hpp"

// What a node does with messages, whoever sends them.

namespace labelshift {
namespace {

using testing::HasSubstr;

class NodeProgramTest : public testing::Test {
 protected:
  explicit NodeProgramTest(FederationSettings settings = weighted_settings("true"))
      : settings_(std::move(settings)), program_(make_node_programs(settings_, [this](Index node) {
          return NodeHome{data_.nodes[static_cast<std::size_t>(node)], store_.of(node)};
        })()) {}

  Answer ask(TaskKind task, Bytes body, std::vector<float> weights = {}, Addressee to = {}) {
    const Request request{.task = static_cast<std::uint32_t>(task),
                          .round = round_,
                          .body = std::move(body),
                          .weights = std::move(weights)};
    return program_->run({to, request, ++serial_, cancelled_});
  }
  std::string refusal(TaskKind task, Bytes body, std::vector<float> weights = {}, Addressee to = {}) {
    try {
      ask(task, std::move(body), std::move(weights), to);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "expected an error";
    return "";
  }
  Hello::Request hello() const {
    return {.run = "run", .class_names = {"a", "b", "c"}, .channels = 1, .height = 1, .width = 2, .nodes = 2};
  }
  void shake_hands() {
    ask(TaskKind::kHello, to_bytes(hello()));
    ask(TaskKind::kAgree, to_bytes(agreement()));
  }
  /// Steps as the settings say.
  static Bytes as_set() { return to_bytes(Train::Request{}); }
  static Agree::Request agreement() {
    return {.mean = {0.0F, 0.0F},
            .scale = {1.0F, 1.0F},
            .schema = "fc.weight 3x2, fc.bias 3, asked for parameters 9, buffers 0, answering update 9, buffers 0"};
  }

  FederatedData data_ = gaussian_federation({{{20, 5, 5}, {5, 20, 5}}, {{5, 5, 20}, {10, 10, 10}}});
  FederationSettings settings_;
  NodeStore store_{{.folder = testing::TempDir() + "labelshift-nodes"}};
  std::unique_ptr<NodeProgram> program_;
  std::uint64_t serial_ = 0;
  std::uint64_t round_ = 1;
  std::atomic<bool> cancelled_{false};
};

TEST_F(NodeProgramTest, ShakesHandsOnlyWithACoordinatorThatMeansTheSame) {
  Hello::Request other = hello();
  other.protocol = kProtocolVersion + 1;
  EXPECT_THAT(refusal(TaskKind::kHello, to_bytes(other)), HasSubstr("speaks protocol"));
  other = hello();
  std::swap(other.class_names[0], other.class_names[1]);  // the worst bug a federation can have
  EXPECT_THAT(refusal(TaskKind::kHello, to_bytes(other)), HasSubstr("the classes are b, a, c, at this node a, b, c"));
  other = hello();
  other.width = 3;
  EXPECT_THAT(refusal(TaskKind::kHello, to_bytes(other)), HasSubstr("examples are 1 x 1 x 3, at this node 1 x 1 x 2"));
  EXPECT_THAT(refusal(TaskKind::kAgree, to_bytes(agreement())),
              HasSubstr("remembers nothing of the beginning of this run; give it the memory that it had then"));
  ask(TaskKind::kHello, to_bytes(hello()));
  ask(TaskKind::kHello, to_bytes(hello()));  // again, as after a broken connection
  other = hello();
  other.run = "another";
  EXPECT_THAT(refusal(TaskKind::kHello, to_bytes(other)), HasSubstr("remembers the run run, and this is another"));
  other = hello();
  other.settings = "changed";
  EXPECT_THAT(refusal(TaskKind::kHello, to_bytes(other)), HasSubstr("or its settings have changed"));
  EXPECT_THAT(refusal(TaskKind::kEvaluate, to_bytes(Evaluate::Request{}), std::vector<float>(9)),
              HasSubstr("nothing of the beginning of this run"));
  Agree::Request agree = agreement();
  agree.mean.push_back(0.0F);
  EXPECT_THAT(refusal(TaskKind::kAgree, to_bytes(agree)), HasSubstr("the normalisation has 3 means and 2 scales"));
  agree = agreement();
  agree.schema += "!";
  EXPECT_THAT(refusal(TaskKind::kAgree, to_bytes(agree)), HasSubstr("the model is fc.weight 3x2"));
  ask(TaskKind::kAgree, to_bytes(agreement()));
}

TEST_F(NodeProgramTest, RefusesMessagesThatMakeNoSense) {
  shake_hands();
  const Eigen::Vector3d half(0.5, 0.0, 0.5), ones = Eigen::Vector3d::Ones();
  const std::vector<float> nine(9);
  const auto own = [](const Eigen::VectorXd& values) { return Addressee{.own = to_bytes(Ratio::Own{values})}; };
  const auto assess = [&](const Eigen::VectorXd& prior, const Eigen::VectorXd& scale) {
    return to_bytes(Assess::Request{.whose = 1, .predictor = {prior, scale, ones}});
  };
  EXPECT_THAT(refusal(static_cast<TaskKind>(99), {}), HasSubstr("there is no task 99"));
  EXPECT_THAT(refusal(TaskKind::kTarget, {}), HasSubstr("a message ends 0 bytes on"));
  EXPECT_THAT(refusal(TaskKind::kTarget, {std::byte{4}}), HasSubstr("a kind that is not known"));
  EXPECT_THAT(refusal(TaskKind::kTarget, {std::byte{1}, std::byte{0}}), HasSubstr("1 bytes after its end"));
  EXPECT_THAT(refusal(TaskKind::kRatio, {std::byte{3}}, {}, own(ones)), HasSubstr("a kind that is not known"));
  EXPECT_THAT(refusal(TaskKind::kRatio, {std::byte{0}}, {}, own(Eigen::Vector2d::Ones())),
              HasSubstr("2 numbers as a ratio, expected 3"));
  EXPECT_THAT(refusal(TaskKind::kRatio, {std::byte{0}}, {}, own(Eigen::Vector3d(1, std::nan(""), 1))),
              HasSubstr("not finite"));
  EXPECT_THAT(refusal(TaskKind::kRatio, {std::byte{0}}, {}, own(-ones)), HasSubstr("below 0 as a ratio"));
  EXPECT_THAT(refusal(TaskKind::kAssess, assess(-half, ones), nine), HasSubstr("below 0 as a prior"));
  EXPECT_THAT(refusal(TaskKind::kAssess, assess(0.0 * half, ones), nine), HasSubstr("a prior of zeros"));
  EXPECT_THAT(refusal(TaskKind::kAssess, assess(half, Eigen::Vector2d::Ones()), nine), HasSubstr("a calibration of 2"));
  EXPECT_THAT(refusal(TaskKind::kAssess, assess(half, -1e300 * ones), nine),
              HasSubstr("a scale or bias beyond 1e+100"));
  EXPECT_THAT(refusal(TaskKind::kAssess, assess(half, ones), std::vector<float>(8)),
              HasSubstr("8 weights, expected 9"));
  EXPECT_THAT(refusal(TaskKind::kHeldOut, to_bytes(HeldOut::Request{}), nine),
              HasSubstr("asked for a predictor, and the settings of this run"));
  const auto mixture = [&](double examples, const Eigen::VectorXd& price) {
    return refusal(TaskKind::kMixture, to_bytes(Mixture::Request{.examples = examples, .level = 1.0, .price = price}));
  };
  EXPECT_THAT(mixture(60.0, half.head(2)), HasSubstr("2 prices, expected 3"));
  EXPECT_THAT(mixture(29.0, half), HasSubstr("all nodes have 29 examples, and this one alone has 30"));
  EXPECT_THAT(mixture(60.0, Eigen::Vector3d(1, std::nan(""), 1)), HasSubstr("not finite"));
  EXPECT_THAT(refusal(TaskKind::kTrain, as_set(), std::vector<float>(8)), HasSubstr("8 weights, expected 9"));
  EXPECT_THAT(refusal(TaskKind::kTrain, as_set(), std::vector<float>(10)), HasSubstr("10 weights, expected 9"));
  EXPECT_THAT(refusal(TaskKind::kTrain, as_set(), nine), HasSubstr("before it had its importance weights"));
  EXPECT_THAT(refusal(TaskKind::kTrain, {}, nine), HasSubstr("a message ends 0 bytes on"));
  ask(TaskKind::kRatio, {std::byte{1}}, {}, own(ones));
  EXPECT_THAT(refusal(TaskKind::kTrain, to_bytes(Train::Request{.steps = 1'000'001}), nine),
              HasSubstr("asked for 1000001 steps in a round, expected at most 1000000"));
  EXPECT_THAT(refusal(TaskKind::kTrain, to_bytes(Train::Request{.rate = -0.5}), nine),
              HasSubstr("asked for steps of length -0.5, expected a number above 0"));
  EXPECT_THAT(refusal(TaskKind::kEvaluate, to_bytes(Evaluate::Request{})), HasSubstr("0 weights, expected 9"));
  for (const Eigen::VectorXd& mix :
       {Eigen::VectorXd(half.head(2)), Eigen::VectorXd(ones), Eigen::VectorXd(Eigen::Vector3d(0.75, 0.5, -0.25))})
    EXPECT_THAT(refusal(TaskKind::kEvaluate, to_bytes(Evaluate::Request{.trained_mix = mix}), nine),
                HasSubstr("as the mix that a model is trained towards, expected 3 shares that sum to 1"));
}

class NodeOfAFederatedPredictor : public NodeProgramTest {
 protected:
  NodeOfAFederatedPredictor()
      : NodeProgramTest([] {
          FederationSettings settings = weighted_settings("vrls");
          settings.ratio.predictor = PredictorScope::kFederated;
          return settings;
        }()) {}
};

TEST_F(NodeOfAFederatedPredictor, RefusesMessagesThatMakeNoSense) {
  shake_hands();
  const Eigen::Vector3d half(0.5, 0.0, 0.5), ones = Eigen::Vector3d::Ones();
  const std::vector<float> nine(9);
  const auto together = [&](const std::function<void(TargetTogether::Request&)>& change) {
    TargetTogether::Request request{.prior = ones / 3.0, .scale = ones, .bias = ones};
    change(request);
    return refusal(TaskKind::kTargetTogether, to_bytes(request), nine);
  };
  const Eigen::VectorXd eight = Eigen::VectorXd::Ones(8);
  EXPECT_THAT(together([&](auto& one) { one.prior = half.head(2); }), HasSubstr("2 numbers as a prior"));
  EXPECT_THAT(together([&](auto& one) { one.prior = half; }), HasSubstr("a prior in which a class has no share"));
  EXPECT_THAT(together([&](auto& one) { one.bias = half.head(2); }), HasSubstr("a calibration of 3 and 2 numbers"));
  EXPECT_THAT(together([&](auto& one) { one.mixing = eight; }), HasSubstr("8 numbers as a mixing matrix, expected 9"));
  EXPECT_THAT(together([&](auto& one) { one.covariance = eight; }), HasSubstr("8 numbers as a covariance, expected"));
  EXPECT_THAT(together([&](auto& one) { one.examples = eight; }), HasSubstr("8 numbers as numbers of examples"));
  EXPECT_THAT(together([&](auto& one) { one.conditional = -Eigen::VectorXd::Ones(9); }),
              HasSubstr("below 0 as a confusion matrix"));
  EXPECT_THAT(together([&](auto& one) { one.mixing = Eigen::VectorXd::Constant(9, 2e100); }),
              HasSubstr("a scale or bias beyond 1e+100"));
  const auto calibrate = [&](const std::function<void(Calibrate::Request&)>& change) {
    Calibrate::Request request{
        .weights = Eigen::VectorXd::Ones(18), .left_out = {0}, .parameters = Eigen::VectorXd::Zero(13)};
    change(request);
    return refusal(TaskKind::kCalibrate, to_bytes(request), nine);
  };
  EXPECT_THAT(calibrate([](auto&) {}), HasSubstr("asked to calibrate before it was asked for held-out examples"));
  remember(*store_.of(0), kHeldOutEntry, HeldOutScores{std::vector<float>(3, -1.0F)});  // of one example
  EXPECT_THAT(calibrate([](auto&) {}), HasSubstr("asked to calibrate before it was asked for held-out examples"));
  EXPECT_THAT(calibrate([&](auto& one) { one.weights = eight; }), HasSubstr("8 numbers as weights, expected 18"));
  EXPECT_THAT(calibrate([&](auto& one) { one.parameters = eight; }), HasSubstr("8 parameters of 1 fits, expected 13"));
  EXPECT_THAT(calibrate([](auto& one) { one.left_out.clear(); }), HasSubstr("13 parameters of 0 fits"));
  EXPECT_THAT(calibrate([](auto& one) { one.left_out[0] = 6; }), HasSubstr("leaves out fold 6 of 5"));
  const auto shared = [&](SharedMix::Kind kind, const Eigen::VectorXd& values) {
    return refusal(TaskKind::kSharedMix, to_bytes(SharedMix::Request{.kind = kind, .values = values}));
  };
  using enum SharedMix::Kind;
  EXPECT_THAT(shared(kShares, half.head(2)), HasSubstr("2 numbers as a mix, expected 3"));
  EXPECT_THAT(shared(kShares, half), HasSubstr("a share of 0, expected more"));
  EXPECT_THAT(shared(kLogs, ones / 101.0), HasSubstr("an alpha of 0.00990099, expected 0.01 or more"));
  EXPECT_THAT(shared(kLogs, ones), HasSubstr("asked about a prior of all mixes before it was asked for its own"));
  const auto shared_target = [&](const Eigen::VectorXd& alpha) {
    return refusal(TaskKind::kSharedTarget, to_bytes(SharedTarget::Request{alpha}));
  };
  EXPECT_THAT(shared_target(half), HasSubstr("an alpha of 0, expected 0.01 or more"));
  EXPECT_THAT(shared_target(ones.head(2)), HasSubstr("2 numbers as alpha, expected 3"));
  EXPECT_THAT(shared_target(ones), HasSubstr("asked about a prior of all mixes before it was asked for its own"));
  remember(*store_.of(0), kTargetRowsEntry, TargetRows{std::vector<float>(3, 1.0F), ones});
  EXPECT_THAT(shared_target(ones), HasSubstr("asked about a prior of all mixes before it was asked for its own"));
  EXPECT_THAT(refusal(TaskKind::kHeldOut, to_bytes(HeldOut::Request{}), std::vector<float>(8)),
              HasSubstr("8 weights, expected 9"));
}

TEST_F(NodeProgramTest, AddsNoMoreToASumThanAllNodesTogetherCan) {
  Hello::Request crowd = hello();
  crowd.nodes = Index{1} << 24;  // each of them can add 1/2
  for (const Index node : {0, 1}) ask(TaskKind::kHello, to_bytes(crowd), {}, {.node = node});
  try {
    ask(TaskKind::kTarget, to_bytes(Target::Request{Target::Kind::kTruth}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("is 0.666667, and each of 16777216 nodes can add 0.5 to a sum at most"));
  }
  const auto target =
      from_fixed(ask(TaskKind::kTarget, to_bytes(Target::Request{Target::Kind::kTruth}), {}, {.node = 1}).words);
  ASSERT_EQ(target.size(), 3U);
  for (const double share : target) EXPECT_NEAR(share, 1.0 / 3.0, 0x1p-41);
}

TEST_F(NodeProgramTest, TrainsARepeatedRoundOnTheWeightsThatCameWithIt) {
  shake_hands();
  ask(TaskKind::kRatio, {std::byte{1}}, {}, {.own = to_bytes(Ratio::Own{Eigen::Vector3d::Ones()})});
  const std::vector<float> zeros(9), others{0.5F, 0, 0, 0, 0, 0, 0, 0, 0};
  const Answer first = ask(TaskKind::kTrain, as_set(), zeros);
  const Answer second = ask(TaskKind::kTrain, as_set(), others);  // the same round, other weights
  EXPECT_NE(first.weights, second.weights);
  EXPECT_EQ(ask(TaskKind::kTrain, as_set(), zeros).weights, first.weights);
}

class FedPalsNode : public NodeProgramTest {
 protected:
  static FederationSettings fedpals() {
    FederationSettings settings = weighted_settings("true");
    settings.algorithm = "fedpals";
    return settings;
  }
  FedPalsNode() : NodeProgramTest(fedpals()) { shake_hands(); }
};

TEST_F(FedPalsNode, WeighsWhatTheLastQuestionGaveIt) {
  const std::vector<float> zeros(9);
  EXPECT_THAT(refusal(TaskKind::kTrain, as_set(), zeros), HasSubstr("before it had its weight among the nodes"));
  const auto weight_after = [&](double level) {
    ask(TaskKind::kMixture, to_bytes(Mixture::Request{60.0, level, Eigen::Vector3d(0.3, 0.6, 0.0)}));
    return ask(TaskKind::kTrain, as_set(), zeros).numbers.at(0);
  };
  // Half of all examples, of which 2/3, 1/6 and 1/6 are of the classes.
  EXPECT_NEAR(weight_after(1.0), 0.5 * (1.0 - 0.2 - 0.1), 1e-15);
  EXPECT_NEAR(weight_after(0.5), 0.5 * (0.5 - 0.2 - 0.1), 1e-15);
  EXPECT_EQ(weight_after(-1.0), 0x1p-60);  // an answer must weigh something
  EXPECT_EQ(weight_after(1e6), 2.0);
}

class EstimatingNode : public NodeProgramTest {
 protected:
  explicit EstimatingNode(int refresh = 0) : NodeProgramTest(estimating(refresh)) { shake_hands(); }
  static FederationSettings estimating(int refresh) {
    FederationSettings settings = weighted_settings("mlls");
    settings.ratio.refresh = refresh;
    return settings;
  }
  static TargetTogether::Request about_the_model() {
    const Eigen::Vector3d ones = Eigen::Vector3d::Ones();
    return {.net = AskedNet::kModel, .prior = ones / 3.0, .scale = ones, .bias = 0.0 * ones};
  }
  static Addressee weighed(const Eigen::VectorXd& values) { return {.own = to_bytes(Ratio::Own{values})}; }
  const std::vector<float> nine_ = std::vector<float>(9);
};

TEST_F(EstimatingNode, SaysNothingOfTheModelWhereNothingIsRefreshed) {
  const char* why = "it was asked what the model says of its examples, and this run refreshes no ratios";
  EXPECT_EQ(refusal(TaskKind::kHeldOut, to_bytes(HeldOut::Request{AskedNet::kModel}), nine_), why);
  EXPECT_EQ(refusal(TaskKind::kTargetTogether, to_bytes(about_the_model()), nine_), why);
  EXPECT_THAT(refusal(TaskKind::kHeldOut, {std::byte{2}}, nine_), HasSubstr("a kind that is not known"));
}

class RefreshingNode : public EstimatingNode {
 protected:
  RefreshingNode() : EstimatingNode(/*refresh=*/3) {}
};

TEST_F(RefreshingNode, TrainsWithTheWeightsOfTheRoundThatCounts) {
  const auto train = [&](std::uint32_t round) {
    return ask(TaskKind::kTrain, to_bytes(Train::Request{.weighed = round}), nine_).weights;
  };
  round_ = 0;
  ask(TaskKind::kRatio, {std::byte{1}}, {}, weighed(Eigen::Vector3d(1, 1, 1)));
  round_ = 3;
  ask(TaskKind::kRatio, {std::byte{1}}, {}, weighed(Eigen::Vector3d(5, 1, 0)));
  round_ = 4;
  EXPECT_NE(train(0), train(3));
  EXPECT_THAT(refusal(TaskKind::kTrain, to_bytes(Train::Request{.weighed = 6}), nine_),
              HasSubstr("before it had its importance weights"));
  EXPECT_THAT(refusal(TaskKind::kHeldOut, to_bytes(HeldOut::Request{AskedNet::kModel}), std::vector<float>(8)),
              HasSubstr("8 weights, expected 9"));
  EXPECT_THAT(refusal(TaskKind::kTargetTogether, to_bytes(about_the_model()), std::vector<float>(10)),
              HasSubstr("10 weights, expected 9"));
}

class ScaffoldNode : public NodeProgramTest {
 protected:
  static FederationSettings scaffold() {
    FederationSettings settings = quick_settings();
    settings.algorithm = "scaffold";
    settings.local.steps = 2;
    return settings;
  }
  ScaffoldNode() : NodeProgramTest(scaffold()) {
    ask(TaskKind::kHello, to_bytes(hello()));
    Agree::Request agree = agreement();
    agree.schema =
        "fc.weight 3x2, fc.bias 3, asked for parameters 9, buffers 0, control 9, answering update 9, buffers 0, "
        "control-change 9";
    ask(TaskKind::kAgree, to_bytes(agree));
  }
  Answer train(std::uint64_t round, std::uint64_t counted, std::uint64_t durable) {
    round_ = round;
    return ask(TaskKind::kTrain, as_set(), std::vector<float>(18, 0.1F), {.counted = counted, .durable = durable});
  }
  std::vector<std::string> rounds() { return store_.of(0)->names("round-"); }
};

TEST_F(ScaffoldNode, GoesOnFromTheRoundThatCountsAndKeepsWhatItMayBeAskedFor) {
  const Answer first = train(1, 0, 0);
  EXPECT_EQ(train(1, 0, 0), first);  // its answer was lost: the same again
  const Answer second = train(2, 1, 0);
  EXPECT_NE(second.weights, first.weights);
  const Answer third = train(3, 1, 0);  // the second was lost
  EXPECT_EQ(rounds().size(), 2U);       // 1 and 3: what never counted is forgotten
  EXPECT_EQ(train(2, 1, 0), second);    // a coordinator that went back to its checkpoint of round 1
  EXPECT_EQ(train(3, 1, 0), third);
  train(4, 3, 0);
  EXPECT_EQ(rounds().size(), 3U);  // 1, 3 and 4
  train(5, 4, 3);
  EXPECT_EQ(rounds().size(), 3U);  // 3, 4 and 5
  EXPECT_EQ(train(4, 3, 3).weights.size(), 18U);
  try {
    train(5, 4, 3);
    train(6, 0, 3);  // all begin anew, and the coordinator may still go back to any round from 3 on
    EXPECT_EQ(rounds().size(), 4U);
    train(5, 1, 1);  // a checkpoint that it was told nobody would go back to
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("it does not remember its round 1 any more"));
  }
}

}  // namespace
}  // namespace labelshift
