#include "labelshift/learning/checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/learning/weights.hpp"

namespace labelshift {
namespace {

constexpr const char* kEntry = "labelshift-checkpoint";
constexpr int kFormat = 2;  // 1 had neither this number nor a sum
// No attribute of a PyTorch module has a slash in its name.
constexpr const char* kMean = "adam/mean";
constexpr const char* kSquares = "adam/squares";

/// FNV-1a, of eight bytes at a time.
class Hash {
 public:
  void add(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::uint64_t word = 0; size > 0; word = 0) {
      const std::size_t count = std::min(size, sizeof word);
      std::memcpy(&word, bytes, count);
      state_ = (state_ ^ word) * 0x100000001b3;
      state_ ^= state_ >> 32;  // a product has no influence on lower bits
      bytes += count;
      size -= count;
    }
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}; expected a checkpoint of a training", path, why));
}

void check_same_run(const std::string& path, const RunDescription& found, const RunDescription& expected) {
  for (const auto& [name, value] : expected) {
    const auto at = found.find(name);
    if (at == found.end()) refuse(path, fmt::format("it does not say what {} was", name));
    if (at->second != value)
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} is of a training with {} {}, not {}; go on with the settings it was started "
                              "with, or keep another checkpoint",
                              path, name, at->second, value));
  }
}

}  // namespace

std::string fingerprint(const Dataset& data, std::span<const Index> rows, std::span<const float> weights) {
  Hash hash;
  std::visit(
      [&](const auto& values) {
        const auto size = static_cast<std::size_t>(data.shape.size());
        for (const Index row : rows) hash.add(values.data() + row * data.shape.size(), size * sizeof values[0]);
      },
      data.values);
  if (!data.labels.empty())
    for (const Index row : rows) hash.add(&data.labels[row], sizeof(int));
  hash.add(weights.data(), weights.size_bytes());
  return hash.text();
}

std::string fingerprint(const Dataset& data) {
  Hash hash;
  std::visit([&](const auto& values) { hash.add(values.data(), values.size() * sizeof values[0]); }, data.values);
  hash.add(data.labels.data(), data.labels.size() * sizeof(int));
  for (const std::string& name : data.class_names) hash.add(name.c_str(), name.size() + 1);
  const Index sizes[] = {data.size(), std::ssize(data.labels)};  // where one ends and the next begins
  hash.add(sizes, sizeof sizes);
  return hash.text();
}

std::string fingerprint(std::span<const std::string> fingerprints) {
  Hash hash;
  for (const std::string& one : fingerprints) hash.add(one.data(), one.size());
  return hash.text();
}

RunDescription describe_run(const NetSpec& spec, const TrainingExamples& examples, const TrainingSettings& settings) {
  RunDescription run{
      {"model", spec.name},
      {"data", fmt::format("{} examples, hash {}", examples.rows.size(),
                           fingerprint(examples.data, examples.rows, examples.weights))},
      {"classes", fmt::format("{}", spec.classes)},
      {"normalisation",
       fmt::format("{}, {}", fmt::join(spec.normalisation.mean, " "), fmt::join(spec.normalisation.scale, " "))},
      {"zeta", fmt::format("{}", settings.zeta)},
      {"batch", fmt::format("{}", settings.batch)},
      {"learning-rate", fmt::format("{}", settings.adam.learning_rate)},
      {"weight-decay", fmt::format("{}", settings.adam.weight_decay)},
      {"seed", fmt::format("{}", settings.seed)},
  };
  std::vector<std::string> net_settings;
  for (const auto& [name, value] : spec.settings) net_settings.push_back(name + "=" + value);
  run["settings"] = net_settings.empty() ? "none" : fmt::format("{}", fmt::join(net_settings, " "));
  return run;
}

void save_checkpoint(const std::string& path, const RunDescription& run, Net& net, const TrainingState& state) {
  std::vector<NamedTensor> tensors = weights_of(net);
  const auto size = static_cast<Index>(state.adam.mean.size());
  tensors.push_back({kMean, {size}, state.adam.mean});
  tensors.push_back({kSquares, {size}, state.adam.squares});
  const Json description{{"cross_entropy", state.cross_entropy},
                         {"format", kFormat},
                         {"labelshift", version()},
                         {"run", run},
                         {"steps", state.adam.steps}};
  write_safetensors(path, tensors, {{kEntry, json_line(description, JsonLetters::kAscii)}});
}

TrainingState load_checkpoint(const std::string& path, const RunDescription& run, Net& net) {
  const SafetensorsFile file(path);
  TrainingState state;
  try {
    const auto description = Json::parse(file.metadata(kEntry));
    check_format(path, description.value("format", 1), kFormat, description.value("labelshift", "0.3.0 or older"));
    file.require_sum();
    check_same_run(path, description.at("run").get<RunDescription>(), run);
    state.cross_entropy = description.at("cross_entropy").get<std::vector<double>>();
    state.adam.steps = description.at("steps").get<std::int64_t>();
  } catch (const Json::exception&) {
    refuse(path, "its description is damaged");
  }
  if (state.cross_entropy.empty() || state.adam.steps < std::ssize(state.cross_entropy))
    refuse(path, fmt::format("found {} epochs and {} steps", state.cross_entropy.size(), state.adam.steps));
  load_weights(file, net);
  const auto size = static_cast<Index>(net.parameters().size());
  const auto mean = file.tensor(kMean, {size});
  const auto squares = file.tensor(kSquares, {size});
  state.adam.mean.assign(mean.begin(), mean.end());
  state.adam.squares.assign(squares.begin(), squares.end());
  return state;
}

}  // namespace labelshift
