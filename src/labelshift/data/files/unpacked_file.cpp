#include "labelshift/data/files/unpacked_file.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"

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

}  // namespace

UnpackedFile::UnpackedFile(InputFile file)
    : std::istream(nullptr), buffer_(std::make_unique<GzipBuffer>(std::move(file))) {
  rdbuf(buffer_.get());
  exceptions(std::ios::badbit);  // so that what the buffer throws gets through
}

}  // namespace labelshift
