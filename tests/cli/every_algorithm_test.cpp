#include "tests/cli/every_algorithm.hpp"

#include <gmock/gmock.h>

namespace labelshift {
namespace {

using testing::HasSubstr;

class SitesOfEveryAlgorithm : public EveryAlgorithmTest {
 protected:
  static constexpr int kSites = 5;
  static constexpr const char* kClasses[] = {"dead", "ill", "well"};

  /// Site k has more of class k, and meets more of the next.
  std::string data() const {
    std::string folders;
    for (int k = 0; k < kSites; ++k) {
      write_table(fmt::format("train-{}.csv", k), k, 60);
      write_table(fmt::format("test-{}.csv", k), k + 1, 40);
      folders += fmt::format("{{ train = \"train-{0}.csv\", test = \"test-{0}.csv\" }}, ", k);
    }
    return "[data]\nfolders = [" + folders + "]\n";
  }

 private:
  void write_table(const std::string& name, int most, int rows) const {
    std::string table = "age,dose,label\n";
    for (int i = 0; i < rows; ++i) {
      const int c = i % 3 == 2 ? most % 3 : i % 9 / 3;
      table += fmt::format("{},{},{}\n", c + 0.1 * (i % 7), 2 - c + 0.1 * (i % 5), kClasses[c]);
    }
    file(name, table);
  }
};

constexpr const char* kSettings = R"(
[model]
net = "logistic"
[training]
rounds = 10
batch = 8
local-steps = 2
learning-rate = 0.1
[ratio]
net = "logistic"
epochs = 20
learning-rate = 0.1
[run]
evaluate-every = 5
checkpoint-every = 2
)";

TEST_F(SitesOfEveryAlgorithm, GiveTheBitsOfOneProcessWhenTheyAreTriedOut) {
  file("all.toml",
       "name = \"all\"\n" + data() + kSettings +
           rows_of_every_algorithm("net = \"" LABELSHIFT_EXAMPLES "/../tests/federation/reference/normed.pt\""));
  const CommandResult here = labelshift("run all.toml --output here");
  ASSERT_EQ(here.status, 0) << here.err;
  const CommandResult done = shell("TMPDIR=$PWD labelshift run all.toml --engine grpc --output there");
  EXPECT_EQ(done.status, 0) << done.err;
  // Certificates of masks make messages longer. What nodes remember, and how many examples they have, stays with them.
  const char* const files = "*/batch-norms/*";
  const char* const keys = "|bytes_.*|memory_at_nodes";
  const char* const list = "label_counts";
  const std::string expected = results("here", files, keys, list);
  for (const char* name : {"model.safetensors", "rounds.csv", "experiment.toml", "summary.json"})
    EXPECT_THAT(expected, HasSubstr(fmt::format("./all/fedbn-seed-0/{}", name)));
  EXPECT_EQ(results("there", files, keys, list), expected);
  EXPECT_FALSE(std::filesystem::exists(path("there/all/site-memory")));
}

}  // namespace
}  // namespace labelshift
