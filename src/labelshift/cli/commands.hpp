#pragma once

#include <CLI/CLI.hpp>

namespace labelshift::cli {

// Each adds one command to `app`; the command runs when the app parses its name.
void add_estimate(CLI::App& app);
void add_adapt(CLI::App& app);
void add_watch(CLI::App& app);
void add_data(CLI::App& app);
void add_estimators(CLI::App& app);
void add_train(CLI::App& app);
void add_predict(CLI::App& app);
void add_run(CLI::App& app);
void add_reproduce(CLI::App& app);
void add_report(CLI::App& app);
void add_certs(CLI::App& app);
void add_coordinator(CLI::App& app);
void add_node(CLI::App& app);
void add_completion(CLI::App& app);
void add_manual(CLI::App& app);

}  // namespace labelshift::cli
