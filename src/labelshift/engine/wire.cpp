#include "labelshift/engine/wire.hpp"

#include <fmt/format.h>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

void WireReader::end() const {
  if (!bytes_.empty())
    throw Error(ErrorKind::kPeer, fmt::format("a message has {} bytes after its end", bytes_.size()));
}

void WireReader::cut_short(std::uint64_t count, std::size_t size) const {
  throw Error(ErrorKind::kPeer,
              fmt::format("a message ends {} bytes on, expected {} items of {} bytes", bytes_.size(), count, size));
}

void WireReader::refuse(const char* what) {
  throw Error(ErrorKind::kPeer, fmt::format("a message has {}", what));
}

std::span<const std::byte> WireReader::take(std::uint64_t count, std::size_t size) {
  if (count > bytes_.size() / size) cut_short(count, size);
  const auto part = bytes_.first(count * size);
  bytes_ = bytes_.subspan(part.size());
  return part;
}

void WireReader::get(std::string& text) {
  std::uint64_t size = 0;
  get(size);
  const auto from = take(size, 1);
  text.assign(reinterpret_cast<const char*>(from.data()), from.size());
}

void WireReader::get(Eigen::VectorXd& values) {
  std::vector<double> numbers;
  get(numbers);
  values = Eigen::Map<const Eigen::VectorXd>(numbers.data(), std::ssize(numbers));
}

}  // namespace labelshift
