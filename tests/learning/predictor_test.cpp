#include "labelshift/learning/predictor.hpp"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "labelshift/core/base/version.hpp"
#include "labelshift/data/files/matrix_writer.hpp"
#include "labelshift/data/files/safetensors.hpp"
#include "labelshift/learning/evaluation.hpp"
#include "labelshift/learning/trainer.hpp"
#include "labelshift/learning/weights.hpp"
#include "tests/data/scratch.hpp"
#include "tests/learning/softmax_net.hpp"

namespace labelshift {
namespace {

using Json = nlohmann::json;

/// Images of noise whose brightness tells the class.
Dataset noise_images(ExampleShape shape, Index count) {
  Rng rng(8);
  Dataset data{.shape = shape, .class_names = {"dark", "grey", "bright \"white\""}};
  std::vector<std::uint8_t> values;
  for (Index i = 0; i < count; ++i) {
    data.labels.push_back(static_cast<int>(i % 3));
    for (Index k = 0; k < shape.size(); ++k) values.push_back(static_cast<std::uint8_t>(rng.below(100) + 60 * (i % 3)));
  }
  data.values = std::move(values);
  return data;
}

class PredictorTest : public Scratch {
 protected:
  static Predictor trained(const std::string& net, std::map<std::string, std::string> settings, const Dataset& data) {
    const std::vector<Index> rows = all_rows(data.size());
    Predictor predictor{
        .net = make_net({.name = net,
                         .settings = std::move(settings),
                         .shape = data.shape,
                         .classes = data.classes(),
                         .normalisation = fit_normalisation(data, rows)},
                        3),
        .class_names = data.class_names,
        .calibration = Calibration{Eigen::Vector3d::Constant(1.7), Eigen::Vector3d(0.1, -0.3, 0.2)},
        .prior = Eigen::Vector3d(0.25, 0.75, 0.0),
        .origin = {.data = "abc", .calibration_fraction = 0.1, .seed = ~0ULL, .zeta = 0.3, .epochs = 2}};
    train_predictor(*predictor.net, {data, rows, {}}, {.epochs = 2});
    return predictor;
  }
  static RowMajorMatrix<float> logits(const Predictor& predictor, const Dataset& data) {
    return evaluate_logits(*predictor.net, data, all_rows(data.size()));
  }
  void write_matrix(const std::string& name, const RowMajorMatrix<float>& values) const {
    MatrixWriter writer(path(name), {.rows = values.rows(), .cols = values.cols(), .float32 = true});
    writer.append(values);
    writer.commit();
  }
};

TEST_F(PredictorTest, ComesBackFromItsFileAsItWas) {
  const Dataset data = noise_images({1, 4, 4}, 60);
  const Predictor predictor = trained("mlp", {{"hidden", "8"}}, data);
  save_predictor(path("p"), predictor);
  const Predictor read = load_predictor(path("p"));
  EXPECT_EQ(logits(read, data), logits(predictor, data));
  EXPECT_EQ(read.net->spec().name, "mlp");
  EXPECT_EQ(read.net->spec().normalisation, predictor.net->spec().normalisation);
  EXPECT_EQ(read.class_names, predictor.class_names);
  ASSERT_TRUE(read.calibration);
  EXPECT_EQ(read.calibration->scale, predictor.calibration->scale);
  EXPECT_EQ(read.calibration->bias, predictor.calibration->bias);
  EXPECT_EQ(read.prior, predictor.prior);
  EXPECT_EQ(read.origin.data, "abc");
  EXPECT_EQ(read.origin.calibration_fraction, 0.1);
  EXPECT_EQ(read.origin.seed, ~0ULL);
  EXPECT_EQ(read.origin.zeta, 0.3);
  EXPECT_EQ(read.origin.epochs, 2);
}

TEST_F(PredictorTest, LoadsInPythonWithLoadStateDict) {
  const auto put = [&](const std::string& name, const std::string& net, std::map<std::string, std::string> settings,
                       const Dataset& data) {
    const Predictor predictor = trained(net, std::move(settings), data);
    save_predictor(path(name), predictor);
    write_matrix(name + "-logits.npy", logits(predictor, data));
    const auto& values = std::get<std::vector<std::uint8_t>>(data.values);
    RowMajorMatrix<float> inputs(data.size(), data.shape.size());
    for (std::size_t i = 0; i < values.size(); ++i) inputs.data()[i] = values[i];
    write_matrix(name + "-inputs.npy", inputs);
    return fmt::format(" {} '{}' '{}' '{}'", net, path(name), path(name + "-inputs.npy"), path(name + "-logits.npy"));
  };
  std::string command = "/usr/bin/python3 " LABELSHIFT_EXAMPLES "/../tests/learning/load_predictor.py";
  command += put("mlp", "mlp", {{"hidden", "8"}}, noise_images({1, 4, 4}, 60));
  command += put("resnet", "resnet18", {{"width", "4"}}, noise_images({3, 16, 16}, 12));
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(PredictorTest, NamesTheWeightsOfResNet18AsTorchvisionDoes) {
  // torchvision.models.resnet18().state_dict() without num_batches_tracked, which load_state_dict fills in.
  std::vector<std::string> expected{"conv1.weight"};
  const auto batch_norm = [&](const std::string& name) {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) expected.push_back(name + part);
  };
  batch_norm("bn1");
  for (const std::string layer : {"layer1", "layer2", "layer3", "layer4"})
    for (const std::string block : {".0", ".1"}) {
      for (const std::string half : {"1", "2"}) {
        expected.push_back(layer + block + ".conv" + half + ".weight");
        batch_norm(layer + block + ".bn" + half);
      }
      if (layer == "layer1" || block == ".1") continue;
      expected.push_back(layer + block + ".downsample.0.weight");
      batch_norm(layer + block + ".downsample.1");
    }
  for (const char* part : {"fc.weight", "fc.bias"}) expected.emplace_back(part);
  const auto net = make_net({.name = "resnet18",
                             .settings = {{"width", "4"}},
                             .shape = {3, 32, 32},
                             .classes = 10,
                             .normalisation = {{0, 0, 0}, {1, 1, 1}}},
                            0);
  std::vector<std::string> names;
  for (const NamedTensor& tensor : weights_of(*net)) names.push_back(tensor.name);
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(expected));
}

TEST_F(PredictorTest, RefusesAFileThatIsNoWholePredictor) {
  const Dataset data = noise_images({1, 4, 4}, 12);
  const Predictor predictor = trained("logistic", {}, data);
  save_predictor(path("p"), predictor);
  const Json good = Json::parse(SafetensorsFile(path("p")).metadata("labelshift-predictor"));
  const auto refused = [&](const std::string& why, const auto& change) {
    Json json = good;
    change(json);
    write_safetensors(path("p"), weights_of(*predictor.net), {{"labelshift-predictor", json.dump()}});
    expect_error(ErrorKind::kInput, "DIR/p: " + why + "; expected a predictor that labelshift train wrote",
                 [&] { load_predictor(path("p")); });
  };
  refused("its description is damaged", [](Json& json) { json = "x"; });
  refused("its description is damaged", [](Json& json) { json.erase("net"); });
  refused("its description is damaged", [](Json& json) { json["class_names"] = 3; });
  refused("found 1 classes, expected at least 2", [](Json& json) { json["class_names"] = {"only"}; });
  refused("found the shape [1,4,0] of an example", [](Json& json) { json["net"]["shape"] = {1, 4, 0}; });
  refused("found the shape [1048576,1048576,1048576] of an example", [](Json& json) {
    json["net"]["shape"] = {1 << 20, 1 << 20, 1 << 20};
  });
  refused("its normalisation is not 1 finite means and scales", [](Json& json) { json["net"]["mean"] = {1, 2}; });
  refused("its calibration is not 3 finite scales and biases", [](Json& json) {
    json["calibration"]["bias"] = {1, 2};
  });
  for (const Json& mix : {Json{0.5, 0.5}, Json{0.5, 0.4, 0.0}, Json{1.5, -0.5, 0.0}})
    refused("its mix of classes is not 3 shares that sum to 1", [&](Json& json) { json["prior"] = mix; });
}

TEST_F(PredictorTest, ReadsTheFormatsItKnowsAndNamesOthers) {
  const Dataset data = noise_images({1, 4, 4}, 12);
  const Predictor predictor = trained("logistic", {}, data);
  save_predictor(path("p"), predictor);
  Json json = Json::parse(SafetensorsFile(path("p")).metadata("labelshift-predictor"));
  const auto write = [&](int format) {
    json["version"] = format;
    write_safetensors(path("p"), weights_of(*predictor.net), {{"labelshift-predictor", json.dump()}});
  };
  json.erase("prior");
  write(1);  // of 0.3.0 and older
  EXPECT_EQ(load_predictor(path("p")).class_names, predictor.class_names);
  EXPECT_EQ(load_predictor(path("p")).prior.size(), 0);
  json["labelshift"] = "9.1";
  write(3);
  expect_error(
      ErrorKind::kInput,
      std::string("DIR/p: found version 3 of its format, which labelshift 9.1 wrote, expected version 2, which "
                  "this labelshift ") +
          version() + " reads; use the other labelshift, or make it again",
      [&] { load_predictor(path("p")); });
}

TEST_F(PredictorTest, RefusesTwoFlippedBits) {
  const Dataset data = noise_images({1, 4, 4}, 12);
  save_predictor(path("p"), trained("logistic", {}, data));
  std::string bytes = bytes_of(path("p"));
  for (const std::size_t from_end : {2, 10}) {
    char& byte = bytes[bytes.size() - from_end];
    byte = static_cast<char>(byte ^ 0x40);
  }
  file("p", bytes);
  expect_error(ErrorKind::kInput,
               "DIR/p: its bytes are not those it was written with, by its SHA-256; copy it again, or make it again",
               [&] { load_predictor(path("p")); });
}

TEST_F(PredictorTest, FindsItsNetWhereBothWereMoved) {
  const std::string net = LABELSHIFT_EXAMPLES "/../tests/learning/reference/small.pt";
  const auto copy = [&](const std::string& to) {
    std::filesystem::create_directories(std::filesystem::path(path(to)).parent_path());
    std::filesystem::copy_file(net, path(to));
  };
  copy("one/nets/small.pt");
  const Dataset data = noise_images({1, 8, 8}, 12);
  std::filesystem::create_directories(path("one/predictors"));
  const Predictor predictor = trained(path("one/nets/small.pt"), {}, data);
  save_predictor(path("one/predictors/p"), predictor);
  std::filesystem::rename(path("one"), path("two"));
  const Predictor moved = load_predictor(path("two/predictors/p"));
  EXPECT_EQ(moved.net->spec().name, path("two/nets/small.pt"));
  EXPECT_THAT(moved.net->parameters(), testing::ElementsAreArray(predictor.net->parameters()));

  std::filesystem::rename(path("two/nets/small.pt"), path("small.pt"));
  expect_error(ErrorKind::kInput,
               "the net of DIR/two/predictors/p: cannot read DIR/two/nets/small.pt: no such file or directory; check "
               "the path",
               [&] { load_predictor(path("two/predictors/p")); });
  try {
    load_predictor(path("two/predictors/p"));
    ADD_FAILURE() << "the net is not where it was";
  } catch (const Error& error) {
    EXPECT_EQ(error.remedy(), Remedy::kMovedNet);
  }
  EXPECT_EQ(load_predictor(path("two/predictors/p"), {.net = path("small.pt")}).net->spec().name, path("small.pt"));
  file("small.pt", bytes_of(net) + "x");
  expect_error(ErrorKind::kInput,
               "DIR/small.pt is not the net that DIR/two/predictors/p was trained with, by its SHA-256; bring that one "
               "back, or train again",
               [&] { load_predictor(path("two/predictors/p"), {.net = path("small.pt")}); });
  save_predictor(path("q"), trained("logistic", {}, data));
  expect_error(ErrorKind::kUsage, "DIR/q has the net logistic, which is in no file of its own",
               [&] { load_predictor(path("q"), {.net = path("small.pt")}); });
}

TEST_F(PredictorTest, RefusesWeightsThatDoNotFit) {
  const Dataset data = noise_images({1, 4, 4}, 12);
  const Predictor predictor = trained("logistic", {}, data);
  save_predictor(path("p"), predictor);
  const std::string description = SafetensorsFile(path("p")).metadata("labelshift-predictor");
  write_safetensors(path("p"), {}, {{"labelshift-predictor", description}});
  expect_error(ErrorKind::kInput, "DIR/p: has no tensor \"fc.weight\"", [&] { load_predictor(path("p")); });
  predictor.net->parameters()[0] = NAN;
  save_predictor(path("p"), predictor);
  expect_error(ErrorKind::kInput, "DIR/p: tensor \"fc.weight\" holds a number that is not finite",
               [&] { load_predictor(path("p")); });
}

}  // namespace
}  // namespace labelshift
