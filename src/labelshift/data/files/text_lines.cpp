#include "labelshift/data/files/text_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

}  // namespace

/// std::getline() with a limit.
bool Lines::read_line() {
  if (std::exchange(too_long_, false)) in_.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  char part[4096];
  text_.clear();
  for (bool ended = false; !ended;) {
    in_.getline(part, sizeof part);
    const std::streamsize got = in_.gcount();
    if (got == 0 && text_.empty()) return false;
    ended = !in_.fail() || got == 0;
    text_.append(part, static_cast<std::size_t>(got) - (in_.good() ? 1 : 0));  // a line end is counted and not stored
    if (!ended) in_.clear(in_.rdstate() & ~std::ios::failbit);
    if (text_.size() <= longest_) continue;
    too_long_ = !ended;
    ++number_;
    throw Error(ErrorKind::kInput,
                fmt::format("{}: found more than {} bytes without a line end, expected one after every row", place(),
                            longest_));
  }
  ++number_;
  return true;
}

bool Lines::next(std::string_view& line) {
  Index blank = 0;
  while (std::exchange(held_, false) || read_line()) {
    line = text_;
    if (number_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number_ == 1 && line.starts_with("\x93NUMPY"))
      throw Error(
          ErrorKind::kInput,
          fmt::format("{}: found a .npy array, which cannot be read here; give the path of its file, not packed, "
                      "or send CSV",
                      name_));
    if (number_ == 1 && line.starts_with("\x1f\x8b"))
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: found gzip data, expected text; unpack it first: gunzip -c FILE |", name_));
    if (line.find('\0') != line.npos)
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: found binary data, expected text in UTF-8 or a .npy array; export "
                              "it as CSV or with np.save",
                              place()));
    if (std::all_of(line.begin(), line.end(), is_blank)) {
      if (blank == 0) blank = number_;
      continue;
    }
    if (blank != 0) {
      held_ = true;
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, line {}: found a blank line, expected data as in line {}; fill it in or remove it",
                              name_, blank, number_));
    }
    return true;
  }
  if (in_.bad()) throw Error(ErrorKind::kInput, fmt::format("{}: reading failed after line {}", name_, number_));
  return false;
}

std::string Lines::place() const {
  return fmt::format("{}, line {}", name_, number_);
}

char find_delimiter(std::string_view first_line, std::string_view name) {
  if (name.ends_with(".tsv") || name.ends_with(".tsv.gz")) return '\t';
  for (const char delimiter : {'\t', ';', ','}) {
    bool quoted = false;
    for (const char c : first_line) {
      if (c == '"') quoted = !quoted;
      if (c == delimiter && !quoted) return delimiter;
    }
  }
  return ' ';
}

Cells::Cells(const Lines& lines, std::string_view line, char delimiter)
    : lines_(lines), at_(line.data()), end_(line.data() + line.size()), delimiter_(delimiter) {
  if (delimiter_ == ' ')
    while (end_ != at_ && is_blank(end_[-1])) --end_;
}

bool Cells::next(std::string_view& cell) {
  if (!more_) return false;
  ++column_;
  while (at_ != end_ && is_blank(*at_) && (*at_ != delimiter_ || delimiter_ == ' ')) ++at_;
  if (at_ != end_ && *at_ == '"') {
    cell = unquote();
  } else {
    const char* begin = at_;
    const void* found = std::memchr(at_, delimiter_, static_cast<std::size_t>(end_ - at_));
    at_ = found ? static_cast<const char*>(found) : end_;
    const char* last = at_;
    while (last != begin && is_blank(last[-1])) --last;
    cell = {begin, static_cast<std::size_t>(last - begin)};
  }
  more_ = at_ != end_;
  if (more_) ++at_;
  return true;
}

std::string_view Cells::unquote() {
  const char* begin = at_++;
  unquoted_.clear();
  bool closed = false;
  for (; at_ != end_; ++at_) {
    closed = *at_ == '"' && (++at_ == end_ || *at_ != '"');
    if (closed) break;
    unquoted_ += *at_;
  }
  while (at_ != end_ && is_blank(*at_) && *at_ != delimiter_) ++at_;
  if (!closed || (at_ != end_ && *at_ != delimiter_))
    throw Error(ErrorKind::kInput,
                fmt::format("{}, column {}: found {}, expected one quote at each end of the cell", lines_.place(),
                            column_, excerpt({begin, static_cast<std::size_t>(end_ - begin)})));
  return unquoted_;
}

bool parse_number(std::string_view cell, double& value) {
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  const char* end = cell.data() + cell.size();
  const auto [last, error] = std::from_chars(cell.data(), end, value);
  // Too small or too large for a double is still a number: 1e-400 is 0 and 1e400 is infinite, as strtod has it.
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(cell).c_str(), nullptr);
  return error != std::errc::invalid_argument && last == end;
}

bool is_header(const std::vector<std::string>& cells, std::optional<Index> label_column) {
  bool text = false;
  bool counts = true;
  Index numbers = 0;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    double value = 0.0;
    if (!parse_number(cells[c], value)) {
      text |= static_cast<Index>(c) != label_column;
      continue;
    }
    // A misspelt number in the first row must not turn that row into names.
    if (cells[c].find_first_not_of("0123456789") != std::string::npos) return false;
    counts &= cells[c] == std::to_string(numbers++);
  }
  return text || (counts && numbers >= 3);  // "0,1" is a row of probabilities as well, so it stays one
}

std::string excerpt(std::string_view cell) {
  constexpr std::size_t kLongest = 40;
  std::string text = "\"";
  for (const char c : cell.substr(0, kLongest)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      text += c;
  }
  if (cell.size() > kLongest) text += "...";
  return text + '"';
}

}  // namespace labelshift
