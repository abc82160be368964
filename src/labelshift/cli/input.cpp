#include "labelshift/cli/input.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/likelihood/renormalise.hpp"
#include "labelshift/core/likelihood/sample_summary.hpp"
#include "labelshift/data/datasets/class_names.hpp"
#include "labelshift/data/files/label_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/vector_file.hpp"

namespace labelshift::cli {
namespace {

constexpr const char* kFile = "FILE";
constexpr const char* kStandardInput = "/dev/stdin";

CLI::Validator dash_is(const char* device) {
  return CLI::Validator(
      [device](std::string& path) -> std::string {
        if (path == "-") path = device;
        return {};
      },
      "");
}

/// One class name a line, in the order of the columns.
std::vector<std::string> read_class_names(const std::string& path, Index classes) {
  std::vector<std::string> names = labelshift::read_class_names(path);
  if (std::ssize(names) != classes)
    throw Error(ErrorKind::kInput, fmt::format("{} has {} names, expected {}, one for each column of probabilities",
                                               path, names.size(), classes));
  return names;
}

void check_columns(const InputOptions& options, const ScoresFile& source, const ScoresFile& target) {
  const Index found = target.scores().cols();
  const Index expected = source.scores().cols();
  if (found != expected)
    throw Error(ErrorKind::kInput, fmt::format("{} has {} columns, {} has {}; both need one for each class",
                                               options.target_probs, found, options.source_probs, expected));
  check_same_classes(target.class_names(), options.target_probs, source.class_names(), options.source_probs);
}

/// Throws Error{kInput} if most classes are mostly predicted as another: then the columns are in another order than the
/// one that was guessed, and every number after that would be wrong.
void check_guessed_order(const InputOptions& options, const MatrixView& scores, const Labels& labels) {
  const Index m = scores.cols();
  Eigen::MatrixXi predicted = Eigen::MatrixXi::Zero(m, m);  // [j, c] = examples of class c predicted as j
  for (Index i = 0; i < scores.rows(); ++i) ++predicted(arg_max(scores, i), labels.labels[static_cast<std::size_t>(i)]);
  Index mistaken = 0;
  for (Index c = 0; c < m; ++c) mistaken += predicted.col(c).maxCoeff() > predicted(c, c);
  if (2 * mistaken > m)
    throw Error(ErrorKind::kInput,
                fmt::format("{}: nothing names the columns, and in sorted order ({}) they do not predict {}; name them "
                            "with --classes or in a header",
                            options.source_probs, fmt::join(labels.class_names, ", "), options.source_labels));
}

/// Throws Error{kInput} if --classes gives a name of the header to another column. Other names are other words for
/// them.
void check_header(const InputOptions& options, const std::vector<std::string>& names,
                  const std::vector<std::string>& header, const std::string& header_of) {
  for (std::size_t c = 0; c < header.size(); ++c)
    if (names[c] != header[c] && std::find(names.begin(), names.end(), header[c]) != names.end())
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, line {}: found {}, but the header of {} calls that column {}; give --classes in the "
                              "order of the columns, or leave it out",
                              options.classes, c + 1, excerpt(names[c]), header_of, excerpt(header[c])));
}

/// Whether all rows are probabilities, though they were called logits.
bool are_probabilities(const MatrixView& scores) {
  for (Index i = 0; i < scores.rows(); ++i) {
    double sum = 0.0;
    for (Index c = 0; c < scores.cols(); ++c) {
      if (scores(i, c) < 0.0) return false;
      sum += scores(i, c);
    }
    if (std::abs(sum - 1.0) > kRowSumTolerance) return false;
  }
  return true;
}

/// Throws Error{kInput} if a column counts the rows, from 0 or 1: as logits it would pass for a class.
void check_no_index(const MatrixView& scores, const std::string& path) {
  if (scores.rows() < 3) return;  // 0, 1 may be scores
  for (Index c = 0; c < scores.cols(); ++c) {
    const double start = scores(0, c);
    if (start != 0.0 && start != 1.0) continue;
    Index i = 1;
    while (i < scores.rows() && scores(i, c) == start + static_cast<double>(i)) ++i;
    if (i == scores.rows())
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, column {}: found the numbers of the rows, expected scores of a class", path, c + 1),
                  Remedy::kColumns);
  }
}

/// Whether the first of several rows counts from 1: names of columns, more likely than scores.
bool counts_from_1(const MatrixView& scores) {
  if (scores.rows() < 2 || scores.cols() < 3) return false;
  for (Index c = 0; c < scores.cols(); ++c)
    if (scores(0, c) != static_cast<double>(c + 1)) return false;
  return true;
}

void check_combination(const InputOptions& options, const EstimatorOptions& estimator) {
  const auto need = [](const std::string& given, const char* option, const std::string& other, const char* needed) {
    if (!given.empty() && other.empty()) throw Error(ErrorKind::kUsage, fmt::format("{} needs {}", option, needed));
  };
  need(options.source_probs, "--source-probs", options.source_labels, "--source-labels");
  need(options.source_labels, "--source-labels", options.source_probs, "--source-probs");
  need(options.source_weights, "--source-weights", options.source_probs, "--source-probs and --source-labels");
  if (options.source_probs.empty() && options.source_prior.empty())
    throw Error(ErrorKind::kUsage,
                "nothing is known of the source; give --source-probs and --source-labels, or --source-prior");
  const std::array<std::array<std::string, 2>, 7> files{{{"--source-probs", options.source_probs},
                                                         {"--source-labels", options.source_labels},
                                                         {"--source-weights", options.source_weights},
                                                         {"--source-prior", options.source_prior},
                                                         {"--target-probs", options.target_probs},
                                                         {"--target-weights", options.target_weights},
                                                         {"--classes", options.classes}}};
  const std::string* reader = nullptr;
  for (const auto& [option, path] : files) {
    if (path != kStandardInput) continue;
    if (reader)
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} and {} are both standard input; give one of them a file", *reader, option));
    reader = &option;
  }
  if (options.logits && options.renormalise)
    throw Error(ErrorKind::kUsage, "--renormalise is for probabilities; drop it or --logits");
  if (!options.source_prior.empty() && estimator.smoothing > 0.0)
    throw Error(ErrorKind::kUsage,
                "--smoothing is for a class mix counted on the source examples; drop it or --source-prior");
}

/// A check with no name of its own in the help; `expected` goes on from "a number that".
CLI::Validator number_that(const std::string& expected, const std::function<bool(double)>& holds) {
  return CLI::Validator(
      [expected, holds](const std::string& text) -> std::string {
        double value = 0.0;
        if (parse_number(text, value) && holds(value)) return {};
        return fmt::format("found {}, expected a number that {}", excerpt(text), expected);
      },
      "");
}

}  // namespace

void check_same_classes(const std::vector<std::string>& found, const std::string& found_in,
                        const std::vector<std::string>& expected, const std::string& expected_in, const char* advice) {
  if (found.empty() || expected.empty()) return;
  for (std::size_t c = 0; c < expected.size(); ++c) {
    if (found[c] != expected[c])
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, column {}: found {}, expected {} as in {}; the columns of both "
                              "must be the same classes in the same order{}",
                              found_in, c + 1, excerpt(found[c]), excerpt(expected[c]), expected_in, advice));
  }
}

CLI::Option* add_choice(CLI::App& command, const std::string& option, std::string& value, const std::string& kind,
                        const std::vector<std::string>& names, const std::string& description) {
  return command.add_option(option, value, description)
      ->type_name(fmt::format("{{{}}}", fmt::join(names, ",")))
      ->check(CLI::Validator(
          [kind, names](const std::string& name) -> std::string {
            if (std::find(names.begin(), names.end(), name) == names.end()) throw unknown_name(kind, name, names);
            return {};
          },
          ""))
      ->capture_default_str();
}

CLI::Validator whole_number(const WholeNumbers& allowed) {
  return CLI::Validator(
      [allowed](std::string& text) -> std::string {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        const bool read = parsed.ec == std::errc{} && parsed.ptr == end;
        if (!read || !((value >= allowed.from && value <= allowed.to) || (allowed.or_zero && value == 0)))
          return fmt::format("found {}, expected {}a whole number from {} to {}", excerpt(text),
                             allowed.or_zero ? "0 or " : "", allowed.from, allowed.to);
        text = std::to_string(value);
        return {};
      },
      "");
}

CLI::Validator not_negative() {
  return number_that("is finite and not negative", [](double x) { return std::isfinite(x) && x >= 0.0; });
}

CLI::Validator above_0() {
  return number_that("is finite and above 0", [](double x) { return std::isfinite(x) && x > 0.0; });
}

CLI::Validator between_0_and_1() {
  return number_that("is between 0 and 1", [](double x) { return x > 0.0 && x < 1.0; });
}

CLI::Validator from_0_to_below_1() {
  return number_that("is at least 0 and below 1", [](double x) { return x >= 0.0 && x < 1.0; });
}

CLI::Validator standard_input() {
  return dash_is(kStandardInput);
}

CLI::Validator standard_output() {
  return dash_is("/dev/stdout");
}

CLI::Validator no_dash() {
  return CLI::Validator(
      [](const std::string& path) -> std::string {
        return path == "-" ? "found \"-\", expected the path of a file: this one cannot go through a pipe" : "";
      },
      "");
}

std::vector<std::string> estimator_names() {
  std::vector<std::string> names;
  for (const EstimatorEntry& entry : estimators()) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> calibration_choices() {
  std::vector<std::string> names = {kAutoCalibration};
  for (const CalibrationEntry& entry : calibrations()) names.emplace_back(entry.name);
  return names;
}

void add_data_options(CLI::App& command, DataInput& options, const std::string& group) {
  command
      .add_option("--data", options.data,
                  "A data set by name, or the path of one; see labelshift data. - is a table from standard input")
      ->type_name("NAME|PATH")
      ->transform(standard_input())
      ->required()
      ->group(group);
  CLI::Option* column =
      command
          .add_option("--label-column", options.labels.column,
                      "Column of a table that holds the labels, by its name or its number from 0; by default \"label\"")
          ->type_name("COLUMN")
          ->group(group);
  command.add_option("--labels", options.labels.file, "Labels of a table or an IDX file, from a file of their own")
      ->type_name("FILE")
      ->transform(standard_input())
      ->excludes(column)
      ->group(group);
  command
      .add_option("--ignore-columns", options.labels.ignore,
                  "Columns of a table that are no part of an example, such as an id or an index (of pandas: \"Unnamed: "
                  "0\"): names or numbers from 0, with commas between them")
      ->type_name("COLUMNS")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
}

LoadedDataset load_examples(const std::string& data, const LabelOptions& labels) {
  try {
    return load_dataset(data, labels);
  } catch (const Error& error) {
    if (error.remedy() != Remedy::kColumns) throw;
    throw Error(error.kind(), fmt::format("{}; leave a column that is no number out with --ignore-columns, by its name "
                                          "or its number from 0, and name that of the labels with --label-column",
                                          error.what()));
  }
}

std::vector<OptionFile> input_files(const InputOptions& options) {
  return {{"--source-probs", options.source_probs},
          {"--source-labels", options.source_labels},
          {"--source-weights", options.source_weights},
          {"--source-prior", options.source_prior},
          {"--target-probs", options.target_probs},
          {"--target-weights", options.target_weights},
          {"--classes", options.classes}};
}

void add_source_options(CLI::App& command, InputOptions& options) {
  const auto file = [&](const char* name, std::string& path, const char* description) {
    command.add_option(name, path, description)
        ->type_name(kFile)
        ->transform(standard_input())
        ->group("Source, labelled data like the training's");
  };
  file("--source-probs", options.source_probs,
       "The classifier's probabilities for each example (.npy, .csv, .tsv, .csv.gz)");
  file("--source-labels", options.source_labels, "The label of each example: names, or numbers from 0");
  file("--source-weights", options.source_weights,
       "A weight for each example, such as an inverse sampling probability; not a count of repeats");
  file("--source-prior", options.source_prior,
       "The class mix that the classifier was trained on, if it is not that of the source examples; a file, or "
       "0.2,0.3,0.5. The mlls estimators need nothing else of the source");
  file("--classes", options.classes,
       "The class names, one a line in the order of the columns, for files without header");
  const char* reading = "How to read the files; - as a file is standard input";
  const auto columns = [&](const char* name, std::vector<std::string>& list, const char* description) {
    return command.add_option(name, list, description)
        ->type_name("COLUMNS")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->group(reading);
  };
  CLI::Option* keep =
      columns("--columns", options.columns.keep,
              "The columns of probabilities that are classes, in this order: "
              "names or numbers from 0, with commas between them; an entry that is both is taken as the name");
  columns("--ignore-columns", options.columns.ignore,
          "The columns that are not classes, such as an id or an index (of pandas: \"Unnamed: 0\"); all others are")
      ->excludes(keep);
  command.add_flag("--logits", options.logits, "The files hold raw scores, whose softmax are the probabilities")
      ->disable_flag_override()
      ->group(reading);
  command
      .add_flag(
          "--renormalise", options.renormalise,
          fmt::format("Divide every row by its sum first; without it rows must sum to 1 within {}", kRowSumTolerance))
      ->disable_flag_override()
      ->group(reading);
}

void add_target_options(CLI::App& command, InputOptions& options) {
  const char* group = "Target, the new data without labels";
  command.add_option("--target-probs", options.target_probs, "The same classifier's probabilities for each example")
      ->type_name(kFile)
      ->transform(standard_input())
      ->required()
      ->group(group);
  command.add_option("--target-weights", options.target_weights, "A weight for each example, as for the source")
      ->type_name(kFile)
      ->transform(standard_input())
      ->group(group);
}

void add_estimator_options(CLI::App& command, EstimatorOptions& options) {
  const char* group = "Estimation";
  add_choice(command, "--estimator", options.estimator, "estimator", estimator_names(),
             "How to estimate; \"labelshift estimators\" explains them")
      ->group(group);
  add_choice(command, "--calibration", options.calibration, "calibration", calibration_choices(),
             "What to fit on the source first, so that probabilities mean what they say; auto chooses by "
             "cross-validation, and is none without source examples")
      ->group(group);
  command
      .add_option("--smoothing", options.smoothing,
                  "Examples to add to each class count of the source; no help for a class that has none, nor with "
                  "--source-prior")
      ->type_name("NUMBER")
      ->check(not_negative())
      ->capture_default_str()
      ->group(group);
  command.add_option("--tolerance", options.tolerance, "Stop when the estimator's gap is below this")
      ->type_name("NUMBER")
      ->group(group);
  command
      .add_option("--set", options.settings, "Another setting of the estimator, such as lambda=0.1; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group(group);
}

void add_seed_option(CLI::App& command, std::uint64_t& seed) {
  command.add_option("--seed", seed, "The seed of all random numbers; the same seed gives the same output")
      ->type_name("NUMBER")
      ->transform(whole_number({.to = std::numeric_limits<std::uint64_t>::max()}))
      ->capture_default_str()
      ->group("Estimation");
}

void add_level_option(CLI::App& command, double& level) {
  command.add_option("--level", level, "Confidence level of the intervals")
      ->type_name("NUMBER")
      ->check(between_0_and_1())
      ->capture_default_str()
      ->group("Estimation");
}

std::map<std::string, std::string> parse_settings(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> settings;
  for (const std::string& setting : texts) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorKind::kUsage, fmt::format("--set: found \"{}\", expected NAME=VALUE", setting));
    settings[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return settings;
}

Settings estimator_settings(const EstimatorOptions& options, std::uint64_t seed) {
  Settings settings;
  if (!options.tolerance.empty()) settings.set("tolerance", options.tolerance);
  if (has_setting(find_estimator(options.estimator), "seed")) settings.set("seed", std::to_string(seed));
  for (const auto& [name, value] : parse_settings(options.settings)) settings.set(name, value);
  return settings;
}

LabelShiftOptions label_shift_options(const EstimatorOptions& options, std::uint64_t seed) {
  return {.estimator = options.estimator,
          .settings = estimator_settings(options, seed),
          .calibration = options.calibration,
          .seed = seed,
          .smoothing = options.smoothing};
}

ScoresFile::ScoresFile(const std::string& path, const InputOptions& options)
    : values_(read_matrix(path, options.columns)) {
  MatrixFile& file = std::get<MatrixFile>(values_);
  check_no_index(file.view(), path);
  class_names_ = file.column_names();
  table_ = file.table();
  suspect_header_ = class_names_.empty() && !path.ends_with(".npy") && counts_from_1(file.view());
  if (options.renormalise) values_ = renormalise_rows(file.view(), path);
  scores_.emplace(std::visit([](const auto& values) -> MatrixView { return values.view(); }, values_), options.logits,
                  path);
}

std::vector<std::string> Input::shown_names() const {
  if (!class_names.empty()) return class_names;
  std::vector<std::string> numbers;
  for (Index c = 0; c < classes(); ++c) numbers.push_back(std::to_string(c));
  return numbers;
}

std::optional<SourceExamples> Input::source_examples() const {
  if (!source) return std::nullopt;
  return SourceExamples{source->scores(), source_labels, source_weights};
}

LabelShiftProblem Input::problem() const {
  return {.source = source_examples(),
          .source_prior = source_prior,
          .target = target->scores(),
          .target_weights = target_weights,
          .class_names = class_names};
}

Input read_input(const InputOptions& options, const EstimatorOptions& estimator, Progress& progress) {
  check_combination(options, estimator);
  Input input;
  const auto read_scores = [&](const std::string& path, std::optional<ScoresFile>& scores) {
    if (path.empty()) return;
    progress.show("reading " + path);
    scores.emplace(path, options);
    if (input.class_names.empty()) input.class_names = scores->class_names();
    input.tables.push_back(scores->table());
    if (scores->suspect_header())
      input.warnings.push_back(fmt::format(
          "the first line of {} counts 1, 2, 3 and was read as scores; if these are the names of its columns, write "
          "names such as c1,c2,c3 there and give --classes, or remove the line",
          path));
  };
  read_scores(options.source_probs, input.source);
  read_scores(options.target_probs, input.target);
  if (input.target) check_ignored(options.columns, input.tables);  // else more rows are still to come
  if (input.source && input.target) check_columns(options, *input.source, *input.target);
  if (!options.classes.empty()) {
    std::vector<std::string> names = read_class_names(options.classes, input.classes());
    check_header(options, names, input.class_names, input.source ? options.source_probs : options.target_probs);
    input.class_names = std::move(names);
  }
  if (options.logits && input.source && are_probabilities(input.source->scores()))
    input.warnings.push_back(
        fmt::format("no number in {} is below 0 and every row sums to 1: these look like probabilities; if they are, "
                    "drop --logits",
                    options.source_probs));
  if (input.source) {
    progress.show("reading " + options.source_labels);
    const Index rows = input.source->scores().rows();
    Labels labels = read_labels(options.source_labels, input.class_names, input.classes());
    check_labels(labels.labels, rows, input.classes(), options.source_labels);
    if (input.class_names.empty() && !labels.class_names.empty()) {
      check_guessed_order(options, input.source->scores(), labels);
      input.warnings.push_back(
          fmt::format("nothing names the columns of {}, so they were taken to be the labels in sorted order: {}; if "
                      "they are not, name them with --classes",
                      options.source_probs, fmt::join(labels.class_names, ", ")));
    }
    input.source_labels = std::move(labels.labels);
    input.class_names = std::move(labels.class_names);
    if (!options.source_weights.empty()) input.source_weights = read_weights(options.source_weights, rows);
  }
  if (!options.source_prior.empty())
    input.source_prior = read_prior(options.source_prior, input.classes(), input.class_names);
  if (!options.target_weights.empty())
    input.target_weights = read_weights(options.target_weights, input.target->scores().rows());
  return input;
}

}  // namespace labelshift::cli
