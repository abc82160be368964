#pragma once

#include <CLI/CLI.hpp>
#include <vector>

namespace labelshift::cli {

// What help shows of a command line. A command or an option in a group without a name is hidden.

inline std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

inline std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

}  // namespace labelshift::cli
