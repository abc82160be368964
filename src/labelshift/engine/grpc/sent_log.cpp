#include "labelshift/engine/grpc/sent_log.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/engine/masking/masked_request.hpp"
#include "labelshift/engine/tasks.hpp"

namespace labelshift {
namespace {

std::string now_text() {
  using namespace std::chrono;
  const auto now = floor<milliseconds>(system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(system_clock::to_time_t(now)),
                     (now.time_since_epoch() % seconds(1)).count());
}

std::string name_of(std::uint32_t task) {
  switch (static_cast<TaskKind>(task)) {
    case TaskKind::kHello:
      return "hello";
    case TaskKind::kJoin:
      return "join";
    case TaskKind::kAgree:
      return "agree";
    case TaskKind::kTarget:
      return "target";
    case TaskKind::kShare:
      return "share";
    case TaskKind::kAssess:
      return "assess";
    case TaskKind::kRatio:
      return "ratio";
    case TaskKind::kTrainPredictor:
      return "train-predictor";
    case TaskKind::kHeldOut:
      return "held-out";
    case TaskKind::kCalibrate:
      return "calibrate";
    case TaskKind::kTargetTogether:
      return "target-together";
    case TaskKind::kSharedMix:
      return "shared-mix";
    case TaskKind::kSharedTarget:
      return "shared-target";
    case TaskKind::kMixture:
      return "mixture";
    case TaskKind::kTrain:
      return "train";
    case TaskKind::kEvaluate:
      return "evaluate";
  }
  if (task == kMaskKeysTask) return "mask-keys";
  return fmt::format("task {}", task);
}

Json line_of(const std::string& node, const char* kind) {
  return {{"time", now_text()}, {"node", node}, {"kind", kind}};
}

void add_call(Json& line, const peer::CallId& call, const std::string& task, bool again) {
  line["run"] = call.run;
  line["round"] = call.round;
  line["serial"] = call.serial;
  line["task"] = task;
  if (again) line["again"] = true;
}

peer::Digest digest_of(const std::string& bytes) {
  return peer::digest_of(std::as_bytes(std::span(bytes)));
}

/// What follows the last line end of a regular file; nothing of another file, or where that is too long to be a line.
std::string tail_of(const std::string& path) {
  constexpr off_t kLongest = 1 << 16;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return "";
  std::string text;
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
    text.resize(static_cast<std::size_t>(std::min(status.st_size, kLongest)));
    const ssize_t read = ::pread(descriptor, text.data(), text.size(), status.st_size - std::ssize(text));
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(read, 0)));
  }
  ::close(descriptor);
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::string task_name(const Request& request) {
  if (request.task != kMaskedTask) return name_of(request.task);
  try {
    return "masked " + name_of(from_bytes<MaskedRequest>(request.body).task);
  } catch (const Error&) {  // it will be refused
    return "masked";
  }
}

SentLog::SentLog(const std::string& path) : path_(path) {
  if (path.empty()) return;
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600);
  if (descriptor_ < 0)
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be written ({}); give the log of what leaves this node "
                                                "another place",
                                                path, std::generic_category().message(errno)));
  mend();
}

/// A line that was not written whole, for want of room, is taken away: what it was to say never left. What looks like
/// anything else is ended, so that the next line is one.
void SentLog::mend() {
  const std::string tail = tail_of(path_);
  if (tail.empty()) return;
  struct stat status {};
  if (tail.starts_with("{\"time\":") && !Json::accept(tail) && ::fstat(descriptor_, &status) == 0 &&
      ::ftruncate(descriptor_, status.st_size - std::ssize(tail)) == 0)
    return;
  write("");
}

SentLog::~SentLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SentLog::hello(const std::string& node, const std::string& bytes) {
  if (path_.empty()) return;
  Json line = line_of(node, "hello");
  line["bytes"] = bytes.size();
  line["sha256"] = peer::hexadecimal(digest_of(bytes));
  write(json_line(line));
}

void SentLog::answer(const std::string& node, const peer::CallId& call, const AnswerFacts& facts, bool again) {
  if (path_.empty()) return;
  Json line = line_of(node, "answer");
  add_call(line, call, facts.task, again);
  line["words"] = facts.words;
  line["numbers"] = facts.numbers;
  line["weights"] = facts.weights;
  line["packed_bytes"] = facts.packed;
  line["report_bytes"] = facts.report;
  line["bytes"] = facts.bytes;
  line["sha256"] = peer::hexadecimal(facts.sha256);
  write(json_line(line));
}

void SentLog::failure(const std::string& node, const peer::CallId& call, const std::string& task,
                      const std::string& sentence, const std::string& bytes, bool again) {
  if (path_.empty()) return;
  Json line = line_of(node, "failure");
  add_call(line, call, task, again);
  line["sentence"] = sentence;
  line["bytes"] = bytes.size();
  line["sha256"] = peer::hexadecimal(digest_of(bytes));
  write(json_line(line));
}

void SentLog::write(const std::string& line) {
  const std::string text = line + '\n';
  const std::lock_guard lock(mutex_);
  struct stat before {};
  ::fstat(descriptor_, &before);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(descriptor_, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = errno;
      struct stat after {};
      if (::fstat(descriptor_, &after) == 0 && after.st_size == before.st_size + static_cast<off_t>(at))
          [[maybe_unused]]
        const int ignored = ::ftruncate(descriptor_, before.st_size);  // else the next start does it
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: cannot be written ({}); nothing leaves this node that is not logged there, so "
                              "make room and start it again",
                              path_, std::generic_category().message(error)));
    }
    at += static_cast<std::size_t>(written);
  }
}

}  // namespace labelshift
