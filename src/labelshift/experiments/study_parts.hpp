#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "labelshift/core/base/observer.hpp"

namespace labelshift {

// What studies have in common: their work is done in parts, each of which is a file once it is done, so that a study
// that was stopped goes on where it was.

/// Makes OUTPUT/NAME with a folder for parts and writes the settings of a study to it, a JSON object with a "version".
/// Throws Error{kUsage} if other settings are there.
void claim_folder(const std::string& folder, const std::string& settings);

/// Writes a part, with its SHA-256.
void write_part(const std::string& path, std::string_view text);

/// The text of a part; nothing if there is no part, or another one than was written.
std::optional<std::string> read_part(const std::string& path);

/// A part of the work, and what it weighs against the others.
struct StudyJob {
  double weight = 1.0;
  std::function<void(const Observer&)> run;
};

struct StudyThreads {
  unsigned workers = 0;           // 0: one a core
  std::function<void()> prepare;  // called on each before it computes anything
};

/// Runs the jobs on all threads, tells the observer how much of all of them is done, and stops them all if it says so
/// or if one fails.
void run_jobs(const std::string& stage, const std::vector<StudyJob>& jobs, const StudyThreads& threads,
              const Observer& observer);

}  // namespace labelshift
