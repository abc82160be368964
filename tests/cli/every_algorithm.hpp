#pragma once

#include <map>
#include <regex>

#include "tests/cli/run_command.hpp"

namespace labelshift {

/// Tests that run every algorithm that the program under test knows, as rows of one experiment, and compare what they
/// leave in folders.
class EveryAlgorithmTest : public CommandTest {
 protected:
  /// A row for each algorithm, with the settings that it cannot do without and those that are special to it.
  /// `normed_net` is [model] of a net with batch norms.
  std::string rows_of_every_algorithm(const std::string& normed_net) const {
    static const std::string plain = ", server = \"sgd\", weight-decay = 0.0";
    static const std::map<std::string, std::string> training{
        {"fedavg", ", sampled = 3"},
        {"fedprox", ", proximal = 0.1"},
        {"fedbn", ", rounds = 2"},
        {"scaffold", ", sampled = 4"},
        {"fedcom", plain + ", learning-rate = 8.0, compression = \"qsgd\", step = \"theorem\""},
        {"fedcomgate", plain + ", learning-rate = 1.0, compression = \"random-k\""},
        {"fafed", ", weight-decay = 0.0"},
        {"proxskip", plain + ", learning-rate = 1.0, local-steps = 1, regulariser = \"l1\""},
        {"fedlc", ", sampled = 3, fedlc-tau = 2.0"},
        {"fedpals", ", sampled = 3"},
    };
    static const std::map<std::string, std::string> ratio{{"fedcom", "true"}, {"iw-erm", "vrls"}, {"fedpals", "mlls"}};
    std::string rows;
    for (const std::string& name : algorithms()) {
      const auto own = training.find(name);
      rows += fmt::format("[[compare]]\nname = \"{0}\"\ntraining = {{ algorithm = \"{0}\"{1} }}\n", name,
                          own == training.end() ? "" : own->second);
      if (name == "fedbn") rows += "model = { " + normed_net + " }\n";
      if (const auto method = ratio.find(name); method != ratio.end())
        rows += fmt::format("ratio = {{ method = \"{}\" }}\n", method->second);
    }
    return rows;
  }

  /// All files of a folder of runs, as their names and sums, but what tells the time or the command and what else is
  /// said to differ: some files, lines with some keys, and a list.
  std::string results(const std::string& folder, const std::string& files = "", const std::string& keys = "",
                      const std::string& list = "none") const {
    const CommandResult all = shell(fmt::format(
        "cd {} && for f in $(find . -type f ! -name SHA256SUMS ! -name lock ! -name '*.svg' ! -name report.html ! "
        "-path './predictors/*' ! -path './{}' | sort); do echo $f; sed -E '/^  \"{}\": /,/^  \\]/d; "
        "/\"(seconds|command{})\"/d' $f | sha256sum; done",
        folder, files, list, keys));
    EXPECT_EQ(all.status, 0) << all.err;
    return all.out;
  }

 private:
  /// As the program lists them where it is asked for one that there is not.
  std::vector<std::string> algorithms() const {
    file("unknown.toml", "name = \"unknown\"\n[training]\nalgorithm = \"\"\n");
    const std::string said = labelshift("run unknown.toml").err;
    std::smatch known;
    EXPECT_TRUE(std::regex_search(said, known, std::regex("\\(known: ([^)]+)\\)\n$"))) << said;
    const std::string list = known[1];
    const std::regex separator(", ");
    return {std::sregex_token_iterator(list.begin(), list.end(), separator, -1), {}};
  }
};

}  // namespace labelshift
