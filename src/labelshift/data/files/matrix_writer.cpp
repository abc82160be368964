#include "labelshift/data/files/matrix_writer.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <bit>
#include <cassert>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "labelshift/core/base/csv_cell.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/data/files/text_lines.hpp"

namespace labelshift {
namespace {

static_assert(std::endian::native == std::endian::little, ".npy arrays are written as they lie in memory");

constexpr std::size_t kBlock = 1 << 18;

/// gzip on the way to a file.
class Compressor {
 public:
  Compressor() {
    constexpr int kGzipFormat = 16;
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzipFormat, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
      throw Error(ErrorKind::kSystem, "out of memory for gzip compression");
  }
  Compressor(const Compressor&) = delete;
  ~Compressor() { deflateEnd(&stream_); }

  void write(std::string_view bytes, int flush, OutputFile& file) {
    std::array<char, 1 << 16> out;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(out.size());
      deflate(&stream_, flush);  // cannot fail: the stream is ours and there is always room
      file.write({out.data(), out.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
  }

 private:
  z_stream stream_{};
};

/// The header np.save writes: padded so that the data starts at a multiple of 64.
std::string npy_header(std::string_view dtype, const std::string& shape) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", dtype, shape);
  constexpr std::size_t kPreamble = 10;
  dict.append(63 - (kPreamble + dict.size()) % 64, ' ');
  dict += '\n';
  const std::string_view magic("\x93NUMPY\x01\x00", 8);
  return fmt::format("{}{:c}{:c}{}", magic, static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8),
                     dict);
}

}  // namespace

/// An output file in the format its name asks for.
class TableFile {
 public:
  explicit TableFile(const std::string& path) : format_(format_of(path)), file_(path) {
    if (format_.gzip) compressor_ = std::make_unique<Compressor>();
  }

  bool npy() const { return format_.npy; }
  char delimiter() const { return format_.delimiter; }

  /// Where to put what comes next.
  fmt::memory_buffer& out() {
    if (pending_.size() >= kBlock) flush(Z_NO_FLUSH);
    return pending_;
  }
  void put(std::string_view bytes) { out().append(bytes); }
  template <typename Number>
  void put_binary(Number value) {
    put({reinterpret_cast<const char*>(&value), sizeof value});
  }

  void finish() {
    if (std::exchange(finished_, true)) return;
    flush(Z_FINISH);
    file_.finish();
  }
  void commit() {
    finish();
    file_.commit();
  }

 private:
  struct Format {
    bool npy = false;
    char delimiter = ',';
    bool gzip = false;
  };

  static Format format_of(const std::string& path) {
    if (path.ends_with(".npy")) return {.npy = true};
    Format format{.gzip = path.ends_with(".gz")};
    const std::string ending = std::filesystem::path(path.substr(0, path.size() - (format.gzip ? 3 : 0))).extension();
    if (ending == ".tsv") format.delimiter = '\t';
    if (ending != ".tsv" && ending != ".csv" && (!ending.empty() || format.gzip))
      throw Error(ErrorKind::kUsage,
                  fmt::format("cannot tell the format of {}; expected a name that ends in .npy, .csv, .tsv, .csv.gz or "
                              ".tsv.gz",
                              path));
    return format;
  }

  void flush(int flush) {
    const std::string_view bytes(pending_.data(), pending_.size());
    if (compressor_)
      compressor_->write(bytes, flush, file_);
    else
      file_.write(bytes);
    pending_.clear();
  }

  Format format_;
  OutputFile file_;
  std::unique_ptr<Compressor> compressor_;
  fmt::memory_buffer pending_;
  bool finished_ = false;
};

MatrixWriter::MatrixWriter(const std::string& path, Layout layout)
    : layout_(std::move(layout)), file_(std::make_unique<TableFile>(path)) {
  if (file_->npy()) {
    file_->put(npy_header(layout_.float32 ? "<f4" : "<f8", fmt::format("{}, {}", layout_.rows, layout_.cols)));
    return;
  }
  if (!is_header(layout_.column_names)) return;
  for (std::size_t c = 0; c < layout_.column_names.size(); ++c) {
    if (c != 0) file_->out().push_back(file_->delimiter());
    file_->put(csv_cell(layout_.column_names[c]));
  }
  file_->put("\n");
}

MatrixWriter::~MatrixWriter() = default;

void MatrixWriter::append(const MatrixView& rows) {
  assert(rows.cols() == layout_.cols);
  appended_ += rows.rows();
  const auto write_as = [&](auto number) {
    using Number = decltype(number);
    for (Index i = 0; i < rows.rows(); ++i) {
      for (Index c = 0; c < rows.cols(); ++c) {
        const auto value = static_cast<Number>(rows(i, c));
        if (file_->npy()) {
          file_->put_binary(value);
          continue;
        }
        fmt::format_to(std::back_inserter(file_->out()), "{}", value);  // the shortest text that gives these bits
        file_->out().push_back(c + 1 == rows.cols() ? '\n' : file_->delimiter());
      }
    }
  };
  layout_.float32 ? write_as(float{}) : write_as(double{});
}

void MatrixWriter::finish() {
  assert(appended_ == layout_.rows);
  file_->finish();
}

void MatrixWriter::commit() {
  finish();
  file_->commit();
}

LabelWriter::LabelWriter(const std::string& path, std::span<const int> labels,
                         const std::vector<std::string>& class_names)
    : file_(std::make_unique<TableFile>(path)) {
  TableFile& file = *file_;
  file.put(file.npy() ? npy_header("<i4", fmt::format("{},", labels.size())) : "label\n");
  for (const int label : labels) {
    if (file.npy())
      file.put_binary(label);
    else if (class_names.empty())
      fmt::format_to(std::back_inserter(file.out()), "{}\n", label);
    else
      file.put(csv_cell(class_names[static_cast<std::size_t>(label)]) + '\n');
  }
  file.finish();
}

LabelWriter::~LabelWriter() = default;

void LabelWriter::commit() {
  file_->commit();
}

void write_labels(const std::string& path, std::span<const int> labels, const std::vector<std::string>& class_names) {
  LabelWriter(path, labels, class_names).commit();
}

}  // namespace labelshift
