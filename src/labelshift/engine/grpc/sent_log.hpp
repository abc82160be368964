#pragma once

#include <mutex>
#include <string>

#include "labelshift/engine/grpc/peer_messages.hpp"
#include "labelshift/engine/message.hpp"

namespace labelshift {

/// What a request asks for, in words; of one under masks also what for.
std::string task_name(const Request& request);

/// A file to which a node appends a line of JSON for everything that leaves it, before it does:
///
///   {"time":"2026-01-31T12:00:00.123Z","node":"north","kind":"answer","run":"r1","round":3,"serial":17,"task":"train",
///    "words":0,"numbers":2,"weights":44426,"packed_bytes":0,"report_bytes":0,"bytes":177752,"sha256":"..."}
///
/// A failure has its sentence instead of the counts, a hello has neither. Several threads may write at once. Lines are
/// there whole or not at all: one that a full disk cut short is taken away, at the next start at the latest.
class SentLog {
 public:
  /// Throws Error{kSystem} if the file cannot be appended to; an empty path: nothing is logged.
  explicit SentLog(const std::string& path);
  SentLog(const SentLog&) = delete;
  SentLog& operator=(const SentLog&) = delete;
  ~SentLog();

  /// These throw Error{kSystem} if the line was not written whole: then nothing may leave.
  void hello(const std::string& node, const std::string& bytes);
  struct AnswerFacts {
    std::string task;
    std::size_t words = 0, numbers = 0, weights = 0, packed = 0, report = 0;  // the last two in bytes
    std::size_t bytes = 0;
    peer::Digest sha256{};
  };
  void answer(const std::string& node, const peer::CallId& call, const AnswerFacts& facts, bool again);
  void failure(const std::string& node, const peer::CallId& call, const std::string& task, const std::string& sentence,
               const std::string& bytes, bool again);

 private:
  void mend();
  void write(const std::string& line);
  const std::string path_;
  std::mutex mutex_;
  int descriptor_ = -1;
};

}  // namespace labelshift
