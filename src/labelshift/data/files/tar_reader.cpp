#include "labelshift/data/files/tar_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/input_file.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kBlock = 512;
using Header = std::array<char, kBlock>;

/// A text field, which ends at a NUL or fills its place.
std::string text(const Header& header, std::size_t at, std::size_t length) {
  const std::string_view field(header.data() + at, length);
  return std::string(field.substr(0, field.find('\0')));
}

/// A number in octal digits, with spaces or NULs around it.
std::optional<std::uint64_t> octal(const Header& header, std::size_t at, std::size_t length) {
  std::string_view field(header.data() + at, length);
  while (field.starts_with(' ')) field.remove_prefix(1);
  while (field.ends_with(' ') || field.ends_with('\0')) field.remove_suffix(1);
  if (field.empty() || field.find_first_not_of("01234567") != field.npos) return std::nullopt;
  std::uint64_t value = 0;
  for (const char digit : field) value = value << 3 | static_cast<std::uint64_t>(digit - '0');
  return value;  // of at most 12 digits, so of at most 36 bits
}

/// The sum of the header's bytes, with spaces in place of the field that holds the sum.
std::uint64_t checksum(const Header& header) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < kBlock; ++at)
    sum += at >= 148 && at < 156 ? ' ' : static_cast<unsigned char>(header[at]);
  return sum;
}

bool leads_outside(const std::string& name) {
  const std::filesystem::path path(name);
  return path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
}

}  // namespace

TarReader::TarReader(const std::string& path, std::function<void()> between)
    : path_(path), file_(InputFile(path)), between_(std::move(between)) {}

void TarReader::fail(const std::string& problem) const {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}", path_, problem));
}

void TarReader::read_fully(char* bytes, std::size_t count) {
  file_.read(bytes, static_cast<std::streamsize>(count));
  if (file_.gcount() != static_cast<std::streamsize>(count))
    fail("the tar archive is cut off before its end; copy it again");
}

void TarReader::skip(std::uint64_t count) {
  std::array<char, 16 * kBlock> passed;
  passed_over_ += kBlock + count;  // with the header to come, or a few bytes could unpack to headers without end
  if (passed_over_ > kMostPassedOver)
    fail(
        fmt::format("found more than {} GiB that nobody asked for; check that it is the right "
                    "archive",
                    kMostPassedOver >> 30));
  for (; count > 0; count -= std::min<std::uint64_t>(count, passed.size())) {
    between_();
    read_fully(passed.data(), std::min<std::uint64_t>(count, passed.size()));
  }
  between_();
}

bool TarReader::next() {
  while (true) {
    skip(left_ + padding_);
    left_ = padding_ = 0;
    Header header;
    read_fully(header.data(), kBlock);
    if (std::all_of(header.begin(), header.end(), [](char c) { return c == '\0'; })) return false;
    if (std::string_view(header.data() + 257, 5) != "ustar" || octal(header, 148, 8) != checksum(header))
      fail("found something else than the header of a file in a tar archive (ustar); check that it is one");
    const auto size = octal(header, 124, 12);
    if (!size) fail("found a file of no size, expected octal digits in the tar archive; make it again");
    const std::string prefix = text(header, 345, 155);
    // GNU tar marks its own dialect by a space after "ustar" and keeps other things where the prefix is.
    name_ = (prefix.empty() || header[262] == ' ' ? "" : prefix + "/") + text(header, 0, 100);
    size_ = left_ = *size;
    padding_ = (kBlock - size_ % kBlock) % kBlock;
    const char type = header[156];
    if (type != '0' && type != '\0') continue;
    if (name_.empty() || leads_outside(name_))
      fail(fmt::format("found the file name {}, which leads out of the archive; do not trust it", excerpt(name_)));
    return true;
  }
}

std::size_t TarReader::read(std::span<char> bytes) {
  const std::size_t count = std::min<std::uint64_t>(left_, bytes.size());
  read_fully(bytes.data(), count);
  left_ -= count;
  return count;
}

}  // namespace labelshift
