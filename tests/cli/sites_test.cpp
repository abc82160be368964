#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

constexpr int kPeer = 4;

/// Sites with tables of three classes; site k has more of class k, and will meet more of the next.
class Sites : public CommandTest {
 protected:
  static constexpr int kSites = 3;

  Sites() {
    std::string nodes;
    for (int k = 1; k <= kSites; ++k) {
      write_site(k);
      nodes += fmt::format("[[node]]\nname = \"site-{}\"\n", k);
    }
    file("nodes.toml", nodes);
    file("study.toml", study("iw-erm"));
  }

  void write_site(int k) const {
    const std::string folder = fmt::format("site-{}", k);
    std::filesystem::create_directory(path(folder));
    write_part(folder + "/train.csv", k - 1, 60);
    write_part(folder + "/test.csv", k, 40);
  }

  void write_part(const std::string& name, int most, int rows) const {
    std::string table = "age,dose,label\n";
    for (int i = 0; i < rows; ++i) {
      const int c = i % 3 == 2 ? most % 3 : i % 9 / 3;
      table += fmt::format("{},{},{}\n", c + 0.1 * (i % 7), 2 - c + 0.1 * (i % 5), kClasses[c]);
    }
    file(name, table);
  }

  /// What [training] says of an algorithm alone.
  static std::string own_settings(const std::string& algorithm) {
    if (algorithm == "fedcom")
      return "server = \"sgd\"\nweight-decay = 0.0\nlearning-rate = 8.0\ncompression = \"qsgd\"\nstep = \"theorem\"\n";
    return "learning-rate = 0.1\n";
  }
  static std::string settings(const std::string& algorithm, int rounds) {
    return fmt::format(R"(
[model]
net = "logistic"
[training]
algorithm = "{}"
rounds = {}
batch = 8
local-steps = {}
{}
[ratio]
method = "{}"
net = "logistic"
epochs = 20
learning-rate = 0.1
[run]
evaluate-every = 5
checkpoint-every = 2
)",
                       algorithm, rounds, algorithm == "fedavg" ? 1 : 2, own_settings(algorithm),
                       algorithm == "iw-erm" ? "mlls" : "none");
  }
  static std::string study(const std::string& algorithm, int rounds = 10) {
    return "name = \"study\"\n[data]\nclasses = [\"ill\", \"well\", \"dead\"]\ncolumns = [\"age\", \"dose\"]\n" +
           settings(algorithm, rounds);
  }

  /// A shell that knows how to start things; what it starts it ends.
  CommandResult sites(const std::string& script) const {
    return shell(R"(trap 'kill -9 $(jobs -p) 2> /dev/null' EXIT
certs() { labelshift certs trial --nodes site-1,site-2,site-3 > /dev/null; }
listen=127.0.0.1:0; output=r; patience=60; files=$(ulimit -n); die=; halt=
preload() {  # MOMENT: what is begun then is killed or stopped at it, or has a full disk
  [ -z "$1" ] || export LD_PRELOAD=)" LABELSHIFT_DIE_WHILE_SAVING R"( DIE_AT=$1 \
    ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0  # a sanitizer wants to be loaded first
}
coordinator() {  # OPTIONS: begins to listen, and sets $coordinator and $address
  rm -f coordinator.err  # of one before
  (ulimit -n $files
   preload "$die"
   exec labelshift coordinator study.toml --listen $listen --nodes nodes.toml --tls trial/coordinator \
     --output $output --give-up-after $patience --status status.jsonl "$@") > coordinator.out 2> coordinator.err &
  coordinator=$!
  await eval 'grep -q "listening on" coordinator.err || ! kill -0 $coordinator'
  address=$(sed -n 's/.*listening on \([^ ]*\) .*/\1/p' coordinator.err)
}
node() {  # K OPTIONS: begins to take part
  local k=$1; shift
  (preload "$halt"; exec labelshift node --connect $address --data site-$k --tls trial/site-$k --memory memory-$k \
     --give-up-after 60 "$@") >> node-$k.out 2>> node-$k.err & eval node_$k=$!
}
ended() { wait $1; echo "$2 $?"; }
killed() { kill -9 $1; ended $1 killed; }
is_stopped() { grep -q '^State:.*stopped' /proc/$1/status; }
hold() {  # NODE: awaits that a coordinator with die="stop N" stops itself; lets it go on, and NODE holds up a round
  await is_stopped $coordinator; kill -STOP $1; kill -CONT $coordinator
}
)" + script);
  }

  std::string result(const std::string& output, const std::string& algorithm, const std::string& name) const {
    return bytes_of(path(fmt::format("{}/study/{}-seed-0/{}", output, algorithm, name)));
  }
  std::string said(const std::string& name) const { return bytes_of(path(name)); }
  std::string all_said() const {
    std::string text = said("coordinator.err");
    for (int k = 1; k <= kSites; ++k)
      if (std::filesystem::exists(path(fmt::format("node-{}.err", k)))) text += said(fmt::format("node-{}.err", k));
    return text;
  }
  /// The same sites as nodes of one process.
  void run_in_process(const std::string& algorithm, int rounds) const { run_in_process(settings(algorithm, rounds)); }
  void run_in_process(const std::string& said) const {
    std::string folders;
    for (int k = 1; k <= kSites; ++k)
      folders += fmt::format("{{train = \"site-{0}/train.csv\", test = \"site-{0}/test.csv\"}}, ", k);
    file("local.toml", "name = \"study\"\n[data]\nfolders = [" + folders + "]\n" + said);
    const CommandResult done = labelshift("run local.toml --output local");
    EXPECT_EQ(done.status, 0) << done.err;
  }
  void expect_bits_of_one_process(const std::string& algorithm, const std::string& output = "r") const {
    EXPECT_EQ(result(output, algorithm, "model.safetensors"), result("local", algorithm, "model.safetensors"));
    EXPECT_EQ(what_sites_say(result(output, algorithm, "rounds.csv")),
              what_sites_say(result("local", algorithm, "rounds.csv")));
  }
  /// rounds.csv without its last columns, of the most frequent class of a site's mix, which stay at the site.
  static std::string what_sites_say(const std::string& rounds) {
    if (rounds.find(",majority,majority_low,majority_high\n") == std::string::npos) return rounds;
    return std::regex_replace(rounds, std::regex(",[^,\n]*,[^,\n]*,[^,\n]*\n"), "\n");
  }
  /// A study whose classes are in the order that one process finds, so that weights are too.
  static std::string in_alphabet(std::string study) {
    const std::string ours = "[\"ill\", \"well\", \"dead\"]";
    return study.replace(study.find(ours), ours.size(), "[\"dead\", \"ill\", \"well\"]");
  }

  static constexpr const char* kClasses[] = {"dead", "ill", "well"};
};

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST_F(Sites, TrainTheModelThatTheyWouldInOneProcess) {
  const CommandResult done = sites(R"(certs; coordinator; node 1 --log sent.jsonl; node 2; node 3
    ended $coordinator coordinator; ended $node_1 1; ended $node_2 2; ended $node_3 3)");
  EXPECT_EQ(done.out, "coordinator 0\n1 0\n2 0\n3 0\n") << all_said();
  EXPECT_THAT(said("coordinator.out"), HasSubstr("Summary: r/study/summary.json\n"));
  EXPECT_THAT(said("node-1.out"), HasSubstr("all done"));
  // Classes are in another order than the alphabet's, so weights are too; what they come to is the same.
  const auto status = json_lines(said("status.jsonl"));
  ASSERT_FALSE(status.empty());
  EXPECT_EQ(status.back()["round"], 10);
  EXPECT_EQ(status.back()["rounds"], 10);
  EXPECT_EQ(status.back()["nodes"], 3);
  EXPECT_GT(status.back()["accuracy"], 0.3);
  EXPECT_GT(status.back()["bytes_up"], 0);
  const auto sent = json_lines(said("sent.jsonl"));
  EXPECT_GT(sent.size(), 10u);
  EXPECT_TRUE(std::any_of(sent.begin(), sent.end(), [](const auto& line) { return line.value("words", 0) > 0; }));
  for (const auto& line : sent) {
    EXPECT_EQ(line["node"], "site-1");
    EXPECT_NE(line.value("task", ""), "join");  // what these two tell of a node leaves under masks alone
    EXPECT_NE(line.value("task", ""), "target");
  }

  file("study.toml", in_alphabet(study("iw-erm")));
  const CommandResult again = sites(R"(output=again; coordinator; node 1; node 2; node 3
    ended $coordinator coordinator)");
  EXPECT_EQ(again.out, "coordinator 0\n") << all_said();
  run_in_process("iw-erm", 10);
  expect_bits_of_one_process("iw-erm", "again");
  EXPECT_THAT(result("again", "iw-erm", "rounds.csv"), testing::ContainsRegex("\n10,3,40,.*,[0-9.]+,,,\n"));
  EXPECT_EQ(said("again/study/iw-erm-seed-0/rounds.csv").size() > 100, true);
}

TEST_F(Sites, RefuseNamesOfClassesThatAreNotTheFederations) {
  std::string table = said("site-2/train.csv");
  for (std::size_t at = 0; (at = table.find("well", at)) != std::string::npos;) table.replace(at, 4, "sane");
  file("site-2/train.csv", table);
  const CommandResult done = sites(R"(certs; coordinator; node 1; node 2; node 3
    ended $coordinator coordinator; ended $node_2 2; kill $node_1 $node_3)");
  EXPECT_EQ(done.out, "coordinator 4\n2 3\n") << all_said();
  const std::string why =
      "the training data of this site have the class sane, which is none of the federation's (ill, well, dead); agree "
      "on the names\n";
  EXPECT_THAT(said("coordinator.err"), HasSubstr("error: site-2: " + why));
  EXPECT_THAT(said("node-2.err"), HasSubstr("error: " + why));
}

TEST_F(Sites, RefuseToLackAClassUnlessTheirOwnersSaidSo) {
  std::string table = "age,dose,label\n";
  for (int i = 0; i < 20; ++i) table += fmt::format("{},{},{}\n", i % 7, i % 5, i % 2 ? "ill" : "well");
  file("site-3/train.csv", table);
  const CommandResult refused = sites(R"(certs; coordinator; node 1; node 2; node 3
    ended $coordinator coordinator; ended $node_3 3; kill $node_1 $node_2)");
  EXPECT_EQ(refused.out, "coordinator 4\n3 3\n") << all_said();
  EXPECT_THAT(said("node-3.err"),
              HasSubstr("error: the training data of this site have no example of the class dead; spell it as the "
                        "others do, or say that the site lacks it with --lacks\n"));
  const CommandResult done = sites(R"(output=s; coordinator; node 1; node 2; node 3 --lacks dead
    ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "coordinator 0\n") << all_said();
}

TEST_F(Sites, AreToldWhichClassTheyMeantWhereTheyLackOneThatNobodyHas) {
  const CommandResult done = sites(R"(certs; coordinator; node 1; node 2; node 3 --lacks ded
    ended $coordinator coordinator; ended $node_3 3; kill $node_1 $node_2)");
  EXPECT_EQ(done.out, "coordinator 4\n3 2\n") << all_said();
  const std::string why =
      "this site is said to lack a class that the federation has not: unknown class \"ded\"; did you mean \"dead\"? "
      "(known: ill, well, dead)\n";
  EXPECT_THAT(said("coordinator.err"), HasSubstr("error: site-3: " + why));
  EXPECT_THAT(said("node-3.err"), HasSubstr("error: " + why));
}

TEST_F(Sites, KeepTheirLabelMixToThemselvesWithFewExamples) {
  const CommandResult done = sites(R"(certs; coordinator; node 1; node 2 --min-examples 1000; node 3
    ended $coordinator coordinator; ended $node_2 2)");
  EXPECT_EQ(done.out, "coordinator 0\n2 0\n") << all_said();
  const auto summary = nlohmann::json::parse(result("r", "iw-erm", "summary.json"));
  EXPECT_THAT(summary["federation"].dump(), HasSubstr("site-2 keeps its label mix to itself"));
  EXPECT_THAT(said("coordinator.err"),
              HasSubstr("site-1 and site-3 tell their label mixes, so each of them can work out the other's\n"));
}

TEST_F(Sites, GoOnAfterTheCoordinatorWasKilled) {
  file("study.toml", study("scaffold", 200));
  const CommandResult done = sites(R"(certs; die="stop 3"; coordinator; node 1; node 2; node 3; listen=$address
    hold $node_1; killed $coordinator; kill -CONT $node_1; die=; coordinator --resume
    ended $coordinator coordinator; ended $node_1 1; ended $node_2 2; ended $node_3 3)");
  EXPECT_EQ(done.out, "killed 137\ncoordinator 0\n1 0\n2 0\n3 0\n") << all_said();
  const CommandResult whole = sites(R"(output=whole; coordinator
    for k in 1 2 3; do rm -r memory-$k; node $k; done; ended $coordinator coordinator)");
  EXPECT_EQ(whole.out, "coordinator 0\n") << all_said();
  EXPECT_EQ(result("r", "scaffold", "model.safetensors"), result("whole", "scaffold", "model.safetensors"));
  EXPECT_EQ(result("r", "scaffold", "rounds.csv"), result("whole", "scaffold", "rounds.csv"));
}

TEST_F(Sites, GoOnAfterANodeWasKilled) {
  file("study.toml", study("scaffold", 200));
  const CommandResult done = sites(R"(certs; die="stop 3"; coordinator; node 1; node 2; node 3
    hold $node_1; killed $node_2; node 2; kill -CONT $node_1
    ended $coordinator coordinator; ended $node_2 2)");
  EXPECT_EQ(done.out, "killed 137\ncoordinator 0\n2 0\n") << all_said();
  const CommandResult whole = sites(R"(output=whole; coordinator
    for k in 1 2 3; do rm -r memory-$k; node $k; done; ended $coordinator coordinator)");
  EXPECT_EQ(whole.out, "coordinator 0\n") << all_said();
  EXPECT_EQ(result("r", "scaffold", "model.safetensors"), result("whole", "scaffold", "model.safetensors"));
}

TEST_F(Sites, GoOnAfterTheCoordinatorWasKilledInPhase1) {
  file("study.toml", in_alphabet(study("iw-erm")));
  // The ratio is the last that a node sends before training; of all that it sends that is line 11, the hello being 1.
  const CommandResult done = sites(R"(certs; coordinator; halt="log 11"; node 1 --log sent.jsonl; halt=; node 2; node 3
    listen=$address; await is_stopped $node_1; await grep -q '"task":"ratio"' status.jsonl; killed $coordinator
    grep -c '"task":"train' status.jsonl sent.jsonl; ls r/study/*/checkpoint-*; kill -CONT $node_1; coordinator --resume
    ended $coordinator coordinator; for k in 1 2 3; do eval ended \$node_$k $k; done)");
  EXPECT_EQ(done.out, "killed 137\nstatus.jsonl:0\nsent.jsonl:0\ncoordinator 0\n1 0\n2 0\n3 0\n") << all_said();
  run_in_process("iw-erm", 10);
  expect_bits_of_one_process("iw-erm");
}

TEST_F(Sites, GoOnAfterTheCoordinatorWasKilledWhileItSaved) {
  file("study.toml", in_alphabet(study("scaffold", 40)));
  const CommandResult done = sites(R"(certs
    for die in "writing 3" "before 3" "after 3"; do
      coordinator --resume
      [ "$die" != "writing 3" ] || { listen=$address; for k in 1 2 3; do node $k; done; }
      ended $coordinator "$die"
    done
    die=; coordinator --resume
    ended $coordinator coordinator; for k in 1 2 3; do eval ended \$node_$k $k; done)");
  EXPECT_EQ(done.out, "writing 3 137\nbefore 3 137\nafter 3 137\ncoordinator 0\n1 0\n2 0\n3 0\n") << all_said();
  run_in_process("scaffold", 40);
  expect_bits_of_one_process("scaffold");
}

TEST_F(Sites, GoOnFromTheLastCheckpointWhenADiskWasFull) {
  file("study.toml", in_alphabet(study("scaffold", 40)));
  const CommandResult done = sites(R"(certs; die="full 3"; coordinator; for k in 1 2 3; do node $k; done
    ended $coordinator full; grep -c error coordinator.err; tail -n 1 coordinator.err; ls r/study/*
    die=; rm status.jsonl; listen=$address; coordinator --resume
    ended $coordinator coordinator; for k in 1 2 3; do eval ended \$node_$k $k; done)");
  // After round 0, before training, the first is saved, and then after every second round.
  EXPECT_THAT(done.out,
              testing::MatchesRegex("full 5\n1\nerror: .*checkpoint.tmp-[0-9]+/.*: no space left on device; .*\n"
                                    "(.*\n)*coordinator 0\n1 0\n2 0\n3 0\n"))
      << all_said();
  EXPECT_THAT(said("coordinator.out") + said("coordinator.err"), testing::Not(HasSubstr("damaged")));
  for (const auto& line : json_lines(said("status.jsonl"))) EXPECT_GT(line["round"], 0) << line;
  run_in_process("scaffold", 40);
  expect_bits_of_one_process("scaffold");
}

TEST_F(Sites, GoOnFromTheCheckpointBeforeOneThatIsDamaged) {
  const auto seldom = [](std::string text) {  // so that nodes are asked more than once after each
    return text.replace(text.find("checkpoint-every = 2"), 20, "checkpoint-every = 80");
  };
  file("study.toml", in_alphabet(seldom(study("scaffold", 300))));
  const CommandResult done =
      sites(R"(certs; die="before 4"; coordinator; for k in 1 2 3; do node $k; done; listen=$address
    ended $coordinator killed; die=; newest=$(ls -d r/study/*/checkpoint-* | sort -t - -k 4 -n | tail -n 1)
    printf x | dd of=$newest/server.safetensors bs=1 seek=300 conv=notrunc 2> /dev/null
    coordinator --resume
    ended $coordinator coordinator; for k in 1 2 3; do eval ended \$node_$k $k; done)");
  EXPECT_EQ(done.out, "killed 137\ncoordinator 0\n1 0\n2 0\n3 0\n") << all_said();
  EXPECT_THAT(said("coordinator.out") + said("coordinator.err"),
              testing::ContainsRegex("checkpoint-160 is damaged, so the run went on from checkpoint-80"));
  run_in_process("scaffold", 300);
  expect_bits_of_one_process("scaffold");
}

TEST_F(Sites, AreServedWhileStrangersOpenHundredsOfConnections) {
  file("study.toml", in_alphabet(study("iw-erm", 200)));
  const CommandResult done = sites(R"(certs; files=128; coordinator
    (for i in $(seq 600); do exec {line}<> /dev/tcp/${address%:*}/${address#*:}; done; touch there
     while sleep 0.01; do exec {line}<> /dev/tcp/${address%:*}/${address#*:}; done) 2> strangers.err &
    await test -e there
    for k in 1 2 3; do node $k; done
    await eval 'ls r/study/*/checkpoint-*'
    ended $coordinator coordinator; for k in 1 2 3; do eval ended \$node_$k $k; done)");
  EXPECT_EQ(done.out, "coordinator 0\n1 0\n2 0\n3 0\n") << all_said();
  EXPECT_THAT(said("coordinator.err"), HasSubstr("connections that had not said who they are"));
  run_in_process("iw-erm", 200);
  expect_bits_of_one_process("iw-erm");
}

TEST_F(Sites, AreNotMoreThanTheCoordinatorMayHaveFilesFor) {
  const CommandResult done = sites("certs; files=70; coordinator; ended $coordinator coordinator");
  EXPECT_EQ(done.out, "coordinator 5\n");
  EXPECT_THAT(said("coordinator.err"), HasSubstr("error: this process may open 70 files, and 3 nodes need 75; raise "
                                                 "the limit with ulimit -n\n"));
}

TEST_F(Sites, AreLockedOutWhenTheyAreTakenOffTheList) {
  file("study.toml", study("fedavg", 20000));
  const CommandResult done = sites(R"(certs; coordinator --round-deadline 1 --quorum 2; node 1; node 2; node 3
    await eval 'ls r/study/*/checkpoint-*'
    grep -v site-3 nodes.toml | sed '$d' > new && mv new nodes.toml
    await grep -q 'site-3 is locked out by nodes.toml' coordinator.err
    round() { tail -n 1 status.jsonl | sed 's/.*"round":\([0-9]*\).*/\1/'; }
    before=$(round); await eval '[ $(round) -gt $before ]'
    await eval 'tail -n 1 status.jsonl | grep -q "\"connected\":\[\"site-1\",\"site-2\"\]"'
    kill $coordinator; ended $coordinator coordinator)");
  EXPECT_EQ(done.out, fmt::format("coordinator {}\n", 128 + SIGTERM)) << all_said();
  EXPECT_THAT(said("coordinator.err"), HasSubstr("stopped; the same command with --resume goes on from here"));
}

TEST_F(Sites, ComeInBetweenTwoRoundsWhenTheOperatorExcludesThemNoLonger) {
  write_site(4);
  file("nodes.toml", said("nodes.toml") + "[[node]]\nname = \"site-4\"\nexclude = true\n");
  file("study.toml", study("iw-erm", 40));
  const CommandResult done = sites(
      R"(labelshift certs trial --nodes site-1,site-2,site-3,site-4 > /dev/null; die="stop 3"
    coordinator; node 1; node 2; node 3
    hold $node_1; sed -i /exclude/d nodes.toml; await grep -q 'site-4 is let in again by nodes.toml' coordinator.err
    node 4; await grep -q 'site-4.* joined' coordinator.err; kill -CONT $node_1
    ended $coordinator coordinator; ended $node_4 4)");
  EXPECT_EQ(done.out, "coordinator 0\n4 0\n") << all_said() << said("node-4.err");
  EXPECT_THAT(said("coordinator.err"), HasSubstr("site-4 is locked out by nodes.toml"));
  const auto summary = nlohmann::json::parse(result("r", "iw-erm", "summary.json"));
  const std::string warnings = summary["federation"]["warnings"].dump();
  EXPECT_THAT(warnings, HasSubstr("\"site-4 was left out by the operator in phase 1\""));
  EXPECT_THAT(warnings, testing::ContainsRegex(
                            "site-4 is let in by the operator from round [0-9]+ on, and all weights have changed"));
  double shares = 0.0;
  for (const double share : summary["federation"]["target_sum"]) shares += share;
  EXPECT_NEAR(shares, 4.0, 1e-9);
}

TEST_F(Sites, AreLeftOutOfPhaseOneWhenTheOperatorExcludesThemWhileItWaits) {
  write_site(4);
  file("nodes.toml", said("nodes.toml") + "[[node]]\nname = \"site-4\"\n");
  const CommandResult done = sites(
      R"(labelshift certs trial --nodes site-1,site-2,site-3,site-4 > /dev/null; coordinator; node 1; node 2; node 3
    await grep -q 'waiting for site-4' coordinator.err
    echo 'exclude = true' >> nodes.toml
    ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "coordinator 0\n") << all_said();
  const std::string summary = result("r", "iw-erm", "summary.json");
  EXPECT_THAT(summary, HasSubstr("site-4 was left out by the operator in phase 1; its label mix is not in the goal"));
  const auto federation = nlohmann::json::parse(summary)["federation"];
  EXPECT_EQ(federation["left_out"], nlohmann::json::parse(R"([{"node": 4, "name": "site-4"}])"));
  EXPECT_EQ(federation["ratios"][0]["name"], "site-1");
  EXPECT_EQ(federation["absences"][0]["name"], "site-4");
}

TEST_F(Sites, AreTheSameInTheSameOrderWhereARunGoesOnOrIsThere) {
  const std::string list = said("nodes.toml");
  const CommandResult done = sites(R"(certs; coordinator; node 1; node 2; node 3; ended $coordinator coordinator
    sed -i 's/site-1/site-0/; s/site-2/site-1/; s/site-0/site-2/' nodes.toml
    coordinator; ended $coordinator again)");
  EXPECT_EQ(done.out, "coordinator 0\nagain 2\n") << all_said();
  EXPECT_THAT(said("coordinator.err"),
              HasSubstr("error: r/study/iw-erm-seed-0 has a run with other nodes, or with its nodes in another order; "
                        "bring the list of nodes back, remove the folder, or choose another with --output\n"));
  file("nodes.toml", list);
  file("study.toml", study("fedavg", 20000));
  const CommandResult stopped = sites(R"(output=s; coordinator; node 1; node 2; node 3
    await eval 'ls s/study/*/checkpoint-[1-9]*'; kill -9 $coordinator; wait $coordinator
    sed -i 's/site-1/site-0/; s/site-2/site-1/; s/site-0/site-2/' nodes.toml
    coordinator --resume; ended $coordinator resumed)");
  EXPECT_EQ(stopped.out, "resumed 2\n") << all_said();
  EXPECT_THAT(said("coordinator.err"), HasSubstr(" is of a run with other nodes, or with its nodes in another order;"));
}

TEST_F(Sites, AreNotAwaitedBeforeWhatCannotGoOnIsRefused) {
  file("study.toml", study("fedavg", 20000));
  const CommandResult done = sites(R"(certs; coordinator; node 1; node 2; node 3
    await eval 'ls r/study/*/checkpoint-[1-9]*'; kill -INT $coordinator; ended $coordinator stopped
    coordinator; ended $coordinator again)");
  EXPECT_EQ(done.out, "stopped 130\nagain 2\n") << all_said();
  const std::string err = said("coordinator.err");
  EXPECT_THAT(err, HasSubstr("has a run that was stopped after "));
  EXPECT_THAT(err, testing::Not(HasSubstr("listening on")));
}

TEST_F(Sites, AreMoreThanHalfOfThoseWhoTakePartWhereNobodySaysHowMany) {
  write_site(4);
  file("nodes.toml", said("nodes.toml") + "[[node]]\nname = \"site-4\"\n");
  file("study.toml", study("fedavg", 400));
  const CommandResult done = sites(
      R"(labelshift certs trial --nodes site-1,site-2,site-3,site-4 > /dev/null; die="stop 3"
    coordinator --round-deadline 2; node 1; node 2; node 3; await grep -q 'waiting for site-4' coordinator.err
    echo 'exclude = true' >> nodes.toml
    hold $node_1; killed $node_3; kill -CONT $node_1; ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "killed 137\ncoordinator 0\n") << all_said();
  EXPECT_THAT(said("coordinator.err"), testing::ContainsRegex("warning: site-3 took no part in [0-9]+ of 400 rounds"));
}

TEST_F(Sites, KeepTheirNumbersToThemselvesAndTheSumsAreKnown) {
  file("site-1/train.csv", "age,dose,label\n1,2,ill\n1.5,1,ill\n2,0.5,well\n");
  const CommandResult done = sites(R"(certs; coordinator; node 1 --lacks dead; node 2; node 3
    ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "coordinator 0\n") << all_said();
  const auto summary = nlohmann::json::parse(result("r", "iw-erm", "summary.json"));
  for (const auto& row : summary["federation"]["ratios"]) {
    EXPECT_TRUE(row["examples"].is_null());
    EXPECT_TRUE(row["largest_weight"].is_null());
  }
  EXPECT_TRUE(summary["largest_weight"].is_null());
  EXPECT_GT(summary["federation"]["effective_share"], 0.0);
  EXPECT_THAT(summary["federation"]["warnings"].dump(),
              HasSubstr("1 of 3 nodes have no training example of class dead: other nodes carry that weight"));
}

TEST_F(Sites, AreWaitedForAndGivenUpInTheEnd) {
  const CommandResult done = sites(R"(certs; patience=12; coordinator; node 1; node 2
    ended $coordinator coordinator; kill $node_1 $node_2)");
  EXPECT_EQ(done.out, "coordinator 4\n") << all_said();
  EXPECT_THAT(said("coordinator.err"),
              testing::ContainsRegex("waiting for site-3 \\(not connected\\) since [0-9]+ s \\(join\\)"));
  EXPECT_THAT(said("coordinator.err"), HasSubstr("error: site-3: "));
}

TEST_F(Sites, TakeNobodyWithoutAGoodCertificate) {
  // Of another authority, of a name that is not on the list, and of one that is, for a client alone.
  const CommandResult done = sites(R"(certs; coordinator
    labelshift certs other --nodes site-1 > /dev/null; labelshift certs trial --nodes site-9 > /dev/null
    labelshift node --connect $address --data site-1 --tls other/site-1 --memory m1 --give-up-after 3; echo $?
    labelshift node --connect $address --data site-1 --tls trial/site-9 --memory m2 --give-up-after 3; echo $?
    chmod 644 trial/site-1/key.pem
    labelshift node --connect $address --data site-1 --tls trial/site-1 --memory m3 --give-up-after 3; echo $?
    kill $coordinator
    chmod 600 trial/site-1/key.pem
    labelshift coordinator study.toml --listen 127.0.0.1:0 --nodes nodes.toml --tls trial/site-1; echo $?)");
  EXPECT_EQ(done.out, "4\n4\n3\n3\n") << done.err << all_said();
  EXPECT_THAT(done.err, HasSubstr("type: chmod 600 trial/site-1/key.pem"));
  EXPECT_THAT(done.err, HasSubstr("error: trial/site-1: the certificate is not made for coordinators"));
  EXPECT_THAT(said("coordinator.err"), HasSubstr("site-9"));
}

TEST_F(Sites, AreRefusedWhatMakesNoSense) {
  const std::string node = "node --connect 127.0.0.1:1 ";
  expect_failure(node + "--tls trial", kUsage, "no data; write --data DIR, a folder that has train and test");
  expect_failure(node + "--data site-1", kUsage,
                 "no certificate; write --tls DIR, the folder with ca.pem, cert.pem and key.pem");
  expect_failure(node + "--data site-1 --insecure", kUsage,
                 "without certificates nobody knows who this is; give --name");
  expect_failure(node + "--data site-1 --tls trial --name a", kUsage,
                 "a node is called as its certificate says; leave --name out");
  expect_failure("node --connect 192.0.2.1:1 --data site-1 --insecure --name a --memory m", kUsage,
                 "192.0.2.1:1 is another machine, but the node has no certificate; give it one, or use a loopback "
                 "address");
  expect_failure("node --connect localhost --data site-1 --insecure --name a", kUsage,
                 "--connect is \"localhost\", expected HOST:PORT; add the port, such as localhost:5051");
  expect_failure("coordinator study.toml --listen http://a:80 --nodes nodes.toml --insecure", kUsage,
                 "--listen is \"http://a:80\", expected HOST:PORT; the host stands first, and the port is a number up "
                 "to 65535, such as 127.0.0.1:5051");
  expect_failure(node + "--data site-1 --insecure --name a --memory m --model gone.pt", kInput,
                 "cannot read gone.pt: no such file or directory; check the path");
  const std::string coordinator = "coordinator study.toml --listen 127.0.0.1:0 --nodes nodes.toml --insecure ";
  expect_failure(coordinator + "--quorum 4", kUsage, "--quorum is 4, expected at most the 3 nodes of nodes.toml");
  expect_failure(coordinator + "--quorum 2", kUsage,
                 "--quorum says who can be done without after a deadline; give --round-deadline too");
  expect_failure(
      "coordinator examples/federation.toml --listen 127.0.0.1:0 --nodes nodes.toml --insecure", kUsage,
      "examples/federation.toml, line 7 (\"IW-ERM\"): a coordinator has no data, and must be told what those "
      "of the sites are like; give classes, and shape or columns, in [data] instead of set or folders");
  expect_failure("run study.toml", kUsage,
                 "study.toml, line 3: data: the data of this experiment are at sites; run it with labelshift "
                 "coordinator, or give a data set or folders of nodes");
}

TEST_F(Sites, AreAtLeastThreeUnderMasks) {
  file("nodes.toml", "[[node]]\nname = \"site-1\"\n[[node]]\nname = \"site-2\"\n");
  const CommandResult done = sites("certs; coordinator; ended $coordinator coordinator");
  EXPECT_EQ(done.out, "coordinator 2\n");
  EXPECT_THAT(said("coordinator.err"),
              HasSubstr("error: nodes.toml has 2 nodes, and masks need at least 3: of a sum of two, each would know "
                        "the other's part; list a third, or try it on one machine with --insecure\n"));
}

TEST_F(Sites, OfThreeAreNotLeftAsTwoBeforeTrainingBegins) {
  file("study.toml", study("fedavg", 40));
  const CommandResult done = sites(R"(certs; die="stop 3"; coordinator --round-deadline 60 --quorum 2
    node 1; node 2; echo 'exclude = true' >> nodes.toml; await grep -q 'leaves fewer than 3' coordinator.err
    node 3; hold $node_1; await grep -q 'site-3 is locked out by nodes.toml' coordinator.err; kill -CONT $node_1
    ended $coordinator coordinator; kill $node_3)");
  EXPECT_EQ(done.out, "coordinator 0\n") << all_said();
  EXPECT_THAT(said("coordinator.err"),
              HasSubstr("nodes.toml leaves fewer than 3 nodes in, and until training begins masks "
                        "need as many; who is in stays as it was"));
  // Two train on, as soon as no more sums are taken of them.
  EXPECT_THAT(said("r/study/summary.json"), HasSubstr("\"site-3 is left out by the operator from round "));
  EXPECT_THAT(said("r/study/summary.json"), HasSubstr(" of 40 rounds, last since the operator left it out"));
}

TEST_F(Sites, AreToldBeforeTheyJoinWhatStepsOfTheoremsNeed) {
  std::string text = study("fedcom");
  file("study.toml", text);
  const CommandResult done = sites("certs; coordinator; ended $coordinator coordinator");
  EXPECT_EQ(done.out, "coordinator 2\n");
  EXPECT_THAT(said("coordinator.err"),
              HasSubstr("step = \"theorem\" needs beta, and sites keep to themselves what it is "
                        "made of; give smoothness"));
}

TEST_F(Sites, WhoseWeightsAreRefreshedGiveTheBitsOfOneProcess) {
  const auto refreshed = [](std::string text) { return text.insert(text.find("[ratio]\n") + 8, "refresh = 4\n"); };
  file("study.toml", in_alphabet(refreshed(study("iw-erm"))));
  const CommandResult done = sites(R"(certs; coordinator; node 1 --log sent.jsonl; node 2; node 3
    ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "coordinator 0\n") << all_said();
  run_in_process(refreshed(settings("iw-erm", 10)));
  expect_bits_of_one_process("iw-erm");
  const auto summary = nlohmann::json::parse(result("r", "iw-erm", "summary.json"));
  EXPECT_EQ(summary["federation"]["weighings"].size(), 3u);  // before training, after rounds 4 and 8
  std::multiset<std::string> tasks;
  for (const auto& line : json_lines(said("sent.jsonl"))) tasks.insert(line.value("task", ""));
  for (const std::string task : {"join", "held-out", "calibrate", "target-together", "ratio"}) {
    EXPECT_EQ(tasks.count(task), 0u) << task;  // what these tell of a node leaves under masks alone
    EXPECT_GE(tasks.count("masked " + task), 2u) << task;
  }
  EXPECT_GT(tasks.count("mask-keys"), 10u);
}

TEST_F(Sites, GoOnWhereNobodyCanReadTheirState) {
  const CommandResult done = sites(R"(certs; ln -s /dev/full status.jsonl; coordinator; node 1; node 2; node 3
    ended $coordinator coordinator; grep -c 'status.jsonl cannot be written to' coordinator.err)");
  EXPECT_EQ(done.out, "coordinator 0\n1\n") << all_said();  // which is said once
}

TEST_F(Sites, ThatHaveLeftHoldUpARefreshNoLongerThanTheDeadline) {
  std::string text = study("iw-erm", 400);
  file("study.toml", text.insert(text.find("[ratio]\n") + 8, "refresh = 200\n"));
  const CommandResult done = sites(R"(certs; die="stop 3"; coordinator --round-deadline 1 --quorum 2
    node 1; node 2; node 3; hold $node_1; killed $node_3; kill -CONT $node_1; ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "killed 137\ncoordinator 0\n") << all_said();
  EXPECT_THAT(said("coordinator.err"),
              testing::ContainsRegex(
                  "warning: weights were not refreshed after round 200, and those from before stayed: site-3: "));
}

TEST_F(Sites, OfTheExampleAreTriedOut) {
  const CommandResult done = shell(
      "TMPDIR=$PWD labelshift run examples/sites.toml --engine grpc --output r --rounds 2 --set data.fraction=0.1 "
      "--set ratio.epochs=1");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, testing::ContainsRegex("\nIW-ERM( +0\\.[0-9]{4}){3} +2\nFedAvg +0\\.[0-9]{4} +2\n"));
}

TEST_F(Sites, OfThisMachineEndWithTheCommandThatStartedThem) {
  run_in_process("fedavg", 1);
  file("local.toml", [&] {
    std::string text = said("local.toml");
    return text.replace(text.find("rounds = 1\n"), 11, "rounds = 1000000\n");
  }());
  for (const char* signal : {"TERM", "KILL"}) {
    const CommandResult done =
        shell(fmt::format(R"(TMPDIR=$PWD labelshift run local.toml --engine grpc --output {0} & run=$!
      await eval 'ls {0}/study/*/checkpoint-*'
      nodes=$(pgrep -P $run); [ $(echo "$nodes" | wc -l) = 3 ] && kill -{0} $run; wait $run
      for node in $nodes; do await eval '! kill -0 '$node; done; echo all gone)",
                          signal));
    EXPECT_EQ(done.out, "all gone\n") << done.err;
  }
}

TEST_F(Sites, ThatHaveLeftHoldUpOneRoundAndNoMore) {
  file("study.toml", study("fedavg", 400));
  const CommandResult done = sites(R"(certs; die="stop 3"; coordinator --round-deadline 4 --quorum 2
    node 1; node 2; node 3; hold $node_1; killed $node_3; kill -CONT $node_1; ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "killed 137\ncoordinator 0\n") << all_said();
  EXPECT_THAT(said("coordinator.err"),
              testing::ContainsRegex("warning: site-3 took no part in [0-9]+ of 400 rounds, last since it is not "
                                     "connected\n"));
  const auto summary = nlohmann::json::parse(result("r", "fedavg", "summary.json"));
  EXPECT_THAT(summary["federation"]["warnings"].dump(), HasSubstr("site-3 took no part in "));
}

TEST_F(Sites, ThatSleepBeyondADeadlineAreDoneWithoutAndComeBack) {
  file("study.toml", study("fedavg", 60));
  const CommandResult done = sites(R"(certs; coordinator --round-deadline 2 --quorum 2
    node 1; node 2; halt="log 20"; node 3 --log sent.jsonl; await is_stopped $node_3
    round() { tail -n 1 $1 | sed 's/.*"round":\([0-9]*\).*/\1/'; }
    missed=$(($(round sent.jsonl) + 1)); await eval '[ $(round status.jsonl) -gt $((missed + 1)) ]'; kill -CONT $node_3
    ended $coordinator coordinator; ended $node_3 3)");
  EXPECT_EQ(done.out, "coordinator 0\n3 0\n") << all_said();
  const std::string missed = "site-3 took no part in [1-9][0-9]* of 60 rounds, last since it sent nothing for 2 s";
  EXPECT_THAT(said("coordinator.err"), testing::ContainsRegex("warning: " + missed + "\n"));
  const auto summary = nlohmann::json::parse(result("r", "fedavg", "summary.json"));
  EXPECT_THAT(summary["federation"]["warnings"].dump(), testing::ContainsRegex(missed));
  const auto sent = json_lines(said("sent.jsonl"));
  ASSERT_GT(sent.size(), 20u);
  EXPECT_GT(sent[19]["round"], 0);  // it slept in the middle of training
  EXPECT_EQ(sent.back()["round"], 60);
}

TEST_F(Sites, BelowTheQuorumAreWaitedForByNameAndGivenUpInTheEnd) {
  file("study.toml", study("fedavg", 400));
  const CommandResult done = sites(R"(certs; patience=12; die="stop 3"; coordinator --round-deadline 1 --quorum 3
    node 1; node 2; node 3; hold $node_1; killed $node_3; kill -CONT $node_1; ended $coordinator coordinator
    kill $node_1 $node_2)");
  EXPECT_EQ(done.out, fmt::format("killed 137\ncoordinator {}\n", kPeer)) << all_said();
  EXPECT_THAT(said("coordinator.err"),
              testing::ContainsRegex("waiting for site-3 \\(not connected\\) since [0-9]+ s \\(training\\); start it "
                                     "there: labelshift node "));
  EXPECT_THAT(said("coordinator.err"),
              testing::EndsWith("error: gave up after 12 s: 2 of 3 nodes have answered, expected at least 3; the first "
                                "that has not is site-3: it is not connected: it sent nothing for 12 s\n"));
}

TEST_F(Sites, ThatComeBackWithinTheDeadlineLoseNoRound) {
  file("study.toml", study("fedavg", 400));
  const CommandResult done = sites(R"(certs; die="stop 3"; coordinator --round-deadline 60 --quorum 2
    node 1; node 2; node 3; hold $node_3
    await grep -q '"task":"training".*"waiting_for":\["site-3"\]' status.jsonl; killed $node_3; node 3
    ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "killed 137\ncoordinator 0\n") << all_said();
  EXPECT_THAT(said("coordinator.err"), testing::Not(HasSubstr("took no part")));
}

TEST_F(Sites, ThatWereLockedOutAreNamedInTheSummary) {
  file("study.toml", study("fedavg", 40));
  const CommandResult done = sites(R"(certs; die="stop 3"; coordinator --round-deadline 60 --quorum 2
    node 1; node 2; node 3; hold $node_1; grep -v site-3 nodes.toml | sed '$d' > new && mv new nodes.toml
    await grep -q 'locked out by' node-3.err; kill -CONT $node_1
    ended $coordinator coordinator; kill $node_3; cat node-3.err)");
  EXPECT_THAT(done.out, testing::StartsWith("coordinator 0\n")) << all_said();
  EXPECT_THAT(done.out, HasSubstr("\"site-3\" is locked out by the coordinator's list of nodes; ask who runs it"));
  EXPECT_THAT(said("coordinator.err"),
              testing::ContainsRegex("warning: site-3 is left out by the operator from round [0-9]+ on"));
  EXPECT_THAT(said("r/study/summary.json"), HasSubstr("\"site-3 is left out by the operator from round "));
}

TEST_F(Sites, AreCalledByTheirNamesInResults) {
  const CommandResult done = sites(R"(certs; coordinator --show nodes; node 1; node 2; node 3
    ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "coordinator 0\n") << all_said();
  EXPECT_THAT(said("coordinator.out"), testing::ContainsRegex("run +average +site-1 +site-2 +site-3 +spread\n"));
  EXPECT_THAT(said("r/study/nodes.csv"), HasSubstr("\niw-erm,0,site-2,"));
  const auto summary = nlohmann::json::parse(result("r", "iw-erm", "summary.json"));
  EXPECT_EQ(summary["nodes"][2]["name"], "site-3");
  const CommandResult again = sites("coordinator; ended $coordinator coordinator");  // what is there is read
  EXPECT_EQ(again.out, "coordinator 0\n") << all_said();
  EXPECT_THAT(said("r/study/nodes.csv"), HasSubstr("\niw-erm,0,site-2,"));
}

TEST_F(Sites, AreToldWhereNothingWasJudged) {
  for (int k = 1; k <= kSites; ++k) file(fmt::format("site-{}/test.csv", k), "age,dose\n0.1,2.1\n1.2,1.1\n2,0.1\n");
  const CommandResult done = sites("certs; coordinator; node 1; node 2; node 3; ended $coordinator coordinator");
  EXPECT_EQ(done.out, "coordinator 0\n") << all_said();
  const std::string note =
      "Nothing was judged: no site has labels of its test data. With run.source-holdout = 0.2 and a method of [ratio] "
      "a "
      "fifth of the training examples would be held out to judge by.";
  EXPECT_THAT(said("coordinator.out"), HasSubstr("\nNote: " + note + "\n"));
  EXPECT_EQ(nlohmann::json::parse(said("r/study/summary.json"))["notes"], nlohmann::json{note});
  file("study.toml", study("iw-erm") + "source-holdout = 0.2\n");
  const CommandResult judged = sites(R"(output=judged; coordinator; node 1; node 2; node 3
    ended $coordinator coordinator)");
  EXPECT_EQ(judged.out, "coordinator 0\n") << all_said();
  EXPECT_THAT(said("coordinator.out"), testing::Not(HasSubstr("judged:")));
  EXPECT_THAT(said("coordinator.out"), testing::ContainsRegex("\niw-erm +site-1 +[01]\\.[0-9]+ "));
}

TEST_F(Sites, OfThisMachineAndNodesOfOneProcessDoNotGoOnWithEachOthersRuns) {
  run_in_process("fedavg", 1);
  file("local.toml", [&] {
    std::string text = said("local.toml");
    return text.replace(text.find("rounds = 1\n"), 11, "rounds = 1000000\n");
  }());
  const CommandResult done = shell(R"(export TMPDIR=$PWD
    stopped() { labelshift run local.toml "$@" & run=$!; await eval 'ls $output/study/*/checkpoint-*'
      kill -9 $run; wait $run; }
    output=a; stopped --output a --engine grpc; labelshift run local.toml --output a --resume; echo $?
    output=b; stopped --output b; labelshift run local.toml --output b --resume --engine grpc; echo $?)");
  EXPECT_EQ(done.out, "2\n2\n") << done.err;
  EXPECT_THAT(done.err, testing::ContainsRegex(
                            "error: a/study/fedavg-seed-0/checkpoint-[0-9]+ has no memory of the nodes, which kept it "
                            "themselves; go on with the engine that began the run, or choose another folder with "
                            "--output\n"));
  EXPECT_THAT(done.err, testing::ContainsRegex(
                            "error: b/study/fedavg-seed-0/checkpoint-[0-9]+ has the memory of the nodes, which cannot "
                            "be sent to them; go on with the engine that began the run, or choose another folder with "
                            "--output\n"));
}

TEST_F(Sites, SayTheRoundThatTheyGoOnFrom) {
  file("study.toml", study("fedavg", 20000));
  const CommandResult done = sites(R"(certs; coordinator; node 1; node 2; node 3; listen=$address
    await eval 'ls -d r/study/*/checkpoint-[1-9]*'; kill -9 $coordinator $node_1; wait $coordinator; rm status.jsonl
    coordinator --resume; await test -s status.jsonl; kill $coordinator)");
  const auto status = json_lines(said("status.jsonl"));
  ASSERT_FALSE(status.empty()) << all_said();
  for (const auto& line : status) EXPECT_GT(line["round"], 0) << line;
}

TEST_F(Sites, MendALogWhoseLastLineIsTorn) {
  for (const char* tail : {R"({"time":"2026-01-01T00:00:00.000Z","node":"si)", R"({"node":"whole"})", "", "notes"}) {
    file("sent.jsonl", fmt::format("{{\"node\":\"first\"}}\n{}", tail));
    const CommandResult done = sites(R"(certs
      labelshift node --connect 127.0.0.1:1 --data site-1 --tls trial/site-1 --memory m --log sent.jsonl \
        --give-up-after 1; echo $?)");
    EXPECT_EQ(done.out, "4\n") << done.err;
    std::string text = said("sent.jsonl");
    if (tail == std::string("notes")) {  // which is not ours to remove
      ASSERT_THAT(text, HasSubstr("\nnotes\n"));
      text.erase(text.find("notes\n"), 6);
    }
    const auto lines = json_lines(text);
    ASSERT_GE(lines.size(), 2u);
    EXPECT_EQ(lines[0]["node"], "first");
    EXPECT_EQ(lines[1]["node"], tail == std::string(R"({"node":"whole"})") ? "whole" : "site-1");
    EXPECT_EQ(lines.back()["kind"], "hello");
  }
  const CommandResult full = sites(R"(
    labelshift node --connect 127.0.0.1:1 --data site-1 --tls trial/site-1 --memory m --log /dev/full; echo $?)");
  EXPECT_EQ(full.out, "5\n");
  EXPECT_EQ(full.err,
            "error: /dev/full: cannot be written (No space left on device); nothing leaves this node that is not "
            "logged there, so make room and start it again\n");
}

TEST_F(Sites, KeepWhatTheyRememberFromOthers) {
  const CommandResult done = sites(R"(umask 022; certs; mkdir memory-1; coordinator
    node 1 --log sent.jsonl; node 2; node 3; ended $coordinator coordinator
    stat -c %a memory-1 memory-2 sent.jsonl; find memory-* -type f -perm /077; find memory-*/* -type d -perm /077)");
  EXPECT_EQ(done.out, "coordinator 0\n755\n700\n600\n") << all_said();
}

TEST_F(Sites, OfThisMachineLeaveNoKeysBehind) {
  run_in_process("fedavg", 1);
  file("local.toml", [&] {
    std::string text = said("local.toml");
    return text.replace(text.find("rounds = 1\n"), 11, "rounds = 1000000\n");
  }());
  const CommandResult done = shell(R"(export TMPDIR=$PWD/tmp; mkdir tmp tmp/labelshift-sites-of-mine
    labelshift run local.toml --engine grpc --output r & run=$!; await eval 'ls r/study/*/checkpoint-*'
    kill -9 $run; wait $run; find tmp -name '*.pem'; left=$(ls tmp | wc -l)
    labelshift run local.toml --engine grpc --output r --rounds 1 --seed 5; echo $? $left; ls tmp)");
  EXPECT_EQ(done.out.substr(done.out.rfind("0 ")), "0 2\nlabelshift-sites-of-mine\n") << done.out << done.err;
  EXPECT_THAT(done.out, testing::Not(HasSubstr(".pem")));
}

TEST_F(Sites, OfThisMachineSayHowOneOfThemEnded) {
  run_in_process("fedavg", 1);
  file("local.toml", [&] {
    std::string text = said("local.toml");
    return text.replace(text.find("rounds = 1\n"), 11, "rounds = 1000000\n");
  }());
  const CommandResult done = shell(R"(TMPDIR=$PWD labelshift run local.toml --engine grpc --output r & run=$!
    await eval 'ls r/study/*/checkpoint-*'; kill -9 $(pgrep -P $run | head -n 1); wait $run; echo $?)");
  EXPECT_EQ(done.out, "4\n");
  EXPECT_THAT(done.err, testing::ContainsRegex("error: the process of node [1-3] was ended by signal 9 (.*); if "
                                               "nobody did that, memory was short: use fewer nodes or a smaller "
                                               "model, and go on with --resume\n"));
}

TEST_F(Sites, OfThisMachineAreAtLeastThree) {
  file("two.toml",
       "name = \"study\"\n[data]\nfolders = [{train = \"site-1/train.csv\", test = \"site-1/test.csv\"}, {train = "
       "\"site-2/train.csv\", test = \"site-2/test.csv\"}]\n" +
           settings("fedavg", 1));
  expect_failure(
      "run two.toml --engine grpc --output r", kUsage,
      "this experiment has 2 nodes, and masks need at least 3: of a sum of two, each would know the other's part; "
      "add a node, or leave --engine grpc out");
}

TEST_F(Sites, SayWhyTheyCannotReachTheCoordinator) {
  const CommandResult done = sites(R"(certs
    node() {  # OPTIONS: prints the first reason that it gives, and ends it
      rm -f said; labelshift node --data site-1 --memory m "$@" 2> said & local node=$!
      await grep -q 'site-1: ' said; grep -m 1 'site-1: ' said; kill -9 $node; wait $node
    }
    labelshift node --data site-1 --memory m --connect 127.0.0.1:1 --tls trial/site-1 --give-up-after 2 2>&1 | tail -n 1
    node --connect $(printf 'a%.0s' $(seq 70)):5051 --tls trial/site-1
    coordinator
    labelshift certs other --nodes site-1 > /dev/null
    node --connect $address --tls other/site-1
    node --connect $address --insecure --name site-1
    labelshift node --connect $address --data site-1 --tls trial/site-1 --memory m1 2> first & 
    await grep -q connected first
    node --connect $address --tls trial/site-1
    kill $coordinator; wait $coordinator; rm -r trial; labelshift certs trial --nodes site-1 --host example.org > o
    coordinator; node --connect $address --tls trial/site-1; kill $coordinator)");
  std::vector<std::string> lines;
  std::istringstream in(done.out);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 6u) << done.out << done.err;
  EXPECT_THAT(lines[0],
              testing::StartsWith("error: site-1 could not reach the coordinator at 127.0.0.1:1 for 2 s: nobody "
                                  "listens there; look whether the "
                                  "coordinator runs, and at the host and port of its line \"listening on\" ("));
  EXPECT_THAT(lines[1], HasSubstr("a:5051: no machine is known by this name; look how the host is spelt ("));
  EXPECT_THAT(lines[2],
              HasSubstr(": the coordinator's certificate has expired or is not signed by the authority that is "
                        "believed here, or it speaks no TLS; look at the port, and take ca.pem from who made "
                        "the coordinator's certificate ("));
  EXPECT_THAT(lines[3],
              HasSubstr(": the coordinator closed the connection at once; it wants a certificate, or does not "
                        "believe this one, or is none: its own messages say more ("));
  EXPECT_THAT(lines[4], HasSubstr("site-1: was refused by "));
  EXPECT_THAT(lines[4], HasSubstr("; stop one of the two, or give this one a certificate of its own"));
  EXPECT_THAT(lines[5],
              HasSubstr(": the coordinator's certificate is not for the host that was dialled; dial one that it "
                        "is for, or have it made again for this one ("));
}

TEST_F(Sites, SayWhichColumnsTheyLack) {
  std::string table = "age,label\n";
  for (int i = 0; i < 30; ++i) table += fmt::format("{},{}\n", i % 7, kClasses[i % 3]);
  file("site-2/train.csv", table);
  const CommandResult done = sites(R"(certs; coordinator; node 1; node 2; node 3
    ended $coordinator coordinator; kill $node_1 $node_2 $node_3)");
  EXPECT_EQ(done.out, "coordinator 4\n") << all_said();
  EXPECT_THAT(said("coordinator.err"),
              HasSubstr("error: site-2: the training data of this site lack the column dose; the federation's columns "
                        "are age, dose: look at the first line of the table, and at its separator\n"));
}

TEST_F(Sites, OfWhichOneAloneWouldTellItsMixAreNotAskedForIt) {
  const CommandResult done = sites(R"(certs
    coordinator; node 1 --log sent.jsonl; node 2 --min-examples 1000; node 3 --min-examples 1000
    ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "coordinator 3\n") << all_said();
  EXPECT_THAT(said("coordinator.err"),
              HasSubstr("error: site-1 alone would tell its label mix, and no mask can hide it in a sum of zeros: all "
                        "others keep theirs to themselves or have no test examples. Have others tell theirs too, or "
                        "train without ratios\n"));
  EXPECT_THAT(said("sent.jsonl"), testing::Not(HasSubstr("\"task\":\"masked target\"")));
  EXPECT_THAT(said("sent.jsonl"), HasSubstr("\"task\":\"masked join\""));
}

TEST_F(Sites, ThatAllKeepTheirMixToThemselvesAreToldSo) {
  const CommandResult done = sites(R"(certs; coordinator; for k in 1 2 3; do node $k --min-examples 1000; done
    ended $coordinator coordinator)");
  EXPECT_EQ(done.out, "coordinator 3\n") << all_said();
  EXPECT_THAT(said("coordinator.err"),
              HasSubstr("error: every node keeps its label mix to itself, having fewer examples of some class than it "
                        "asks for, so there is nothing to weight towards; have nodes ask for fewer, or train without "
                        "ratios\n"));
}

TEST_F(Sites, ThatNeverCameAreToldWhatToType) {
  const CommandResult done = sites(R"(certs; patience=7; coordinator; node 1; node 2
    ended $coordinator coordinator; kill $node_1 $node_2)");
  EXPECT_EQ(done.out, "coordinator 4\n") << all_said();
  EXPECT_THAT(said("coordinator.err"),
              testing::ContainsRegex("waiting for site-3 \\(not connected\\) since [5-9] s \\(join\\); start it there: "
                                     "labelshift node --connect 127.0.0.1:[0-9]+ --data DIR --tls DIR\n"));
  EXPECT_THAT(said("coordinator.err"),
              HasSubstr("error: site-3: it is not connected: it sent nothing for 7 s; start it there, or list it with "
                        "exclude = true and begin again without it\n"));
}

TEST_F(Sites, CanBeManyInAList) {
  const CommandResult done = sites(R"(certs
    for k in $(seq 200000); do printf '[[node]]\nname = "site-%d"\n' $k; done > nodes.toml
    time timeout 10 labelshift coordinator study.toml --listen 127.0.0.1:0 --nodes nodes.toml --tls trial/coordinator
    echo $?)");
  EXPECT_EQ(done.out, "2\n") << done.err;
  EXPECT_THAT(done.err, HasSubstr("error: nodes.toml lists 200000 nodes, expected at most 10000; split them into "
                                  "several federations\n"));
}

TEST_F(Sites, APipeThatNobodyReadsIsRefusedAtOnce) {
  const CommandResult done = sites(R"(certs; mkfifo pipe
labelshift coordinator study.toml --listen 127.0.0.1:0 --nodes nodes.toml --tls trial/coordinator --status pipe
echo $?
labelshift node --connect 127.0.0.1:1 --data site-1 --tls trial/site-1 --memory m --log pipe --give-up-after 5
echo $?)");
  EXPECT_EQ(done.out, "5\n5\n") << done.err;
  EXPECT_THAT(done.err, HasSubstr("cannot write pipe: no such device or address"));
}

TEST_F(Sites, CanBeStoppedWhileTheyReadTheirData) {
  const CommandResult done = sites(R"(certs; rm site-1/test.csv; mkfifo site-1/test.csv
    labelshift node --connect 127.0.0.1:1 --data site-1 --tls trial/site-1 --memory m & node=$!
    exec 3> site-1/test.csv  # once it is read
    kill -TERM $node; await eval '! kill -0 $node'; ended $node node)");
  EXPECT_EQ(done.out, "node 143\n") << done.err;
}

TEST_F(Sites, GoOnWhenWhoReadTheirMessagesHasGone) {
  const CommandResult done = sites(R"(certs; mkfifo messages; true < messages &
labelshift node --connect 127.0.0.1:1 --data site-1 --tls trial/site-1 --memory m --give-up-after 2 2> messages
echo $?)");
  EXPECT_EQ(done.out, "4\n") << done.err;  // it gave up in its own time, and was not ended by SIGPIPE
}

}  // namespace
}  // namespace labelshift
