#include "labelshift/cli/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "labelshift/cli/command_tree.hpp"
#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/core/base/settings.hpp"
#include "labelshift/core/base/version.hpp"

namespace labelshift::cli {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// The first argument that `app` or its chosen command does not know, as an error with a suggestion.
std::optional<Error> unknown_argument(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  const CLI::App& reader = chosen.empty() ? app : *chosen.front();
  const auto unknown = reader.remaining();
  if (unknown.empty()) return std::nullopt;
  const std::string name = unknown.front().substr(0, unknown.front().find('='));
  if (name == "--target-probs" && reader.get_name() == "watch")
    return Error(ErrorKind::kUsage, "unknown option \"--target-probs\"; the rows come on standard input: < FILE");
  if (name.starts_with('-')) return unknown_name("option", name, option_names(reader));
  if (chosen.empty() && name == "help")
    return Error(ErrorKind::kUsage, "unknown command \"help\"; see labelshift --help");
  if (chosen.empty()) return unknown_name("command", name, command_names(app));
  return Error(ErrorKind::kUsage, fmt::format("unexpected \"{}\"; every value follows its option, see labelshift {} "
                                              "--help",
                                              name, reader.get_name()));
}

/// Help is of a command that there is: "labelshift coordinate --help" must not look like that of "coordinator".
void refuse_unknown_command(const CLI::App& app) {
  if (!app.get_subcommands().empty()) return;
  for (const std::string& word : app.remaining())
    if (!word.starts_with('-')) throw *unknown_argument(app);
}

/// What CLI11 says of an option's values, as a sentence that says what to do.
Error plain_error(const CLI::ParseError& error, const CLI::App& app) {
  const std::string text = error.what();
  const auto chosen = app.get_subcommands();
  const CLI::App& reader = chosen.empty() ? app : *chosen.front();
  std::string name = text.substr(0, text.find_first_of(": "));
  const CLI::Option* option = reader.get_option_no_throw(name);
  if (!option) option = reader.get_option_no_throw(name = "--" + name);  // of a flag CLI11 says the bare name
  if (error.get_name() == "ArgumentMismatch" && option) {
    if (text.ends_with(" missing"))
      return Error(ErrorKind::kUsage, fmt::format("{0} has no value; write {0} {1}", name, option->get_type_name()));
    if (text.ends_with(" flag override"))
      return Error(ErrorKind::kUsage, fmt::format("{0} takes no value; write {0} alone", name));
    return Error(ErrorKind::kUsage, fmt::format("{} is there {} times; give it once", name, option->count()));
  }
  return Error(ErrorKind::kUsage, text);
}

std::string version_text() {
  const std::string chosen = to_string(cpu()), native = to_string(native_cpu());
  return fmt::format("labelshift {}\nInstructions: {}{}; OpenBLAS: {}", version(), chosen,
                     chosen == native ? "" : fmt::format(" (LABELSHIFT_CPU; the processor has {})", native),
                     blas_processor());
}

Error empty_value(const std::string& name, const std::string& type) {
  return {ErrorKind::kUsage, name.starts_with('-') ? fmt::format("{0} is empty; write {0} {1}", name, type)
                                                   : fmt::format("{} is empty, expected {}", name, type)};
}

/// Makes every option that is there with nothing in it (--output "") a usage error: an empty name of a file stands for
/// no file in all that follows, so the option would be ignored.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    const auto name = option->get_name();
    option->transform(CLI::Validator(  // which comes before all checks
        [name, type = option->get_type_name()](std::string& value) -> std::string {
          if (value.empty()) throw empty_value(name, type);
          return {};
        },
        ""));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty_values(*command);
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app(
      "Estimate and correct label shift: how the class mix of new data differs from the data a classifier "
      "was built on.",
      "labelshift");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", version_text(), "Print the version and exit");
  app.footer("\"labelshift COMMAND --help\" explains a command and shows an example.");
  app.get_formatter()->column_width(30);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("Subcommands", "Commands");
  add_estimate(app);
  add_adapt(app);
  add_watch(app);
  add_data(app);
  add_estimators(app);
#ifdef LABELSHIFT_WITH_TORCH
  add_train(app);
  add_predict(app);
  add_run(app);
  add_reproduce(app);
  add_report(app);
#endif
#ifdef LABELSHIFT_WITH_SITES
  add_coordinator(app);
  add_node(app);
#endif
  add_certs(app);
  add_completion(app);
  add_manual(app);
  refuse_empty_values(app);

  if (argc < 2) {
    print(app.help());
    return kUsageError;
  }
  for (const std::string_view word : std::span(argv, static_cast<std::size_t>(argc)))
    if (word.starts_with("--") && word.find('=') == word.size() - 1)  // CLI11 would take the next word for its value
      throw empty_value(std::string(word.substr(0, word.size() - 1)), "VALUE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    refuse_unknown_command(app);
    print(app.help());
    return 0;
  } catch (const CLI::CallForVersion& call) {
    refuse_unknown_command(app);
    print(std::string(call.what()) + '\n');
    return 0;
  } catch (const CLI::ParseError& error) {
    // A misspelt option often shows first as the lack of the one that was meant.
    if (const auto unknown = unknown_argument(app)) throw *unknown;
    throw plain_error(error, app);
  }
  if (app.get_subcommands().empty()) throw Error(ErrorKind::kUsage, "no command; see labelshift --help");
  return 0;
}

}  // namespace labelshift::cli
