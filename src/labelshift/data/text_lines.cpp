#include "labelshift/data/text_lines.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "labelshift/core/error.hpp"

namespace labelshift {
namespace {

/// The bytes of a file, unpacked if it starts as gzip data does. zlib's own reader is not used because it drops what
/// follows a damaged member without a word.
class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(InputFile file) : file_(std::move(file)) {
    while (packed_.size() < 2 && read_more()) {
    }
    is_packed_ = packed_.starts_with("\x1f\x8b");
    constexpr int kGzipOnly = 16;
    if (is_packed_ && inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK)
      throw Error(ErrorKind::kSystem, fmt::format("cannot read {}: out of memory", file_.path()));
  }
  GzipBuffer(const GzipBuffer&) = delete;
  ~GzipBuffer() override {
    if (is_packed_) inflateEnd(&stream_);
  }

 protected:
  int_type underflow() override {
    const std::size_t got = is_packed_ ? unpack() : hand_through();
    if (got == 0) return traits_type::eof();
    setg(chunk_.data(), chunk_.data(), chunk_.data() + got);
    return traits_type::to_int_type(chunk_[0]);
  }

 private:
  static constexpr std::size_t kChunk = 1 << 17;

  /// Appends to packed_; false at the end of the file.
  bool read_more() {
    const std::size_t held = packed_.size();
    packed_.resize(held + kChunk);
    ssize_t got = -1;
    do got = ::read(file_.descriptor(), packed_.data() + held, kChunk);
    while (got < 0 && errno == EINTR);
    packed_.resize(held + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0)
      throw Error(ErrorKind::kInput, fmt::format("cannot read {}: {}; copy it to a place that can be read",
                                                 file_.path(), errno_text(errno)));
    return got > 0;
  }

  std::size_t hand_through() {
    if (packed_.empty()) read_more();
    chunk_.swap(packed_);
    packed_.clear();
    return chunk_.size();
  }

  std::size_t unpack() {
    chunk_.resize(kChunk);
    stream_.next_out = reinterpret_cast<Bytef*>(chunk_.data());
    stream_.avail_out = kChunk;
    while (stream_.avail_out == kChunk) {
      if (used_ == packed_.size()) {
        packed_.clear();
        used_ = 0;
        if (!read_more()) {
          if (in_member_) throw_bad("cut off before its end");
          return 0;
        }
      }
      if (!in_member_ && packed_[used_] == '\0') {  // padding to a block, which gzip accepts between members
        ++used_;
        continue;
      }
      stream_.next_in = reinterpret_cast<Bytef*>(packed_.data() + used_);
      stream_.avail_in = static_cast<uInt>(packed_.size() - used_);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      used_ = packed_.size() - stream_.avail_in;
      in_member_ = code != Z_STREAM_END;
      if (code == Z_MEM_ERROR)
        throw Error(ErrorKind::kSystem, fmt::format("cannot read {}: out of memory", file_.path()));
      if (code != Z_OK && code != Z_STREAM_END) throw_bad("damaged");
      if (code == Z_STREAM_END) inflateReset(&stream_);
    }
    return kChunk - stream_.avail_out;
  }

  [[noreturn]] void throw_bad(const char* how) const {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: the gzip data is {}; copy or compress it again", file_.path(), how));
  }

  InputFile file_;
  z_stream stream_{};
  bool is_packed_ = false;
  bool in_member_ = true;
  std::string packed_;    // as in the file
  std::size_t used_ = 0;  // bytes of packed_ that are unpacked
  std::string chunk_ = std::string(kChunk, '\0');
};

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

}  // namespace

TextFile::TextFile(InputFile file) : std::istream(nullptr), buffer_(std::make_unique<GzipBuffer>(std::move(file))) {
  rdbuf(buffer_.get());
  exceptions(std::ios::badbit);  // so that what the buffer throws gets through
}

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
