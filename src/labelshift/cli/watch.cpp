#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/observer.hpp"
#include "labelshift/core/likelihood/renormalise.hpp"
#include "labelshift/core/stream.hpp"
#include "labelshift/data/files/csv_reader.hpp"
#include "labelshift/report/label_shift_report.hpp"
#include "labelshift/report/watch_report.hpp"

namespace labelshift::cli {
namespace {

struct WatchOptions {
  InputOptions input;
  EstimatorOptions estimator;
  double half_life = 0.0;
  std::int64_t every = 1000;
  double level = IncrementalOptions().level;
  double alarm = 0.001;
  bool skip_bad_lines = false;
  std::string format = kFormats.front();
};

constexpr Index kBatch = 256;
constexpr Index kLongestCell = 64;  // bytes; a double has 24 at most
constexpr Index kLongestStreamLine = 1 << 16;
constexpr const char* kInputName = "standard input";

/// Follows the stream: what the source says, and what was seen of the target.
class Watch {
 public:
  Watch(const WatchOptions& options, const Input& input)
      : options_(options),
        classes_(input.shown_names()),
        source_header_(input.source->class_names()),
        tables_(input.tables),
        stream_(*input.source_examples(), input.source_prior, input.class_names,
                {.incremental = {.estimator = options.estimator.estimator,
                                 .settings = estimator_settings(options.estimator, 0),
                                 .half_life = options.half_life,
                                 .level = options.level},
                 .calibration = options.estimator.calibration,
                 .smoothing = options.estimator.smoothing}),
        pending_(kBatch, input.classes()) {
    if (const auto warning = source_warning(stream_.source_evidence(), classes_)) warn(*warning);
  }

  /// A row from the line that `place` names; throws Error{kInput} and has not added it if it is not what it should be.
  void add(std::vector<double>& row, const std::string& place) {
    RowMajorMatrix<double> values = Eigen::Map<RowMajorMatrix<double>>(row.data(), 1, classes());
    try {
      if (options_.input.renormalise) values = std::get<RowMajorMatrix<double>>(renormalise_rows(values, place).values);
      Scores(values, options_.input.logits, place);
    } catch (const Error& error) {
      std::string message = error.what();  // of a matrix of one row, which is not the row the user counts
      if (const auto at = message.find(", row 1"); at == place.size()) message.erase(at, std::strlen(", row 1"));
      throw error.reworded(message);
    }
    pending_.row(pending_rows_++) = values;
    if (pending_rows_ == pending_.rows()) flush();
  }

  /// A line was left out, and why.
  void skip(const std::string& why) {
    if (skipped_lines_++ == 0) first_skipped_ = why;
  }

  /// The names of the source's columns; empty if they have none.
  const std::vector<std::string>& source_header() const { return source_header_; }
  /// The tables that were read, and this one.
  std::vector<TableColumns> tables_and(const TableColumns& another) const {
    std::vector<TableColumns> tables = tables_;
    tables.push_back(another);
    return tables;
  }
  Index classes() const { return stream_.source_prior().size(); }
  double rows() const { return stream_.rows() + static_cast<double>(pending_rows_); }
  std::int64_t skipped_lines() const { return skipped_lines_; }
  const std::string& first_skipped() const { return first_skipped_; }

  /// Prints the current answer.
  void look() {
    flush();
    const WatchReport report = watch_report(stream_, classes_, options_.alarm, skipped_lines_);
    if (options_.format == "json")
      print_json(watch_json(report));
    else if (options_.format == "csv")
      print_data(table_csv(watch_table(report), /*with_keys=*/!std::exchange(header_written_, true)));
    else
      print(watch_text(report));
  }

 private:
  /// Adds the pending rows together, which is faster than one by one.
  void flush() {
    if (pending_rows_ == 0) return;
    stream_.add(Scores::known(MatrixView(pending_).middle_rows(0, pending_rows_), options_.input.logits));
    pending_rows_ = 0;
  }

  const WatchOptions& options_;
  std::vector<std::string> classes_;
  std::vector<std::string> source_header_;
  std::vector<TableColumns> tables_;
  LabelShiftStream stream_;
  RowMajorMatrix<double> pending_;  // rows checked but not yet added, as they came
  Index pending_rows_ = 0;
  std::int64_t skipped_lines_ = 0;
  std::string first_skipped_;
  bool header_written_ = false;
};

Watch start(const WatchOptions& options) {
  Progress progress;
  const Input input = read_input(options.input, options.estimator, progress);
  for (const std::string& warning : input.warnings) warn(warning);
  return Watch(options, input);
}

/// Adds the rows of standard input, and calls `added` after each.
void follow(const WatchOptions& options, Watch& watch, const std::function<void()>& added) {
  StandardInput input;
  RowReader reader(input, watch.classes(), kInputName, options.input.columns,
                   static_cast<std::size_t>(std::max(kLongestStreamLine, kLongestCell * watch.classes())));
  const auto good_line = [&](auto&& read) {
    try {
      read();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      if (!options.skip_bad_lines && watch.rows() > 0.0)  // before that, all lines may be like this one
        throw error.reworded(fmt::format("{} (--skip-bad-lines goes on without such lines)", error.what()));
      if (!options.skip_bad_lines) throw;
      watch.skip(error.what());
      return false;
    }
  };
  std::vector<double> row;
  for (bool more = true; more;) {
    if (!good_line([&] { more = reader.next(row); }) || !more) continue;
    if (watch.rows() == 0.0) {
      check_ignored(options.input.columns, watch.tables_and(reader.table()));
      check_same_classes(reader.column_names(), kInputName, watch.source_header(), options.input.source_probs);
    }
    if (good_line([&] { watch.add(row, fmt::format("{}, line {}", kInputName, reader.line())); })) added();
  }
}

void watch(const WatchOptions& options) {
  Watch watch = start(options);
  double shown = 0.0;
  const auto look_after = [&](double rows) {
    if (watch.rows() - shown < rows) return;
    watch.look();
    shown = watch.rows();
  };
  const DeferInterrupt interrupt;  // the signal ends the process when all that is known has been said
  const auto say_the_rest = [&] {
    look_after(1.0);
    if (watch.skipped_lines() > 0)
      warn(fmt::format("skipped {} bad line{}; the first: {}", watch.skipped_lines(),
                       watch.skipped_lines() == 1 ? "" : "s", watch.first_skipped()));
  };
  try {
    follow(options, watch, [&] { look_after(static_cast<double>(options.every)); });
    if (watch.rows() == 0.0)
      throw Error(ErrorKind::kInput, fmt::format("{}: found no {}rows, expected one row of probabilities a line",
                                                 kInputName, watch.skipped_lines() > 0 ? "good " : ""));
  } catch (const Stopped&) {
  } catch (const Error&) {
    say_the_rest();  // what was known before the bad row
    throw;
  }
  say_the_rest();
}

}  // namespace

void add_watch(CLI::App& app) {
  const auto options = std::make_shared<WatchOptions>();
  CLI::App& command =
      *app.add_subcommand("watch", "Follow the class mix of rows of probabilities that arrive on standard input");
  add_source_options(command, options->input);
  for (const char* needed : {"--source-probs", "--source-labels"}) command.get_option(needed)->required();
  command.get_option("--source-prior")
      ->description(
          "The class mix that the classifier was trained on, if it is not that of the source examples; a file, or "
          "0.2,0.3,0.5");
  add_estimator_options(command, options->estimator);
  std::vector<std::string> names;
  for (const EstimatorEntry& entry : estimators())
    if (can_be_fed_row_by_row(entry)) names.emplace_back(entry.name);
  command.get_option("--estimator")
      ->type_name(fmt::format("{{{}}}", fmt::join(names, ",")))
      ->description("How to estimate; mlls-sqp stands for every unpenalised mlls estimator");
  add_level_option(command, options->level);
  command
      .add_option("--half-life", options->half_life,
                  "After this many more rows a row counts half; 0: all rows count the same")
      ->type_name("ROWS")
      ->check(not_negative())
      ->capture_default_str()
      ->group("Estimation");
  command
      .add_flag("--skip-bad-lines", options->skip_bad_lines,
                "Count and skip lines that are not a row, instead of ending at the first")
      ->disable_flag_override()
      ->group("How to read the files; - as a file is standard input");
  const char* group = "Output";
  command.add_option("--every", options->every, "Print the current mix each time this many rows have come")
      ->type_name("ROWS")
      ->transform(whole_number({.from = 1, .to = 1'000'000'000'000}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--alarm", options->alarm,
                  "Raise an alarm when the test of \"no shift\" or that of the label-shift assumption has a p-value "
                  "below this; it is the chance of a false alarm of each at each look, so many looks need a small one")
      ->type_name("NUMBER")
      ->check(between_0_and_1())
      ->capture_default_str()
      ->group(group);
  add_choice(command, "--format", options->format, "format", kFormats, "How to print; json is one object a line")
      ->group(group);
  command.footer(R"(Ctrl-C prints the mix of all rows that came before it ends.

Example:
  labelshift watch --source-probs examples/tiny/source_probs.csv \
    --source-labels examples/tiny/source_labels.csv --every 100 < examples/tiny/target_probs.csv)");
  command.callback([options] { watch(*options); });
}

}  // namespace labelshift::cli
