#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/experiments/comparison_page.hpp"
#include "labelshift/experiments/finished_runs.hpp"

namespace labelshift::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> folders;
  std::string output;
};

void report(const ReportOptions& options) {
  if (options.folders.size() > 1 && options.output.empty())
    throw Error(ErrorKind::kUsage,
                "a report on several folders belongs in none of them; say where with --output FILE.html");
  const std::string output = options.output.empty() ? options.folders.front() + "/report.html" : options.output;
  if (const auto ending = std::filesystem::path(output).extension();
      !ending.empty() && ending != ".html" && ending != ".htm")  // of which nothing else in such a folder is one
    throw Error(ErrorKind::kUsage, fmt::format("--output: cannot write {}, reports are HTML only; use .html", output));
  std::vector<FinishedComparison> comparisons;
  for (const std::string& folder : options.folders) comparisons.push_back(read_finished(folder));
  const FinishedComparison all = joined(comparisons);
  write_whole(output, page_html(comparison_page(all.experiment, all.result)));
  print(fmt::format("Report: {}\n", output));
}

}  // namespace

void add_report(CLI::App& app) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App& command = *app.add_subcommand(
      "report", "Write a report to be looked at, on a finished run or comparison, or on several next to each other");
  command
      .add_option("folders", options->folders, "Folders that labelshift run has left: of a comparison, or of one run")
      ->type_name("RUN_DIR")
      ->check(no_dash())
      ->required();
  command
      .add_option("--output", options->output,
                  "The HTML file; by default report.html in the folder, if there is one folder")
      ->type_name("FILE")
      ->check(no_dash());
  command.footer("Example:\n  labelshift report results/fashion-mnist-quick");
  command.callback([options] { report(*options); });
}

}  // namespace labelshift::cli
