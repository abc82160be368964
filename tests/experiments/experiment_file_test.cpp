#include "labelshift/experiments/experiment_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "labelshift/core/base/rng.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/experiments/shipped_experiments.hpp"
#include "tests/data/scratch.hpp"
#include "tests/federation/range_ends.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kStart = "[data]\nset = \"fashion-mnist\"\npartition = \"paper-5\"\n";

Experiment parse(const std::string& text) {
  return parse_experiment(text, "e.toml", "/base");
}

void expect_refused(const std::string& text, const std::string& message) {
  expect_error(ErrorKind::kUsage, message, [&] { parse(text); });
}

/// For messages that end in a list of all there is.
void expect_refusal_starts(const std::string& text, const std::string& start) {
  try {
    parse(text);
    ADD_FAILURE() << "expected the error: " << start;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), StartsWith(start));
  }
}

class ExperimentFile : public Scratch {};

TEST(ExperimentText, GivesSettingsTheirValues) {
  const Experiment experiment = parse(R"(
name = "mine"
seeds = [3, 5]
report-node = 2
[data]
set = "fashion-mnist"
partition = "shares"
train-shares = [[1, 2], [2, 1]]
sizes = [2, 0.5]
test-shares = [[0.75, 0.25], [0, 1]]
[model]
net = "resnet18"
net-settings = {width = 8}
[training]
algorithm = "iw-erm"
rounds = 7
weighting = "pooled"
local-steps = 3
learning-rate = 1
[ratio]
method = "vrls-raw"
predictor = "federated"
max-ratio = 20
goal-node = 1
goal-shift = false
[run]
target-holdout = 0.5
device = "cuda"
)");
  EXPECT_EQ(experiment.name, "mine");
  EXPECT_EQ(experiment.title, "mine");
  EXPECT_THAT(experiment.seeds, ElementsAre(3, 5));
  EXPECT_EQ(experiment.report_node, 2);
  ASSERT_EQ(experiment.runs.size(), 1u);
  EXPECT_EQ(experiment.runs[0].name, "iw-erm");
  const auto& [data, federation, checkpoint_every] = experiment.runs[0].settings;
  EXPECT_THAT(data.train_shares, ElementsAre(ElementsAre(1, 2), ElementsAre(2, 1)));
  EXPECT_THAT(data.test_shares, ElementsAre(ElementsAre(0.75, 0.25), ElementsAre(0, 1)));
  EXPECT_THAT(data.sizes, ElementsAre(2, 0.5));
  EXPECT_EQ(federation.model.settings.at("width"), "8");
  EXPECT_EQ(federation.rounds, 7);
  EXPECT_EQ(federation.weighting, Weighting::kPooled);
  EXPECT_EQ(federation.local.steps, 3);
  EXPECT_EQ(federation.server.learning_rate, 1.0);
  EXPECT_EQ(federation.ratio.predictor, PredictorScope::kFederated);
  EXPECT_EQ(federation.ratio.max_ratio, 20.0);
  EXPECT_FALSE(federation.ratio.goal_shift);
  EXPECT_EQ(federation.target_holdout, 0.5);
  EXPECT_EQ(federation.device, Device::kCuda);
  EXPECT_EQ(checkpoint_every, RunSettings().checkpoint_every);
}

TEST(ExperimentText, ComparesRunsThatDifferInSomeKeys) {
  const Experiment experiment = parse(kStart + R"(
[training]
rounds = 10
[[compare]]
name = "A, one"
paper = 0.5
paper-sd = 0.1
paper-nodes = [0.4, 0.6]
[[compare]]
name = "B"
training.rounds = 20
tune = {"training.learning-rate" = [0.1, 1], "ratio.method" = ["vrls"]}
)");
  ASSERT_EQ(experiment.runs.size(), 2u);
  EXPECT_EQ(experiment.runs[0].folder_name(), "a-one");
  EXPECT_EQ(experiment.runs[0].settings.federation.rounds, 10);
  EXPECT_EQ(experiment.runs[0].paper.accuracy, 0.5);
  EXPECT_EQ(experiment.runs[0].paper.deviation, 0.1);
  EXPECT_THAT(experiment.runs[0].paper.nodes, ElementsAre(0.4, 0.6));
  EXPECT_EQ(experiment.runs[1].settings.federation.rounds, 20);
  EXPECT_EQ(experiment.runs[1].settings.data.set, "fashion-mnist");
  ASSERT_EQ(experiment.runs[1].tune.size(), 2u);
  EXPECT_EQ(experiment.runs[1].tune[1].key, "training.learning-rate");
  EXPECT_THAT(experiment.runs[1].tune[1].values, ElementsAre("0.1", "1"));
  EXPECT_THAT(experiment.runs[1].tune[0].values, ElementsAre("vrls"));
}

TEST(ExperimentText, TakesPathsFromTheFolderOfTheFile) {
  const Experiment experiment = parse(
      "[data]\nfolders = [{train = \"a/train\", test = \"../b\"}, {train = \"/c\", test = \"d\"}]\n"
      "[[compare]]\nname = \"x\"\ndata.set = \"./mnist\"\n");
  const DataSettings& data = experiment.runs[0].settings.data;
  EXPECT_EQ(data.folders[0].train, "/base/a/train");
  EXPECT_EQ(data.folders[0].test, "/b");
  EXPECT_EQ(data.folders[1].train, "/c");
  EXPECT_EQ(data.set, "/base/mnist");
}

TEST(ExperimentText, NamesPlaceAndSuggestionOfWhatItDoesNotKnow) {
  expect_refusal_starts(
      "\n\n[training]\nroundz = 5\n",
      "e.toml, line 4: unknown key of [training] \"roundz\"; did you mean \"rounds\"? (known: algorithm");
  expect_refusal_starts("[trainin]\nrounds = 5\n",
                        "e.toml, line 1: unknown key \"trainin\"; did you mean \"training\"?");
  expect_refusal_starts("titel = \"x\"\n", "e.toml, line 1: unknown key \"titel\"; did you mean \"title\"?");
  expect_refusal_starts("[training]\nalgorithm = \"fedavgg\"\n",
                        "e.toml, line 2: unknown algorithm \"fedavgg\"; did you mean \"fedavg\"?");
  expect_refusal_starts("[ratio]\nmethod = \"vrsl\"\n",
                        "e.toml, line 2: unknown method \"vrsl\"; did you mean \"vrls\"?");
  expect_refusal_starts(
      "[ratio]\npredictor = \"Local\"\n",
      "e.toml, line 2: unknown predictor \"Local\"; did you mean \"local\"? (known: local, federated)");
  expect_refusal_starts("[model]\nnet = \"lennet\"\n",
                        "e.toml, line 2: unknown net \"lennet\"; did you mean \"lenet\"?");
  expect_refusal_starts("[training]\nserver = \"adm\"\n", "e.toml, line 2: unknown server optimiser \"adm\"");
  expect_refusal_starts("[data]\npartition = \"paper5\"\n",
                        "e.toml, line 2: unknown partition \"paper5\"; did you mean \"paper-5\"?");
  expect_refusal_starts("[[compare]]\nname = \"a\"\npapers = 0.5\n",
                        "e.toml, line 3: unknown key of [[compare]] \"papers\"; did you mean \"paper\"?");
  expect_refusal_starts("[[compare]]\nname = \"a\"\ntune = {\"training.lr\" = [1]}\n",
                        "e.toml, line 3: unknown key of [training] \"lr\"");
}

TEST(ExperimentText, SaysWhatIsWrongWithAValue) {
  expect_refused("[training]\nrounds = \"many\"\n",
                 "e.toml, line 2: training.rounds is \"many\", expected a whole number from 1 to 1000000000");
  expect_refused("[training]\nrounds = 0\n",
                 "e.toml, line 2: training.rounds is 0, expected a whole number from 1 to 1000000000");
  expect_refused("[training]\nrounds = 1.5\n",
                 "e.toml, line 2: training.rounds is 1.5, expected a whole number from 1 to 1000000000");
  expect_refused("[run]\ntarget-holdout = nan\n",
                 "e.toml, line 2: run.target-holdout is nan, expected a number from 0 to below 1");
  expect_refused("[ratio]\nmax-ratio = 0\n",
                 "e.toml, line 2: ratio.max-ratio is 0, expected a number from 1e-30; leave it out for no limit");
  expect_refused("[ratio]\ngoal-shift = 1\n", "e.toml, line 2: ratio.goal-shift is 1, expected true or false");
  expect_refused("[ratio]\nmethod = true\n", "e.toml, line 2: ratio.method is true, expected the name of a method");
  expect_refused(
      "[model]\nnet-settings = {width = []}\n",
      "e.toml, line 2: model.net-settings is a table, expected a table of numbers or names, such as {width = "
      "8}");
  expect_refused("[data]\ntrain-shares = [[1, -1]]\n",
                 "e.toml, line 2: data.train-shares is a list, expected a list for each node, with a number from 0 to "
                 "1000000000 for each class");
  for (const char* sizes : {"[1, \"2\"]", "[1, 0]"})
    expect_refused("[data]\nsizes = " + std::string(sizes) + "\n",
                   "e.toml, line 2: data.sizes is a list, expected a list with a number above 0 and at most 1000000000 "
                   "for each node");
  expect_refused("[training]\nmomentum = 1\n",
                 "e.toml, line 2: training.momentum is 1, expected a number from 0 to below 1");
  expect_refused("[data]\nfolders = [{train = \"a\"}]\n",
                 "e.toml, line 2: data.folders is a list, expected a list of {train = PATH, test = PATH}, one for each "
                 "node");
  expect_refused(
      "title = \"a\\u001b[2J\"\n",
      "e.toml, line 1: title is \"a\\x1b[2J\", expected a text without control characters: terminals obey them");
  expect_refused("data = 5\n", "e.toml, line 1: data is 5, expected a table");
  expect_refused("seed = -1\n", "e.toml, line 1: seed is -1, expected a whole number from 0 to 9223372036854775807");
  expect_refused("seeds = []\n",
                 "e.toml, line 1: seeds is an empty list; give at least one, such as [1, 2, 3], or leave it out");
  expect_refused("seeds = [1, 1]\n", "e.toml, line 1: the seed 1 is there twice; give each once");
  expect_refused("seed = 1\nseeds = [1]\n", "e.toml, line 2: found both seed and seeds; give one");
  expect_refused("name = \"a/b\"\n",
                 "e.toml, line 1: the name is \"a/b\", expected letters, digits, - and _: a folder is called so");
  expect_refused("[[compare]]\ntraining.rounds = 5\n",
                 "e.toml, line 1: a [[compare]] has no name with a letter from a to z or a digit; every row of the "
                 "comparison needs one");
  expect_refused("[[compare]]\nname = \"a b\"\n[[compare]]\nname = \"A-b\"\n",
                 "e.toml, line 3: the names \"a b\" and \"A-b\" would have the same folder; change one");
  expect_refused("[[compare]]\nname = \"a\"\npaper = 75\n",
                 "e.toml, line 3: paper is 75, expected a number from 0 to 1");
  expect_refused("[[compare]]\nname = \"a\"\ntune = {\"training.learning-rate\" = 1}\n",
                 "e.toml, line 3: training.learning-rate is 1, expected a list of candidates");
  expect_refusal_starts("[training\nrounds = 5\n", "e.toml, line 1: ");
  expect_refused("[training]\nrounds = 10.0\n",
                 "e.toml, line 2: training.rounds is 10.0, expected a whole number from 1 to 1000000000");
  expect_refused("[data]\nset = \"fashon-mnist\"\n",
                 "e.toml, line 2: unknown data set \"fashon-mnist\"; did you mean \"fashion-mnist\"? (known: "
                 "fashion-mnist, mnist, cifar-10, cifar-100)");
  std::string deep = "a";
  for (int i = 0; i < 50'000; ++i) deep += ".a";
  expect_refused(deep + " = 1\n", "e.toml has 50000 dots, expected an experiment file with at most 20000");
}

/// Gives every number of `Settings` the values next to its range, in a file and in a program.
template <typename Settings, typename Check>
void expect_refused_alike(Check check) {
  for (const RangedSetting<Settings>& setting : ranged_settings<Settings>())
    for (const double value : just_outside(setting.range)) {
      const std::string name = setting.name;
      const std::string section = name.substr(0, name.find('.')), key = name.substr(name.find('.') + 1);
      const std::string words = fmt::format("{} is {}, expected {}", name, value, setting.range.words());
      expect_refused(fmt::format("[{}]\n{} = {}\n", section, key, value), "e.toml, line 2: " + words);
      Settings settings;
      setting.set(settings, value);
      expect_error(ErrorKind::kUsage, words, [&] { check(settings); });
    }
}

TEST(ExperimentText, RefusesANumberInTheWordsThatAProgramHears) {
  expect_refused_alike<DataSettings>(check_data_settings);
  expect_refused_alike<FederationSettings>([](const auto& settings) { check_settings(settings, /*nodes=*/5); });
}

TEST_F(ExperimentFile, SaysWhatCannotBeRead) {
  expect_error(ErrorKind::kInput, "cannot read DIR/none.toml: no such file or directory; name an experiment file",
               [&] { read_experiment(path("none.toml")); });
  expect_error(ErrorKind::kUsage, "DIR/ is a folder, expected an experiment file such as DIR/experiment.toml",
               [&] { read_experiment(path("")); });
}

TEST_F(ExperimentFile, TakesItsNameFromTheFile) {
  EXPECT_EQ(read_experiment(file("first.toml", kStart)).name, "first");
}

TEST(ChangeSetting, ReadsValuesWithOrWithoutTheirQuotes) {
  RunSettings settings;
  change_setting(settings, "ratio.method", "vrls", "--set");
  change_setting(settings, "training.algorithm", "\"iw-erm\"", "--set");
  change_setting(settings, "training.rounds", "12", "--set");
  change_setting(settings, "ratio.goal-shift", "false", "--set");
  change_setting(settings, "data.train-shares", "[[1, 2]]", "--set");
  EXPECT_EQ(settings.federation.ratio.method, "vrls");
  EXPECT_EQ(settings.federation.algorithm, "iw-erm");
  EXPECT_EQ(settings.federation.rounds, 12);
  EXPECT_FALSE(settings.federation.ratio.goal_shift);
  EXPECT_EQ(settings.data.train_shares.size(), 1u);
  change_setting(settings, "ratio.method", "true", "--set");  // a name too, not only a truth value
  EXPECT_EQ(settings.federation.ratio.method, "true");
  expect_error(ErrorKind::kUsage,
               "--rounds: training.rounds is \"1\\x0ax = 2\", expected a whole number from 1 to 1000000000",
               [&] { change_setting(settings, "training.rounds", "1\nx = 2", "--rounds"); });
}

TEST(WriteExperiment, SaysEverySettingSoThatReadingItBackGivesTheSame) {
  Experiment experiment = parse(kStart + "[[compare]]\nname = \"one \\\"quoted\\\"\"\n");
  ComparedRun& run = experiment.runs[0];
  run.settings.federation.ratio.max_ratio = 0.1;
  run.settings.federation.server.epsilon = 1e-8;
  run.settings.federation.local.learning_rate = 1.0 / 3.0;
  run.settings.federation.model.settings = {{"width", "8"}};
  run.settings.data.folders = {{"/a \"b\"", "/c\\d"}, {"/e", "/f"}};
  run.settings.data.ignore_columns = {"id", "Unnamed: 0"};
  const std::string text = write_experiment(experiment, run, 7);
  const Experiment again = parse(text);
  EXPECT_EQ(again.version, version());
  EXPECT_THAT(again.seeds, ElementsAre(7));
  EXPECT_EQ(again.runs[0].name, run.name);
  EXPECT_EQ(again.runs[0].settings.federation.local.learning_rate, 1.0 / 3.0);
  EXPECT_EQ(again.runs[0].settings.data.folders[0].train, "/a \"b\"");
  EXPECT_THAT(again.runs[0].settings.data.ignore_columns, ElementsAre("id", "Unnamed: 0"));
  EXPECT_EQ(write_experiment(again, again.runs[0], 7), text);
  for (const ExperimentKey& key : experiment_keys()) {
    if (key.fallback.empty()) continue;
    EXPECT_THAT(text, HasSubstr("\n" + key.key + " = ")) << key.section;
  }
}

/// Texts that a careless writer spoils.
std::string hostile_text(Rng& rng) {
  using namespace std::string_literals;
  static const std::string kTexts[] = {
      "",       "plain",  "'",       "\"",      "\\",          "\\u0041",  "'''",        "\"\"\"",
      "\n",     "\nline", "a\r\nb",  "\t",      "\x1b[2J",     "\x7f",     "\0"s,        "# comment",
      "true",   "1e5",    "[table]", "key = 1", "{a = 1}",     " spaces ", "na\u00efve", "\u2713 \U0001f600",
      "\u0085", "\u2028", "\ufeff",  "a\\",     "ends in '\"", "'\n'",     "%s{}",       "\U0010ffff",
  };
  return kTexts[rng() % std::size(kTexts)] + kTexts[rng() % std::size(kTexts)];
}

std::vector<double> hostile_numbers(Rng& rng) {
  std::vector<double> numbers(rng() % 40);
  for (double& number : numbers) number = std::exp(40.0 * rng.uniform() - 20.0);
  return numbers;
}

template <typename Settings>
void set_numbers(Settings& settings, Rng& rng) {
  for (const RangedSetting<Settings>& setting : ranged_settings<Settings>()) {
    const Range& range = setting.range;
    std::vector<double> values = ends_of(range);
    const double between = range.low + rng.uniform() * (range.high - range.low);
    values.push_back(range.whole ? std::floor(between) : between);
    if (const double small = std::exp(-600.0 * rng.uniform()); !range.whole && range.contains(small))
      values.push_back(small);
    setting.set(settings, values[rng() % values.size()]);
  }
}

template <typename Settings>
void expect_same_numbers(const Settings& found, const Settings& expected) {
  for (const RangedSetting<Settings>& setting : ranged_settings<Settings>())
    EXPECT_EQ(setting.get(found), setting.get(expected)) << setting.name;
}

RunSettings hostile_settings(Rng& rng) {
  RunSettings settings;
  auto& [data, federation, checkpoint_every] = settings;
  set_numbers(data, rng);
  set_numbers(federation, rng);
  checkpoint_every = 1 + static_cast<int>(rng() % 1'000'000'000);
  data.set = "/" + hostile_text(rng);
  data.partition = "dirichlet";
  for (auto* shares : {&data.train_shares, &data.test_shares})
    for (auto k = rng() % 3; k > 0; --k) shares->push_back(hostile_numbers(rng));
  data.sizes = hostile_numbers(rng);
  for (auto k = rng() % 3; k > 0; --k) data.folders.push_back({"/" + hostile_text(rng), "/" + hostile_text(rng)});
  for (NetChoice* net : {&federation.model, &federation.ratio.net})
    for (const char* key : {"width", "", "a b", "a.b", "\"", "\\", "#", "\x7f", "\r", "\u00fc"})
      if (rng() % 2 == 0) net->settings[key] = hostile_text(rng);
  federation.algorithm = "scaffold";
  federation.weighting = static_cast<Weighting>(rng() % 2);
  federation.server.optimiser = "yogi";
  federation.ratio.method = "true";
  federation.ratio.predictor = static_cast<PredictorScope>(rng() % 2);
  federation.ratio.exchange = static_cast<RatioExchange>(rng() % 2);
  federation.ratio.goal_shift = rng() % 2 == 0;
  federation.device = static_cast<Device>(rng() % 2);
  return settings;
}

void expect_same(const RunSettings& found, const RunSettings& expected) {
  expect_same_numbers(found.data, expected.data);
  expect_same_numbers(found.federation, expected.federation);
  EXPECT_EQ(found.checkpoint_every, expected.checkpoint_every);
  EXPECT_EQ(found.data.set, expected.data.set);
  EXPECT_EQ(found.data.partition, expected.data.partition);
  EXPECT_EQ(found.data.train_shares, expected.data.train_shares);
  EXPECT_EQ(found.data.test_shares, expected.data.test_shares);
  EXPECT_EQ(found.data.sizes, expected.data.sizes);
  ASSERT_EQ(found.data.folders.size(), expected.data.folders.size());
  for (std::size_t k = 0; k < expected.data.folders.size(); ++k) {
    EXPECT_EQ(found.data.folders[k].train, expected.data.folders[k].train);
    EXPECT_EQ(found.data.folders[k].test, expected.data.folders[k].test);
  }
  const FederationSettings& federation = expected.federation;
  EXPECT_EQ(found.federation.model.settings, federation.model.settings);
  EXPECT_EQ(found.federation.algorithm, federation.algorithm);
  EXPECT_EQ(found.federation.weighting, federation.weighting);
  EXPECT_EQ(found.federation.server.optimiser, federation.server.optimiser);
  EXPECT_EQ(found.federation.ratio.net.settings, federation.ratio.net.settings);
  EXPECT_EQ(found.federation.ratio.method, federation.ratio.method);
  EXPECT_EQ(found.federation.ratio.predictor, federation.ratio.predictor);
  EXPECT_EQ(found.federation.ratio.exchange, federation.ratio.exchange);
  EXPECT_EQ(found.federation.ratio.goal_shift, federation.ratio.goal_shift);
  EXPECT_EQ(found.federation.device, federation.device);
}

TEST(WriteExperiment, ReadsBackToTheSameSettingsWhateverTheyAre) {
  Rng rng(0);
  for (int trial = 0; trial < 300 && !testing::Test::HasFailure(); ++trial) {
    const Experiment experiment{.name = "e", .title = "\"It's\" \\ a title\n\t\u2713"};
    const ComparedRun run{.name = "'a' \"b\" \\", .settings = hostile_settings(rng)};
    const std::string text = write_experiment(experiment, run, /*seed=*/7);
    SCOPED_TRACE(text);
    const Experiment again = parse(text);
    EXPECT_EQ(again.title, experiment.title);
    EXPECT_EQ(again.runs[0].name, run.name);
    expect_same(again.runs[0].settings, run.settings);
    EXPECT_EQ(write_experiment(again, again.runs[0], /*seed=*/7), text);
    const auto json = nlohmann::json::parse(settings_json(run.settings));
    EXPECT_EQ(json["data"]["set"], run.settings.data.set);
    EXPECT_EQ(json["training"]["learning-rate"], run.settings.federation.server.learning_rate);
    EXPECT_EQ(json["training"]["rounds"], run.settings.federation.rounds);
  }
}

TEST(WriteExperiment, HasTheOrderOfTheDocumentationAndTheShortestNumbers) {
  const Experiment experiment = parse(kStart);
  const std::string text = write_experiment(experiment, experiment.runs[0], 7);
  EXPECT_THAT(text, StartsWith(fmt::format("name = \"e\"\ntitle = \"e\"\nversion = \"{}\"\nseed = 7\n\n[data]\nset = "
                                           "\"fashion-mnist\"\npartition = \"paper-5\"\n",
                                           version())));
  EXPECT_THAT(text, HasSubstr("\nlocal-learning-rate = 0.1\n"));
  std::size_t at = 0;
  for (const ExperimentKey& key : experiment_keys()) {
    if (key.fallback.empty()) continue;
    at = text.find(fmt::format("\n{} = {}\n", key.key, key.fallback), at);
    ASSERT_NE(at, std::string::npos) << key.section << "." << key.key;
  }
}

TEST(ExperimentText, RefusesWhatCannotBeWrittenAgain) {
  expect_error(ErrorKind::kUsage,
               "e.toml, line 2: the path \"/b\xff/a\" is not UTF-8, which an experiment file has to be; rename the "
               "folder",
               [] { parse_experiment("[data]\nset = \"./a\"\n", "e.toml", "/b\xff"); });
  for (const char* name : {"a'b", "a\\tb", "a\\nb"})
    expect_refused(fmt::format("[model]\nnet-settings = {{\"{}\" = 1}}\n", name),
                   "e.toml, line 2: model.net-settings is a table, expected a table of numbers or names, such as "
                   "{width = 8}");
}

TEST(ExperimentText, SaysWhatTheDataOfSitesAreLike) {
  const DataSettings images =
      parse("[data]\nclasses = [\"dog\", \"cat\"]\nshape = [3, 32, 16]\n").runs[0].settings.data;
  EXPECT_THAT(images.classes, ElementsAre("dog", "cat"));
  EXPECT_EQ(images.shape, (ExampleShape{3, 32, 16}));
  const Experiment table = parse("[data]\nclasses = [\"a\", \"b\"]\ncolumns = [\"x\", \"y\"]\n");
  EXPECT_THAT(table.runs[0].settings.data.columns, ElementsAre("x", "y"));
  const std::string text = write_experiment(table, table.runs[0], 0);
  EXPECT_THAT(parse(text).runs[0].settings.data.columns, ElementsAre("x", "y"));
  for (const char* shape :
       {"[1, 28]", "[0, 28, 28]", "[1, 28, 28, 1]", "\"1\"", "[1000000, 1000000, 1]", "[1.0, 2, 3]"})
    expect_refused(fmt::format("[data]\nshape = {}\n", shape),
                   fmt::format("e.toml, line 2: data.shape is {}, expected a list of three whole numbers from 1, such "
                               "as [1, 28, 28], of at most 2^28 values in all",
                               shape[0] == '[' ? "a list" : shape));
  for (const char* classes : {"[]", "[1]", "[\"\"]", "[\"a\\nb\"]"})
    expect_refused(fmt::format("[data]\nclasses = {}\n", classes),
                   "e.toml, line 2: data.classes is a list, expected a list of names of classes");
}

TEST(ExperimentText, TunesListsToo) {
  const Experiment experiment =
      parse(kStart + "[[compare]]\nname = \"a\"\ntune = {\"data.sizes\" = [[1, 2], [0.5, 1]]}\n");
  RunSettings settings;
  change_setting(settings, "data.sizes", experiment.runs[0].tune[0].values[1], "tune");
  EXPECT_THAT(settings.data.sizes, ElementsAre(0.5, 1));
}

TEST_F(ExperimentFile, HasEveryKeyInTheDocumentation) {
  const std::string documentation = bytes_of(LABELSHIFT_EXAMPLES "/../docs/reproducing.md");
  std::string missing;
  for (const ExperimentKey& key : experiment_keys()) {
    const std::string fallback = key.fallback.empty() ? "" : "`" + key.fallback + "`";
    const std::string row = "| " + key.section + " | `" + key.key + "` | " + fallback + " | " + key.summary + " |\n";
    if (documentation.find(row) == std::string::npos) missing += row;
  }
  EXPECT_EQ(missing, "");
}

/// K of the shipped files' partitions.
Index nodes_of(const DataSettings& data) {
  if (data.only_node > 0) return 1;
  if (data.partition == "shares") return std::ssize(data.train_shares);
  const NodeTable& table = find_node_table(data.partition);
  return table.groups * table.nodes_per_group;
}

TEST(ShippedExperiments, AreWholeAndGoTogether) {
  std::vector<std::string> names;
  for (const ShippedExperiment& shipped : shipped_experiments()) {
    const Experiment experiment = shipped_experiment(shipped.name);
    EXPECT_EQ(experiment.name, shipped.name);
    names.emplace_back(shipped.name);
    for (const ComparedRun& run : experiment.runs) {
      check_settings(run.settings.federation, nodes_of(run.settings.data));
      const Experiment again = parse(write_experiment(experiment, run, 0));
      EXPECT_EQ(write_experiment(again, again.runs[0], 0), write_experiment(experiment, run, 0));
    }
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"table-1", "table-2", "table-3", "table-4-100", "table-4-200",
                                            "mnist-lenet", "fashion-mnist-quick", "table-3-full"}));
}

TEST(ShippedExperiments, GiveEveryRowOfTable2TheSameBudget) {
  for (const ComparedRun& run : shipped_experiment("table-2").runs) {
    ASSERT_EQ(run.tune.size(), 1u) << run.name;
    EXPECT_EQ(run.tune[0].values.size(), 3u) << run.name;
    const FederationSettings& settings = run.settings.federation;
    EXPECT_EQ(iterations(settings, settings.rounds), settings.algorithm == "iw-erm" ? 5000 : 15000) << run.name;
  }
}

}  // namespace
}  // namespace labelshift
