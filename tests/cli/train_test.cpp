#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run_command.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;

const std::string kAnyZeta = "--data examples/small-fashion-mnist --model logistic ";
const std::string kClothes = kAnyZeta + "--zeta 1 ";
const std::string kMlpAnyZeta = "--data examples/small-fashion-mnist --model mlp --set hidden=16 ";
const std::string kMlp = kMlpAnyZeta + "--zeta 1 ";

class TrainCommand : public CommandTest {
 protected:
  nlohmann::json trained(const std::string& arguments) const {
    const CommandResult result = labelshift("train --format json " + arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }
};

TEST_F(TrainCommand, SaysHowGoodThePredictorIs) {
  const auto json = trained(kClothes + "--epochs 20");
  EXPECT_EQ(json["zeta"], 1.0);
  EXPECT_EQ(json["epochs"], 20);
  EXPECT_EQ(json["stopped_by"], "epochs");
  EXPECT_EQ(json["cross_entropy"].size(), 20U);
  const auto& held_out = json["quality"]["held out"];
  EXPECT_EQ(json["examples"].get<int>(), 9 * held_out["examples"].get<int>());
  EXPECT_GT(json["quality"]["test"]["raw"]["accuracy"], 0.6);  // of ten classes
  // zeta = 1 leaves a predictor under-confident, which the calibration mends.
  EXPECT_LT(held_out["calibrated"]["nll"], held_out["raw"]["nll"]);
  EXPECT_GT(std::filesystem::file_size(path("predictor.safetensors")), 10U * 784 * 4);
  const CommandResult table = labelshift("train --epochs 1 --output other.safetensors " + kClothes);
  EXPECT_THAT(table.out, testing::StartsWith("Trained logistic on "));
  EXPECT_THAT(table.out, HasSubstr("\nheld out  "));
  EXPECT_THAT(table.out, HasSubstr("\ntest      "));
  EXPECT_THAT(table.out, testing::EndsWith("\nPredictor: other.safetensors\n"));
}

TEST_F(TrainCommand, ChoosesTheCalibrationAlsoWhereZetaIsGiven) {
  const std::string long_training = "--epochs 20 " + kClothes;
  const auto chosen = trained(long_training);
  const std::string kind = chosen["calibration"];
  // zeta = 1 leaves a predictor so under-confident that no calibration at all cannot be within noise of the best.
  EXPECT_NE(kind, "none");
  EXPECT_EQ(trained(long_training + "--calibration none")["calibration"], "none");
  const auto same = trained(long_training + "--calibration auto");
  EXPECT_EQ(same["calibration"], kind);
  EXPECT_EQ(same["quality"], chosen["quality"]);
  EXPECT_LT(chosen["quality"]["test"]["calibrated"]["nll"], chosen["quality"]["test"]["raw"]["nll"]);
}

TEST_F(TrainCommand, LeavesOutColumnsThatAreNoPartOfAnExample) {
  std::string table = "id,x,label\n";
  for (int i = 0; i < 40; ++i) table += fmt::format("p{},{},{}\n", i, i % 2 == 0 ? -1.0 : 1.0, i % 2 == 0 ? "a" : "b");
  file("table.csv", table);
  expect_failure("train --model logistic --data table.csv", kInput,
                 "table.csv, line 2, column 1: found \"p0\", expected a number; leave a column that is no number out "
                 "with --ignore-columns, by its name or its number from 0, and name that of the labels with "
                 "--label-column");
  trained("--data table.csv --model logistic --zeta 1 --epochs 1 --ignore-columns id");
  const CommandResult predicted =
      labelshift("predict --predictor predictor.safetensors --data table.csv --ignore-columns 0 --output probs.csv");
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  EXPECT_THAT(bytes_of(path("probs.csv")), testing::StartsWith("a,b\n"));
}

TEST_F(TrainCommand, ReadsATableAndPredictsAnother) {
  // Two classes on the two sides of x = 0, far apart: ten epochs of steps of 0.01 tell them apart.
  std::string table = "x,y,side\n";
  for (int i = 0; i < 200; ++i)
    table += fmt::format("{},{},{}\n", (i % 2 == 0 ? -1.0 : 1.0) + 0.001 * i, i % 7, i % 2 == 0 ? "left" : "right");
  file("table.csv", table);
  file("new.csv", "x,y,side\n1,3,right\n1.5,2,right\n");  // no example of one class
  const auto json = trained("--data table.csv --label-column side --model logistic --learning-rate 0.01");
  EXPECT_GT(json["quality"]["held out"]["raw"]["accuracy"], 0.99);
  const CommandResult predicted = labelshift(
      "predict --predictor predictor.safetensors --data new.csv --label-column side --output new_probs.csv "
      "--labels-output new_labels.csv");
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  EXPECT_THAT(bytes_of(path("new_probs.csv")), testing::StartsWith("left,right\n"));
  EXPECT_EQ(bytes_of(path("new_labels.csv")), "label\nright\nright\n");
  expect_failure(
      "train --data fashion-mnist --label-column 3", kUsage,
      "fashion-mnist has labels of its own; write ./fashion-mnist for a path of that name; leave --label-column "
      "and --labels out");
}

TEST_F(TrainCommand, TrainsANetThatPythonExported) {
  // Images of 8 x 8 and three classes, as tests/learning/reference/make_torchscript.py says.
  std::filesystem::create_directories(path("data"));
  const CommandResult made = shell(R"(/usr/bin/python3 - <<'END'
import pathlib, struct, random
random.seed(0)
for part, count in (("train", 300), ("t10k", 60)):
    labels = [i % 3 for i in range(count)]
    images = b"".join(bytes(random.randrange(100) + (100 if row // 3 == label else 0) for row in range(8)
                            for _ in range(8)) for label in labels)
    pathlib.Path(f"data/{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, count, 8, 8) + images)
    pathlib.Path(f"data/{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, count) + bytes(labels))
END
)");
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string net = LABELSHIFT_EXAMPLES "/../tests/learning/reference/small.pt";
  const auto json = trained("--data data --epochs 8 --model " + net);
  EXPECT_GT(json["quality"]["test"]["raw"]["accuracy"], 0.9);  // the classes are brighter thirds of the image
  const CommandResult predicted =
      labelshift("predict --predictor predictor.safetensors --data data --output probs.npy");
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  // Moved together with its net, then apart from it.
  const CommandResult moved =
      shell("mkdir -p here/nets && cp " + net + " here/nets/ && labelshift train --data data " +
            "--epochs 1 --zeta 1 --model here/nets/small.pt --output here/p > /dev/null && mv here there && "
            "labelshift predict --predictor there/p --data data --output moved.npy");
  EXPECT_EQ(moved.status, 0) << moved.err;
  std::filesystem::rename(path("there/nets/small.pt"), path("small.pt"));
  const CommandResult missing = labelshift("predict --predictor there/p --data data --output apart.npy");
  EXPECT_EQ(missing.status, kInput);
  EXPECT_THAT(missing.err, HasSubstr("there/nets/small.pt: no such file"));
  EXPECT_EQ(labelshift("predict --predictor there/p --model small.pt --data data --output apart.npy").status, 0);
  EXPECT_EQ(bytes_of(path("apart.npy")), bytes_of(path("moved.npy")));
  expect_failure("train --data data --model none.pt", kInput,
                 "cannot read none.pt: no such file or directory; check the path");
  const CommandResult wrong = labelshift("train --data examples/small-fashion-mnist --model " + net);
  EXPECT_EQ(wrong.status, 3);
  EXPECT_THAT(wrong.err, HasSubstr("small.pt"));
}

TEST_F(TrainCommand, RefusesDataOfOneClassAndALearningRateOf0) {
  std::filesystem::create_directories(path("one"));
  const std::string images(
      "\0\0\x08\x03\0\0\0\x04\0\0\0\x01\0\0\0\x01"
      "abcd",
      20);
  for (const std::string& label :
       {std::string("\0", 1), std::string("\5", 1)}) {  // of six classes, five have no example
    for (const std::string part : {"train", "t10k"}) {
      file("one/" + part + "-images-idx3-ubyte", images);
      file("one/" + part + "-labels-idx1-ubyte",
           std::string("\0\0\x08\x01\0\0\0\x04", 8) + label + label + label + label);
    }
    expect_failure("train --data one --model logistic", kInput, "one has 1 class, expected at least 2");
    file("one.toml", "[data]\nset = \"one\"\npartition = \"iid\"\nnodes = 1\n[model]\nnet = \"logistic\"\n");
    const CommandResult run = labelshift("run one.toml");
    EXPECT_EQ(run.status, kInput);
    EXPECT_THAT(run.err,
                testing::ContainsRegex("one has training examples of 1 class only, expected at least 2 classes"));
  }
  expect_failure("train --data examples/small-fashion-mnist --model logistic --learning-rate 0", kUsage,
                 "--learning-rate: found \"0\", expected a number that is finite and above 0");
}

TEST_F(TrainCommand, RefusesACheckpointWithTwoFlippedBits) {
  const std::string train = "train --data examples/small-fashion-mnist --model logistic --zeta 1 --checkpoint c ";
  EXPECT_EQ(labelshift(train + "--epochs 1").status, 0);
  std::string bytes = bytes_of(path("c/checkpoint.safetensors"));
  for (const std::size_t from_end : {2, 20002}) {
    char& byte = bytes[bytes.size() - from_end];
    byte = static_cast<char>(byte ^ 0x40);
  }
  file("c/checkpoint.safetensors", bytes);
  expect_failure(
      train + "--epochs 2 --resume", kInput,
      "c/checkpoint.safetensors: its bytes are not those it was written with, by its SHA-256; copy it again, "
      "or make it again");
}

TEST_F(TrainCommand, GivesTheSameBytesForTheSameSeedOnAnyNumberOfThreads) {
  const CommandResult result = shell("train() { labelshift train " + kMlp + R"(--epochs 2 "$@" > /dev/null; }
    OMP_NUM_THREADS=1 train --output one; OMP_NUM_THREADS=4 train --output four; train --seed 1 --output other
    cmp one four && ! cmp -s one other)");
  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

TEST_F(TrainCommand, GoesOnFromACheckpointToTheSameBytes) {
  trained(kMlp + "--epochs 4 --output whole");
  for (const int epochs : {1, 2, 3, 4}) {
    const auto json = trained(kMlp + "--checkpoint c --resume --output parts --epochs " + std::to_string(epochs));
    EXPECT_EQ(json["resumed_from"], epochs - 1);
  }
  EXPECT_EQ(bytes_of(path("parts")), bytes_of(path("whole")));
  expect_failure("train " + kMlp + "--checkpoint c", kUsage,
                 "c/checkpoint.safetensors is there already; go on from it with --resume, or give another --checkpoint "
                 "folder");
  expect_failure(
      "train " + kMlpAnyZeta + "--checkpoint c --resume --zeta 0.5", kUsage,
      "c/checkpoint.safetensors is of a training with zeta 1, not 0.5; go on with the settings it was started "
      "with, or keep another checkpoint");
  expect_failure(
      "train " + kMlp + "--checkpoint c --resume --epochs 3", kUsage,
      "c/checkpoint.safetensors is of 4 epochs already, more than --epochs 3; ask for as many, or give another "
      "--checkpoint folder");
}

TEST_F(TrainCommand, StopsAtAThreshold) {
  const auto json = trained(kAnyZeta + "--zeta 0 --epochs 500 --stop-below 1");
  EXPECT_EQ(json["stopped_by"], "threshold");
  EXPECT_LT(json["cross_entropy"].back(), 1.0);
}

TEST_F(TrainCommand, AnInterruptKeepsTheCheckpoint) {
  // The shell makes what runs in its background ignore the signal, which env takes back.
  const CommandResult result =
      shell("env --default-signal=INT labelshift train --epochs 1000000 --checkpoint c " + kClothes + R"(& training=$!
    await [ -e c/checkpoint.safetensors ]
    kill -INT $training; wait $training)");
  EXPECT_EQ(result.status, 130);
  EXPECT_THAT(result.err, testing::MatchesRegex("warning: interrupted; the checkpoint of epoch [0-9]+ is intact\n"));
  EXPECT_EQ(shell("ls . c").out, ".:\nc\nexamples\nscript\nstderr\nstdout\n\nc:\ncheckpoint.safetensors\n");
  EXPECT_THAT(labelshift("train --epochs 1000000 --stop-below 1000 --checkpoint c --resume " + kClothes).out,
              HasSubstr("epochs"));
}

TEST_F(TrainCommand, ALossThatIsNoNumberKeepsTheLastGoodCheckpoint) {
  // 60 examples are left to train on, so an epoch is one step. The first makes weights of 1e36, of which logits of 784
  // terms are more than a float can hold.
  expect_failure("train --learning-rate 1e36 --calibration-fraction 0.85 --checkpoint c --output p " + kClothes, kInput,
                 "training step 2 (epoch 2): the loss is nan, expected a finite number; use a smaller learning rate, "
                 "or look for extreme values in the data; the checkpoint of epoch 1 is intact");
  EXPECT_FALSE(std::filesystem::exists(path("p")));
  EXPECT_TRUE(std::filesystem::exists(path("c/checkpoint.safetensors")));
}

TEST_F(TrainCommand, ChoosesZetaEpochsAndCalibration) {
  const auto json = trained(kAnyZeta + "--epochs 4 --calibration-fraction 0.3");
  ASSERT_EQ(json["candidates"].size(), 4U * 3U * 3U);  // zetas, epochs 1, 2 and 4, calibrations
  const auto best = *std::min_element(json["candidates"].begin(), json["candidates"].end(),
                                      [](const auto& a, const auto& b) { return a["error"] < b["error"]; });
  for (const char* key : {"zeta", "epochs", "calibration"}) EXPECT_EQ(json[key], best[key]);
  const auto fixed = trained(kAnyZeta + "--zeta auto --epochs 2 --calibration ts");
  EXPECT_EQ(fixed["candidates"].size(), 4U * 2U);
  EXPECT_EQ(fixed["calibration"], "ts");
  const std::string chosen = labelshift("train --epochs 2 " + kAnyZeta).out;
  EXPECT_THAT(chosen, testing::StartsWith("Chose zeta "));
  EXPECT_THAT(chosen, HasSubstr(" among 24 candidates; --show-search lists them all.\nIt errs least "));  // 4 x 2 x 3
  EXPECT_LE(std::count(chosen.begin(), chosen.end(), '\n'), 11);
  const bool most = chosen.find(", 2 epochs ") != chosen.npos;  // of those that were tried
  EXPECT_EQ(chosen.find("\nMore than 2 epochs were not tried and may do better.\n") != chosen.npos, most) << chosen;
  const std::string searched = labelshift("train --show-search --epochs 2 --output again " + kAnyZeta).out;
  EXPECT_THAT(searched, testing::StartsWith("zeta "));
  EXPECT_THAT(searched, testing::ContainsRegex(
                            "^zeta [^\n]+ chosen\n([^\n]+[0-9]\n)*[^\n]+  yes\n([^\n]+[0-9]\n)*\nChose zeta "));
  EXPECT_EQ(std::count(searched.begin(), searched.end(), '\n') - std::count(chosen.begin(), chosen.end(), '\n'),
            1 + 24 + 1);  // names, candidates, an empty line
}

TEST_F(TrainCommand, ChoosingGoesOnFromCheckpointsToTheSameBytes) {
  trained(kAnyZeta + "--epochs 4 --output whole");
  const CommandResult result =
      shell("env --default-signal=INT labelshift train --epochs 4 --checkpoint c --output parts " + kAnyZeta +
            R"(& training=$!
    await [ -e c/zeta-0.1.safetensors ]
    kill -INT $training; wait $training)");
  EXPECT_THAT(result.status, testing::AnyOf(0, 130));  // it may have been faster
  const auto json = trained(kAnyZeta + "--epochs 4 --checkpoint c --resume --output parts");
  EXPECT_GT(json["resumed_from"], 4);
  EXPECT_EQ(bytes_of(path("parts")), bytes_of(path("whole")));
  expect_failure("train " + kAnyZeta + "--checkpoint c", kUsage,
                 "c/zeta-0.safetensors is there already; go on from it with --resume, or give another --checkpoint "
                 "folder");
  expect_failure("train " + kAnyZeta + "--epochs 8 --checkpoint c --resume", kUsage,
                 "c/zeta-0.safetensors is of a training with epochs 1, 2, 4, not 1, 2, 4, 8; go on with the settings "
                 "it was started with, or keep another checkpoint");
}

TEST_F(TrainCommand, TrainsOnATableOfAUser) {
  const CommandResult result = shell(
      R"(awk 'BEGIN { OFS = ","; srand(1); print "x,y,label"; for (i = 0; i < 300; ++i)
           print rand() + i % 3, rand() * 1000, "class" i % 3 }' > table.csv
    labelshift train --data table.csv --model mlp --set hidden=16 --epochs 60 --format json)");
  EXPECT_EQ(result.status, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_GT(json["quality"]["held out"]["calibrated"]["accuracy"], 0.9);  // x alone tells the classes apart
  EXPECT_FALSE(json["quality"].contains("test"));
}

TEST_F(TrainCommand, EveryUsageErrorIsOneSentence) {
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    expect_failure("train " + kAnyZeta + arguments, kUsage, message);
    EXPECT_FALSE(std::filesystem::exists(path("predictor.safetensors")));
  };
  refused("--zeta much", "--zeta: found \"much\", expected a number from 0 to 1e6, or auto");
  refused("--zeta -1", "--zeta: found \"-1\", expected a number from 0 to 1e6, or auto");
  refused("--calibration-fraction 1",
          "--calibration-fraction: found \"1\", expected a number that is at least 0 and below 1");
  refused("--calibration-fraction 0 --zeta 1 --calibration bcts",
          "--calibration bcts needs held-out examples; give a --calibration-fraction above 0, or --calibration none");
  refused("--calibration-fraction 0 --calibration none --zeta auto",
          "--zeta auto needs held-out examples to judge by; give a --calibration-fraction above 0, or a --zeta");
  refused("--resume", "--resume needs --checkpoint");
  refused("--show-search --zeta 1",
          "--show-search: with a --zeta that is given there is no search to show; leave one of the two out");
  refused("--set width=3", "logistic has no settings, so \"width\" cannot be set");
  refused("--set width", "--set: found \"width\", expected NAME=VALUE");
  expect_failure("train --model logistic", kUsage, "--data is required");
  EXPECT_THAT(
      labelshift("train --model logistc --data examples/small-fashion-mnist").err,
      testing::StartsWith("error: unknown net \"logistc\"; did you mean \"logistic\"? (known: logistic, mlp, "));
}

TEST_F(TrainCommand, RefusesAClassOfOneExampleUnlessNothingIsHeldOut) {
  file("lone.csv", "x,label\n1,a\n2,a\n3,b\n4,c\n5,c\n");
  expect_failure(
      "train --model logistic --data lone.csv", kInput,
      "lone.csv has 1 example of class b, expected at least 2, one to train on and one to hold out; add some, "
      "leave the class out, or hold nothing out: --zeta 1 --calibration-fraction 0");
  const auto json = trained("--model logistic --data lone.csv --zeta 1 --calibration-fraction 0");
  EXPECT_EQ(json["examples"], 5);
  EXPECT_EQ(json["calibration"], "none");
}

TEST_F(TrainCommand, RefusesDataItCannotTrainOn) {
  file("unlabelled.csv", "1,2\n3,4\n");
  expect_failure("train --data unlabelled.csv", kInput,
                 "unlabelled.csv has no labels; say which column holds them with --label-column, or give --labels");
  file("target.csv", "x,target\n1,0\n3,1\n");
  expect_failure("train --data target.csv", kInput,
                 "target.csv has no column \"label\", only \"x\", \"target\"; name the one that holds the labels with "
                 "--label-column, or give --labels");
  file("one.csv", "x,label\n1,a\n3,a\n");
  expect_failure("train --data one.csv", kInput, "one.csv has 1 class, expected at least 2");
  expect_failure("train --data fashion-mnst", kInput,
                 "there is no file fashion-mnst here; unknown data set \"fashion-mnst\"; did you mean "
                 "\"fashion-mnist\"? (known: fashion-mnist, mnist, cifar-10, cifar-100)");
  const CommandResult long_name =
      labelshift("train --data examples/small-fashion-mnist --model " + std::string(300, 'x'));
  EXPECT_EQ(long_name.status, kUsage);
  EXPECT_THAT(long_name.err, testing::StartsWith("error: unknown net \"xxx"));
  expect_failure("train " + kClothes + "--output none/p", kSystem,
                 "cannot write none/p: no such directory; create it or choose another place");
}

}  // namespace
}  // namespace labelshift
