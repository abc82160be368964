#include <gmock/gmock.h>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

/// The command in a folder of its own, without the module that needs LibTorch.
class WithoutTorch : public CommandTest {
 protected:
  WithoutTorch() { EXPECT_EQ(shell("mkdir bin && cp \"$(command -v labelshift)\" bin").err, ""); }
  CommandResult alone(const std::string& arguments) const {
    return shell("PATH=$PWD/bin:$PATH; labelshift " + arguments);
  }
  /// A module from that of the build, by an expression of sed.
  void give_module(const std::string& change) const {
    EXPECT_EQ(shell("LC_ALL=C sed '" + change +
                    "' \"$(dirname \"$(command -v labelshift)\")/liblabelshift_torch.so\" > bin/liblabelshift_torch.so")
                  .err,
              "");
  }
};

TEST_F(WithoutTorch, DoesWhatNeedsNoNetOfLibTorch) {
  const std::vector<std::string> commands = {
      "estimate" + kTiny,
      "adapt" + kTiny + "--output-probs corrected.csv",
      "watch --source-probs examples/tiny/source_probs.csv --source-labels examples/tiny/source_labels.csv "
      "< examples/tiny/target_probs.csv",
      "train --data examples/small-fashion-mnist --model logistic --epochs 2 --output p.safetensors",
      "predict --predictor p.safetensors --data examples/small-fashion-mnist --output probs.npy",
      "run examples/federation.toml --rounds 2",
      "report results/federation",
      "data",
      "estimators",
      "certs trial --nodes a,b",
      "completion bash",
      "--version",
  };
  for (const std::string& arguments : commands) {
    const CommandResult result = alone(arguments);
    EXPECT_EQ(result.status, 0) << arguments << "\n" << result.err;
  }
}

const std::string kTrainMlp = "train --data examples/small-fashion-mnist --model mlp --epochs 1";

TEST_F(WithoutTorch, SaysWhichPackageToInstall) {
  give_module(R"(s/libtorch_cpu\.so\../libtorch_cpu.so.9/g)");  // of another version, which is not here
  const CommandResult result = alone(kTrainMlp);
  EXPECT_EQ(result.status, kSystem);
  EXPECT_THAT(result.err,
              testing::MatchesRegex("error: LibTorch is needed here and is not installed; type: apt install "
                                    "libtorch9[.0-9]*\n"));
  EXPECT_EQ(result.out, "");
}

TEST_F(WithoutTorch, TellsAMissingOrDamagedModuleFromAMissingLibTorch) {
  EXPECT_THAT(alone(kTrainMlp).err,
              testing::MatchesRegex("error: liblabelshift_torch.so, the part of labelshift that uses LibTorch, is "
                                    "needed here and is not in [^ ;]*/labelshift; install labelshift again, or put the "
                                    "module's folder into LD_LIBRARY_PATH\n"));
  give_module("2,$d");
  const CommandResult damaged = alone(kTrainMlp);
  EXPECT_EQ(damaged.status, kSystem);
  EXPECT_THAT(damaged.err, testing::MatchesRegex("error: cannot load [^ ]*/liblabelshift_torch.so: .*; install "
                                                 "labelshift again\n"));
}

}  // namespace
}  // namespace labelshift
