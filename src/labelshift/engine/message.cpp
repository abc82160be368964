#include "labelshift/engine/message.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "labelshift/core/error.hpp"

namespace labelshift {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

class Writer {
 public:
  Writer(std::vector<std::byte>& bytes, std::size_t size) : bytes_(bytes) {
    bytes_.clear();
    bytes_.reserve(size);
  }
  template <typename T>
  void number(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  template <typename T>
  void array(const std::vector<T>& values) {
    number(static_cast<std::uint64_t>(values.size()));
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    bytes_.insert(bytes_.end(), bytes, bytes + values.size() * sizeof(T));
  }

 private:
  std::vector<std::byte>& bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  template <typename T>
  void array(std::vector<T>& values) {
    const auto count = number<std::uint64_t>();
    if (count > bytes_.size() / sizeof(T)) cut_short(count, sizeof(T));
    const auto from = take(count * sizeof(T));
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), from.data(), from.size());
  }
  void end() const {
    if (!bytes_.empty())
      throw Error(ErrorKind::kPeer, fmt::format("a message has {} bytes after its end", bytes_.size()));
  }

 private:
  [[noreturn]] void cut_short(std::uint64_t count, std::size_t size) const {
    throw Error(ErrorKind::kPeer,
                fmt::format("a message ends {} bytes on, expected {} numbers of {} bytes", bytes_.size(), count, size));
  }
  std::span<const std::byte> take(std::size_t size) {
    if (size > bytes_.size()) cut_short(1, size);
    const auto part = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return part;
  }
  std::span<const std::byte> bytes_;
};

}  // namespace

std::uint64_t encoded_size(const Request& request) {
  return 28 + request.numbers.size() * sizeof(double) + request.weights.size() * sizeof(float);
}

std::uint64_t encoded_size(const Update& update) {
  return 24 + (update.numbers.size() + update.report.size()) * sizeof(double) + update.weights.size() * sizeof(float);
}

std::vector<std::byte> encode(const Request& request) {
  std::vector<std::byte> bytes;
  Writer out(bytes, encoded_size(request));
  out.number(request.task);
  out.number(request.round);
  out.array(request.numbers);
  out.array(request.weights);
  return bytes;
}

std::vector<std::byte> encode(const Update& update) {
  std::vector<std::byte> bytes;
  Writer out(bytes, encoded_size(update));
  out.array(update.numbers);
  out.array(update.weights);
  out.array(update.report);
  return bytes;
}

Request decode_request(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Request request{.task = in.number<std::uint32_t>(), .round = in.number<std::uint64_t>()};
  in.array(request.numbers);
  in.array(request.weights);
  in.end();
  return request;
}

Update decode_update(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Update update;
  in.array(update.numbers);
  in.array(update.weights);
  in.array(update.report);
  in.end();
  return update;
}

}  // namespace labelshift
