#include "labelshift/experiments/study_parts.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <mutex>
#include <system_error>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/parallel.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/data/files/sha256.hpp"

namespace labelshift {
namespace {

namespace fs = std::filesystem;

// The last line of a part is this and the SHA-256 of those before it.
constexpr std::string_view kSumLine = "sha256,";

}  // namespace

void claim_folder(const std::string& folder, const std::string& settings) {
  std::error_code error;
  fs::create_directories(folder + "/parts", error);
  if (error)
    throw Error(ErrorKind::kSystem, fmt::format("cannot make the folder {}/parts: {}", folder, error.message()));
  const std::string path = folder + "/settings.json";
  if (fs::exists(path, error)) {
    const std::string found = read_file(path);
    if (found == settings) return;
    const Json other = Json::parse(found, /*callback=*/nullptr, /*allow_exceptions=*/false);
    const std::string by = other.is_object() ? other.value("version", Json()).dump() : "";
    if (!by.empty() && by != Json(version()).dump())
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} was started by labelshift {}, and this is {}, whose bits may differ; go on with that "
                              "version, remove the folder, or choose another",
                              folder, by, version()));
    throw Error(ErrorKind::kUsage,
                fmt::format("{} was started with other settings, see its settings.json; repeat those to go on with it, "
                            "remove the folder, or choose another",
                            folder),
                Remedy::kOutputFolder);
  }
  write_file(path, settings);
}

void write_part(const std::string& path, std::string_view text) {
  write_file(path, fmt::format("{}{}{}\n", text, kSumLine, sha256_of(text)));
}

std::optional<std::string> read_part(const std::string& path) {
  try {
    std::string text = read_file(path);
    const std::size_t at = text.rfind(kSumLine);
    if (at == text.npos) return std::nullopt;
    const std::string last = text.substr(at);
    text.resize(at);
    return last == fmt::format("{}{}\n", kSumLine, sha256_of(text)) ? std::optional(std::move(text)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void run_jobs(const std::string& stage, const std::vector<StudyJob>& jobs, const StudyThreads& threads,
              const Observer& observer) {
  double whole = 0.0;
  for (const StudyJob& job : jobs) whole += job.weight;
  std::mutex mutex;
  std::vector<double> done(jobs.size());
  double total = 0.0;
  bool failed = false;
  run_in_parallel(std::ssize(jobs), threads.workers, [&](Index which) {
    const auto report = [&](std::string_view, double share) {
      const std::lock_guard lock(mutex);
      total += (share - done[which]) * jobs[which].weight;
      done[which] = share;
      return !failed && (!observer || observer(stage, total / whole));
    };
    if (threads.prepare) threads.prepare();
    try {
      tell(report, stage);
      jobs[which].run(report);
      report(stage, 1.0);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failed = true;
      throw;
    }
  });
}

}  // namespace labelshift
