#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "labelshift/cli/command_tree.hpp"
#include "labelshift/cli/commands.hpp"
#include "labelshift/cli/input.hpp"
#include "labelshift/cli/terminal.hpp"

namespace labelshift::cli {
namespace {

/// What may follow an option, as its type name says: "{a,b}" are choices, "FILE" is a file, "" is nothing.
struct Value {
  enum class Kind { kNone, kFile, kChoice, kFree } kind;
  std::vector<std::string> choices;
};

Value value_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return {Value::Kind::kNone, {}};
  const std::string type = option.get_type_name();
  if (type == "FILE") return {Value::Kind::kFile, {}};
  if (!type.starts_with('{')) return {Value::Kind::kFree, {}};
  return {Value::Kind::kChoice, CLI::detail::split(type.substr(1, type.size() - 2), ',')};
}

std::vector<std::string> names_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options_of(command))
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string bash_script(const CLI::App& app) {
  std::vector<std::string> commands;
  std::string values;
  std::string words;
  for (const CLI::App* command : commands_of(app)) {
    const std::string& name = command->get_name();
    commands.push_back(name);
    std::vector<std::string> offered = names_of(*command);
    for (const CLI::Option* option : options_of(*command)) {
      const Value value = value_of(*option);
      if (option->get_positional()) {
        offered.insert(offered.end(), value.choices.begin(), value.choices.end());
        continue;
      }
      for (const std::string& option_name : option->get_lnames()) {
        const std::string pattern = fmt::format("    '{} --{}')", name, option_name);
        if (value.kind == Value::Kind::kChoice)
          values += fmt::format("{} COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;\n", pattern,
                                fmt::join(value.choices, " "));
        else if (value.kind == Value::Kind::kFile)
          values += pattern + " return ;;\n";
        else if (value.kind == Value::Kind::kFree)
          values += pattern + " compopt +o default 2> /dev/null; return ;;\n";
      }
    }
    words += fmt::format("    {}) words='{}' ;;\n", name, fmt::join(offered, " "));
  }
  // With "-o default" an empty COMPREPLY means file names. "=" is a word of its own to bash.
  return fmt::format(R"(# bash completion for labelshift; to use it: source <(labelshift completion bash)
_labelshift() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} words
  COMPREPLY=()
  if [ "$previous" = = ]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  elif [ "$current" = = ]; then
    current=
  fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} {}' -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}} $previous" in
{}  esac
  case ${{COMP_WORDS[1]}} in
{}    *) return ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _labelshift labelshift
)",
                     fmt::join(commands, " "), fmt::join(names_of(app), " "), values, words);
}

/// Text inside single quotes and a [...] or name:... of zsh.
std::string zsh_quoted(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      result += std::string("\\") + c;
    else
      result += c;
  }
  return result;
}

std::string zsh_action(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNone:
      return "";
    case Value::Kind::kFile:
      return ":file:_files";
    case Value::Kind::kChoice:
      return fmt::format(":value:({})", fmt::join(value.choices, " "));
    case Value::Kind::kFree:
      return ":value: ";
  }
  return "";
}

std::string zsh_specs(const CLI::App& command) {
  std::string specs;
  int position = 0;
  for (const CLI::Option* option : options_of(command)) {
    const Value value = value_of(*option);
    if (option->get_positional()) specs += fmt::format(" \\\n        '{}{}'", ++position, zsh_action(value));
    // "*" lets an option that takes several values come again.
    const char* again = option->get_items_expected_max() > 1 ? "*" : "";
    for (const std::string& name : option->get_lnames())
      specs += fmt::format(" \\\n        '{}--{}{}[{}]{}'", again, name, value.kind == Value::Kind::kNone ? "" : "=",
                           zsh_quoted(option->get_description()), zsh_action(value));
  }
  return specs;
}

std::string zsh_script(const CLI::App& app) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    commands += fmt::format("      '{}:{}'\n", command->get_name(), zsh_quoted(command->get_description()));
    cases += fmt::format("    {})\n      _arguments{}\n      ;;\n", command->get_name(), zsh_specs(*command));
  }
  return fmt::format(R"(#compdef labelshift
# zsh completion for labelshift; to use it: source <(labelshift completion zsh)
_labelshift() {{
  if (( CURRENT == 2 )); then
    local -a commands=(
{}    )
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{}  esac
}}
if [ "$funcstack[1]" = _labelshift ]; then
  _labelshift "$@"
else
  compdef _labelshift labelshift
fi
)",
                     commands, cases);
}

}  // namespace

void add_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& command = *app.add_subcommand("completion", "Print a completion script for a shell");
  add_choice(command, "shell", *shell, "shell", {"bash", "zsh"}, "The shell it is for")->required();
  command.footer("Example:\n  labelshift completion bash > labelshift-completion.bash");
  command.callback([shell, &app] { print(*shell == "bash" ? bash_script(app) : zsh_script(app)); });
}

}  // namespace labelshift::cli
