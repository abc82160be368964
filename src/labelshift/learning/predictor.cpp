#include "labelshift/learning/predictor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/core/likelihood/scores.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/learning/weights.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEntry = "labelshift-predictor";
constexpr int kFormat = 2;
constexpr int kFormatWithoutSum = 1;  // its TorchScript nets have absolute paths
constexpr Index kLargestSide = 1 << 20;
constexpr Index kLargestExample = 1 << 28;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}; expected a predictor that labelshift train wrote", path, why));
}

Eigen::VectorXd vector(const Json& list) {
  const auto values = list.get<std::vector<double>>();
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Index>(values.size()));
}

bool is_file(const NetSpec& spec) {
  const auto entries = nets();
  return std::none_of(entries.begin(), entries.end(), [&](const NetEntry& entry) { return entry.name == spec.name; });
}

/// The folder of a file, such that paths can be told from it.
fs::path folder_of(const std::string& path) {
  return fs::absolute(path).lexically_normal().parent_path();
}

Json describe(const Predictor& predictor, const std::string& path) {
  const NetSpec& spec = predictor.net->spec();
  Json json;
  json["version"] = kFormat;
  json["labelshift"] = version();
  json["net"] = {{"name", spec.name},
                 {"settings", spec.settings},
                 {"shape", {spec.shape.channels, spec.shape.height, spec.shape.width}},
                 {"mean", spec.normalisation.mean},
                 {"scale", spec.normalisation.scale}};
  if (is_file(spec)) {
    json["net"]["name"] = fs::absolute(spec.name).lexically_proximate(folder_of(path)).generic_string();
    json["net"]["sha256"] = sha256_of(read_file(spec.name));
  }
  json["class_names"] = predictor.class_names;
  json["column_names"] = predictor.column_names;
  json["calibration"] = nullptr;
  if (const auto& calibration = predictor.calibration)
    json["calibration"] = {{"scale", json_numbers(calibration->scale)}, {"bias", json_numbers(calibration->bias)}};
  if (predictor.calibration && predictor.calibration->mixing.size() > 0)
    json["calibration"]["mixing"] = json_numbers(predictor.calibration->mixing.reshaped<Eigen::RowMajor>());
  if (predictor.prior.size() > 0) json["prior"] = json_numbers(predictor.prior);
  json["origin"] = {{"data", predictor.origin.data},
                    {"calibration_fraction", predictor.origin.calibration_fraction},
                    {"seed", predictor.origin.seed},
                    {"zeta", predictor.origin.zeta},
                    {"epochs", predictor.origin.epochs}};
  return json;
}

bool finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

NetSpec parse_spec(const std::string& path, const Json& json, Index classes) {
  const auto shape = json.at("shape").get<std::vector<Index>>();
  const bool sane = shape.size() == 3 &&
                    std::all_of(shape.begin(), shape.end(), [](Index n) { return n >= 1 && n <= kLargestSide; }) &&
                    shape[0] * shape[1] <= kLargestExample / shape[2];
  if (!sane) refuse(path, fmt::format("found the shape {} of an example", json_line(json.at("shape"))));
  NetSpec spec{
      .name = json.at("name").get<std::string>(),
      .settings = json.at("settings").get<std::map<std::string, std::string>>(),
      .shape = {shape[0], shape[1], shape[2]},
      .classes = classes,
      .normalisation = {json.at("mean").get<std::vector<float>>(), json.at("scale").get<std::vector<float>>()}};
  const Index parts = shape[0] == 1 && shape[1] == 1 ? shape[2] : shape[0];
  const Normalisation& normalisation = spec.normalisation;
  if (std::ssize(normalisation.mean) != parts || std::ssize(normalisation.scale) != parts ||
      !finite(normalisation.mean) || !finite(normalisation.scale))
    refuse(path, fmt::format("its normalisation is not {} finite means and scales", parts));
  return spec;
}

/// Throws unless the file of a net is there and is the one that the predictor was trained with.
void check_net(const std::string& path, const std::string& net, const std::string& sum) {
  std::string found;
  try {
    found = sha256_of(read_file(net));
  } catch (const Error& error) {
    throw Error(ErrorKind::kInput, fmt::format("the net of {}: {}", path, error.what()), Remedy::kMovedNet);
  }
  if (!sum.empty() && found != sum)
    throw Error(ErrorKind::kInput,
                fmt::format("{} is not the net that {} was trained with, by its SHA-256; bring that one back, or train "
                            "again",
                            net, path));
}

std::optional<Calibration> parse_calibration(const std::string& path, const Json& json, Index classes) {
  if (json.is_null()) return std::nullopt;
  Calibration calibration{.scale = vector(json.at("scale")), .bias = vector(json.at("bias"))};
  if (calibration.scale.size() != classes || calibration.bias.size() != classes || !calibration.scale.allFinite() ||
      !calibration.bias.allFinite())
    refuse(path, fmt::format("its calibration is not {} finite scales and biases", classes));
  if (json.contains("mixing")) {
    const Eigen::VectorXd mixing = vector(json.at("mixing"));
    if (mixing.size() != classes * classes || !mixing.allFinite())
      refuse(path, fmt::format("its calibration's mixing is not {} finite numbers", classes * classes));
    calibration.mixing = mixing.reshaped<Eigen::RowMajor>(classes, classes);
  }
  return calibration;
}

Eigen::VectorXd parse_prior(const std::string& path, const Json& json, Index classes) {
  Eigen::VectorXd prior = vector(json);
  if (prior.size() != classes || !(prior.array() >= 0.0).all() || !(std::abs(prior.sum() - 1.0) < kRowSumTolerance))
    refuse(path, fmt::format("its mix of classes is not {} shares that sum to 1", classes));
  return prior;
}

}  // namespace

void save_predictor(const std::string& path, const Predictor& predictor) {
  const std::string description = json_line(describe(predictor, path), JsonLetters::kAscii);
  // "format" is what Python libraries look for to know whose state_dict it is.
  write_safetensors(path, weights_of(*predictor.net), {{"format", "pt"}, {kEntry, description}});
}

Predictor load_predictor(const std::string& path, const LoadOptions& options) {
  const SafetensorsFile file(path);
  Predictor predictor;
  NetSpec spec;
  try {
    const Json json = Json::parse(file.metadata(kEntry));
    const int format = json.at("version").get<int>();
    if (format != kFormatWithoutSum) {
      check_format(path, format, kFormat, json.value("labelshift", "of another version"));
      file.require_sum();
    }
    predictor.class_names = json.at("class_names").get<std::vector<std::string>>();
    predictor.column_names = json.value("column_names", std::vector<std::string>());  // older files have none
    const auto classes = static_cast<Index>(predictor.class_names.size());
    if (classes < 2) refuse(path, fmt::format("found {} classes, expected at least 2", classes));
    spec = parse_spec(path, json.at("net"), classes);
    if (is_file(spec)) {
      spec.name = options.net.empty() ? (folder_of(path) / spec.name).lexically_normal().string() : options.net;
      check_net(path, spec.name, json.at("net").value("sha256", ""));
    } else if (!options.net.empty()) {
      throw Error(ErrorKind::kUsage, fmt::format("{} has the net {}, which is in no file of its own", path, spec.name));
    }
    predictor.calibration = parse_calibration(path, json.at("calibration"), classes);
    if (json.contains("prior")) predictor.prior = parse_prior(path, json.at("prior"), classes);
    const Json& origin = json.at("origin");
    predictor.origin = {.data = origin.at("data").get<std::string>(),
                        .calibration_fraction = origin.at("calibration_fraction").get<double>(),
                        .seed = origin.at("seed").get<std::uint64_t>(),
                        .zeta = origin.at("zeta").get<double>(),
                        .epochs = origin.at("epochs").get<int>()};
  } catch (const Json::exception&) {
    refuse(path, "its description is damaged");
  }
  predictor.net = make_net(spec, /*seed=*/0, options.device);
  load_weights(file, *predictor.net);
  return predictor;
}

}  // namespace labelshift
