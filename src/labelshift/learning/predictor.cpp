#include "labelshift/learning/predictor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "labelshift/core/error.hpp"
#include "labelshift/learning/weights.hpp"

namespace labelshift {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEntry = "labelshift-predictor";
constexpr int kVersion = 1;
constexpr Index kLargestSide = 1 << 20;
constexpr Index kLargestExample = 1 << 28;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}; expected a predictor that labelshift train wrote", path, why));
}

Json numbers(const Eigen::VectorXd& values) {
  return std::vector<double>(values.begin(), values.end());
}

Eigen::VectorXd vector(const Json& list) {
  const auto values = list.get<std::vector<double>>();
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Index>(values.size()));
}

Json describe(const Predictor& predictor) {
  const NetSpec& spec = predictor.net->spec();
  Json json;
  json["version"] = kVersion;
  json["net"] = {{"name", spec.name},
                 {"settings", spec.settings},
                 {"shape", {spec.shape.channels, spec.shape.height, spec.shape.width}},
                 {"mean", spec.normalisation.mean},
                 {"scale", spec.normalisation.scale}};
  json["class_names"] = predictor.class_names;
  json["column_names"] = predictor.column_names;
  json["calibration"] = nullptr;
  if (const auto& calibration = predictor.calibration)
    json["calibration"] = {{"scale", numbers(calibration->scale)}, {"bias", numbers(calibration->bias)}};
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
  if (!sane) refuse(path, fmt::format("found the shape {} of an example", json.at("shape").dump()));
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

std::optional<Calibration> parse_calibration(const std::string& path, const Json& json, Index classes) {
  if (json.is_null()) return std::nullopt;
  Calibration calibration{.scale = vector(json.at("scale")), .bias = vector(json.at("bias"))};
  if (calibration.scale.size() != classes || calibration.bias.size() != classes || !calibration.scale.allFinite() ||
      !calibration.bias.allFinite())
    refuse(path, fmt::format("its calibration is not {} finite scales and biases", classes));
  return calibration;
}

}  // namespace

void save_predictor(const std::string& path, const Predictor& predictor) {
  const std::string description =
      describe(predictor).dump(-1, ' ', true, Json::error_handler_t::replace);  // names are the user's bytes
  // "format" is what Python libraries look for to know whose state_dict it is.
  write_safetensors(path, weights_of(*predictor.net), {{"format", "pt"}, {kEntry, description}});
}

Predictor load_predictor(const std::string& path, Device device) {
  const SafetensorsFile file(path);
  Predictor predictor;
  NetSpec spec;
  try {
    const Json json = Json::parse(file.metadata(kEntry));
    if (json.at("version") != kVersion)
      refuse(path, fmt::format("found version {} of the format, expected {}", json.at("version").dump(), kVersion));
    predictor.class_names = json.at("class_names").get<std::vector<std::string>>();
    predictor.column_names = json.value("column_names", std::vector<std::string>());  // older files have none
    const auto classes = static_cast<Index>(predictor.class_names.size());
    if (classes < 2) refuse(path, fmt::format("found {} classes, expected at least 2", classes));
    spec = parse_spec(path, json.at("net"), classes);
    predictor.calibration = parse_calibration(path, json.at("calibration"), classes);
    const Json& origin = json.at("origin");
    predictor.origin = {.data = origin.at("data").get<std::string>(),
                        .calibration_fraction = origin.at("calibration_fraction").get<double>(),
                        .seed = origin.at("seed").get<std::uint64_t>(),
                        .zeta = origin.at("zeta").get<double>(),
                        .epochs = origin.at("epochs").get<int>()};
  } catch (const nlohmann::json::exception&) {
    refuse(path, "its description is damaged");
  }
  predictor.net = make_net(spec, /*seed=*/0, device);
  load_weights(file, *predictor.net);
  return predictor;
}

}  // namespace labelshift
