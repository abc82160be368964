#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "labelshift/cli/progress.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/label_shift.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"
#include "labelshift/data/datasets/table_reader.hpp"
#include "labelshift/data/files/matrix_file.hpp"

namespace labelshift::cli {

/// The files a command reads, as the user named them; an empty name is a file that was not given.
struct InputOptions {
  std::string source_probs, source_labels, source_weights, source_prior, target_probs, target_weights, classes;
  bool logits = false;
  bool renormalise = false;
  ColumnChoice columns;  // of the tables of scores
};

/// The files that these options name.
std::vector<OptionFile> input_files(const InputOptions& options);

/// How to estimate.
struct EstimatorOptions {
  std::string estimator = LabelShiftOptions().estimator;
  std::string calibration = LabelShiftOptions().calibration;
  double smoothing = 0.0;
  std::string tolerance;              // as a setting of the estimator; empty for its default
  std::vector<std::string> settings;  // NAME=VALUE
};

/// The examples a command reads: a data set by name or path, and where a table has its labels.
struct DataInput {
  std::string data;
  LabelOptions labels;
};

/// --data, --label-column, --labels and --ignore-columns.
void add_data_options(CLI::App& command, DataInput& options, const std::string& group);
/// load_dataset of what these options say.
LoadedDataset load_examples(const std::string& data, const LabelOptions& labels);
void add_source_options(CLI::App& command, InputOptions& options);
void add_target_options(CLI::App& command, InputOptions& options);
void add_estimator_options(CLI::App& command, EstimatorOptions& options);
void add_seed_option(CLI::App& command, std::uint64_t& seed);
void add_level_option(CLI::App& command, double& level);

/// An option whose value must be one of `names`. Its type name lists them, which help and completion show.
CLI::Option* add_choice(CLI::App& command, const std::string& option, std::string& value, const std::string& kind,
                        const std::vector<std::string>& names, const std::string& description);

/// The values of an option that counts.
struct WholeNumbers {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool or_zero = false;
};

// Checks of an option's number. The whole ones are for `transform`, since CLI11 itself would read "010" as 8 and a
// number that is too large as the largest.
CLI::Validator whole_number(const WholeNumbers& allowed);
CLI::Validator not_negative();
CLI::Validator above_0();
CLI::Validator between_0_and_1();
CLI::Validator from_0_to_below_1();

// For `transform` of an option that takes a file: "-" is standard input, or standard output.
CLI::Validator standard_input();
CLI::Validator standard_output();
/// For `check` of one that can be neither.
CLI::Validator no_dash();

/// The values of --format.
inline const std::vector<std::string> kFormats = {"table", "json", "csv"};

std::vector<std::string> estimator_names();
std::vector<std::string> calibration_choices();  // with auto

/// The values of --set, NAME=VALUE each. Throws Error{kUsage} for one that is not.
std::map<std::string, std::string> parse_settings(const std::vector<std::string>& texts);
/// The settings of the estimator. An estimator that draws random numbers gets the seed too.
Settings estimator_settings(const EstimatorOptions& options, std::uint64_t seed);
LabelShiftOptions label_shift_options(const EstimatorOptions& options, std::uint64_t seed);

/// A checked file of probabilities or logits: a mapped .npy file stays where it is.
class ScoresFile {
 public:
  /// Throws Error{kInput} with the file's name unless every row is what the options say.
  ScoresFile(const std::string& path, const InputOptions& options);

  const Scores& scores() const { return *scores_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  /// All columns of the file, classes or not.
  const TableColumns& table() const { return table_; }
  /// Whether the first row of a text looks like names that are numbers, and was read as scores all the same.
  bool suspect_header() const { return suspect_header_; }

 private:
  std::variant<MatrixFile, CalibratedProbabilities> values_;
  std::optional<Scores> scores_;  // a view of values_
  std::vector<std::string> class_names_;
  TableColumns table_;
  bool suspect_header_ = false;
};

/// What was read.
struct Input {
  std::optional<ScoresFile> source;
  std::vector<int> source_labels;
  std::vector<double> source_weights;
  std::optional<Eigen::VectorXd> source_prior;
  std::optional<ScoresFile> target;
  std::vector<double> target_weights;
  std::vector<std::string> class_names;  // (m) or empty
  std::vector<TableColumns> tables;      // of scores
  std::vector<std::string> warnings;     // one sentence each

  Index classes() const { return (target ? target : source)->scores().cols(); }
  /// What the classes are called in output: by their numbers if nothing names them.
  std::vector<std::string> shown_names() const;
  std::optional<SourceExamples> source_examples() const;
  LabelShiftProblem problem() const;
};

/// Reads and checks every file given. Throws Error{kUsage} if one is missing that another needs, or options contradict
/// each other.
Input read_input(const InputOptions& options, const EstimatorOptions& estimator, Progress& progress);

/// Throws Error{kInput} if two headers of as many columns, where both have one, do not name the same classes in the
/// same order. `advice` goes on from the message.
void check_same_classes(const std::vector<std::string>& found, const std::string& found_in,
                        const std::vector<std::string>& expected, const std::string& expected_in,
                        const char* advice = "; --columns NAME,NAME,... reads both in one order");

}  // namespace labelshift::cli
