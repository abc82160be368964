#include <fmt/format.h>

#include <memory>
#include <string>

#include "labelshift/cli/command_tree.hpp"
#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/terminal.hpp"
#include "labelshift/core/base/version.hpp"

namespace labelshift::cli {
namespace {

/// Text as roff shows it: no line of it is a request, and what is typed at a shell stays in ASCII.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '.' && (result.empty() || result.back() == '\n')) result += "\\&";
    switch (c) {
      case '\\':
        result += "\\e";
        break;
      case '-':
        result += "\\-";
        break;
      case '\'':
        result += "\\(aq";
        break;
      case '`':
        result += "\\(ga";
        break;
      case '^':
        result += "\\(ha";
        break;
      case '~':
        result += "\\(ti";
        break;
      default:
        result += c;
    }
  }
  return result;
}

/// Running text; an empty line begins a paragraph.
std::string paragraphs(const std::string& text) {
  return CLI::detail::find_and_replace(roff(text), "\n\n", "\n.PP\n") + '\n';
}

/// An option as help shows it. Between the values of a long list a line may end.
std::string entry(const CLI::Option& option) {
  const CLI::Formatter formatter;
  const std::string values = CLI::detail::find_and_replace(roff(formatter.make_option_opts(&option)), ",", ",\\:");
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(formatter.make_option_name(&option, option.get_positional())),
                     values, roff(option.get_description()));
}

std::string title(const CLI::App& command) {
  return (command.get_parent() ? command.get_parent()->get_name() + '-' : "") + command.get_name();
}

std::string page(const CLI::App& command) {
  std::string usage = command.get_parent() ? command.get_parent()->get_name() + ' ' : "";
  usage = fmt::format("\\fB{}\\fR [OPTIONS]", roff(usage + command.get_name()));
  const std::string footer = command.get_footer();
  const auto example = footer.find("Example:\n");
  const std::string text = footer.substr(0, example);
  std::string positionals, options, commands;
  for (const CLI::Option* option : options_of(command)) {
    if (!option->get_positional()) continue;
    usage += ' ' + roff(CLI::Formatter().make_option_usage(option));
    positionals += entry(*option);
  }
  for (const std::string& group : command.get_groups()) {
    std::string entries;
    for (const CLI::Option* option : options_of(command))
      if (!option->get_positional() && option->get_group() == group) entries += entry(*option);
    if (!entries.empty()) options += (group == "Options" ? "" : ".SS " + roff(group) + '\n') + entries;
  }
  for (const CLI::App* one : commands_of(command))
    commands += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(title(*one)), roff(one->get_description()));
  if (!commands.empty()) usage += " [COMMAND]";

  std::string result = fmt::format(
      ".TH {} 1 \"\" \"labelshift {}\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n",
      roff(title(command)), version(), roff(title(command)), roff(command.get_description()), usage);
  if (!text.empty()) result += ".SH DESCRIPTION\n" + paragraphs(CLI::detail::trim_copy(text));
  if (!commands.empty()) result += ".SH COMMANDS\n" + commands;
  if (!positionals.empty()) result += ".SH ARGUMENTS\n" + positionals;
  result += ".SH OPTIONS\n" + options;
  if (example != std::string::npos)
    result += ".SH EXAMPLE\n.nf\n" + roff(footer.substr(footer.find('\n', example) + 1)) + "\n.fi\n";
  if (const CLI::App* parent = command.get_parent())
    result += fmt::format(".SH SEE ALSO\n\\fB{}\\fR(1)\n", roff(title(*parent)));
  return result;
}

}  // namespace

void add_manual(CLI::App& app) {
  const auto folder = std::make_shared<std::string>();
  CLI::App& command = *app.add_subcommand("manual", "Write the manual pages into a folder, for a package");
  command.group("");
  command.add_option("folder", *folder, "The folder")->type_name("FILE")->required();
  command.callback([folder, &app] {
    write_whole(fmt::format("{}/{}.1", *folder, title(app)), page(app));
    for (const CLI::App* one : commands_of(app)) write_whole(fmt::format("{}/{}.1", *folder, title(*one)), page(*one));
  });
}

}  // namespace labelshift::cli
