#include "labelshift/data/files/npy_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <utility>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"

namespace labelshift {
namespace {

static_assert(std::endian::native == std::endian::little, "mapped arrays are little-endian");

constexpr const char* kSupported[] = {"<f4", "<f8", "|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"};

struct Header {
  std::string dtype;
  bool fortran_order = false;
  std::vector<Index> shape;
};

[[noreturn]] void throw_unsupported(const std::string& path, const std::string& found, const std::string& advice) {
  throw Error(ErrorKind::kInput,
              fmt::format("{}: found dtype {}, expected '<f4' or '<f8' (for labels and weights also '{}'); {}", path,
                          found, fmt::join(kSupported + 2, std::end(kSupported), "', '"), advice));
}

/// The header is a Python dict of three known keys, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }, and
/// only that much of Python is read here.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Header parse() {
    Header header;
    bool descr = false, fortran_order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !std::exchange(descr, true)) {
        if (peek() == '[')
          throw_unsupported(path_, "with named fields",
                            R"(pick one field: np.save(path, a["field"].astype(np.float32)))");
        header.dtype = string();
      } else if (key == "fortran_order" && !std::exchange(fortran_order, true)) {
        header.fortran_order = boolean();
      } else if (key == "shape" && !std::exchange(shape, true)) {
        header.shape = tuple();
      } else {
        fail("each of the keys 'descr', 'fortran_order' and 'shape' once");
      }
      if (!accept(',') && peek() != '}') fail("a comma or }");
    }
    if (peek() != '\0') fail("nothing after }");
    if (!descr || !fortran_order || !shape) fail("the keys 'descr', 'fortran_order' and 'shape'");
    return header;
  }

 private:
  /// The next character that is not a space, without taking it; NUL at the end.
  char peek() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string(1, c));
  }
  std::string string() {
    const char quote = peek();
    const std::size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : text_.npos;
    if (end == text_.npos) fail("a quoted string");
    const std::string_view found = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return std::string(found);
  }
  bool boolean() {
    peek();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail("True or False");
  }
  std::vector<Index> tuple() {
    std::vector<Index> entries;
    expect('(');
    while (!accept(')')) {
      const char* begin = text_.data() + (peek() == '-' ? text_.size() : at_);
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), entries.emplace_back());
      if (error != std::errc{}) fail("a number of at most 63 bits that is not negative");
      at_ = static_cast<std::size_t>(end - text_.data());
      // (3) is a number in Python, (3,) is a tuple.
      if (!accept(',') && (peek() != ')' || entries.size() == 1)) fail("a comma");
    }
    return entries;
  }
  [[noreturn]] void fail(const std::string& expected) {
    peek();
    throw Error(ErrorKind::kInput, fmt::format("{}: found {} in the .npy header, expected {}; write it with np.save",
                                               path_, excerpt(text_.substr(at_)), expected));
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

void check_dtype(const std::string& path, const std::string& dtype) {
  for (const char* supported : kSupported)
    if (dtype == supported) return;
  const std::string found = "'" + dtype + "'";
  if (dtype == "|O")
    throw_unsupported(
        path, found + ", Python objects",
        R"(convert numbers with np.save(path, a.astype(np.float32)), and write names as text: np.savetxt("labels.csv", a, fmt="%s"))");
  if (dtype.starts_with("<U") || dtype.starts_with("|S"))
    throw_unsupported(path, found + ", text", R"(write names as text: np.savetxt("labels.csv", a, fmt="%s"))");
  if (dtype.starts_with(">"))
    throw_unsupported(path, found + ", big-endian", "convert it: np.save(path, a.astype(np.float32))");
  throw_unsupported(path, found, "convert it: np.save(path, a.astype(np.float32))");
}

template <typename Number>
std::vector<double> to_doubles(const void* data, Index count) {
  const auto* numbers = static_cast<const Number*>(data);
  return std::vector<double>(numbers, numbers + count);
}

}  // namespace

NpyFile::NpyFile(const InputFile& file) : path_(file.path()) {
  const auto fail = [&](const std::string& problem) {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", path_, problem));
  };
  if (!file.starts_with(kNpyMagic))
    fail("this is not a .npy file, which starts with \\x93NUMPY; write it with np.save");
  const auto size = static_cast<std::size_t>(file.size());
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (mapped == MAP_FAILED) fail(fmt::format("the file cannot be mapped into memory: {}", errno_text(errno)));
  owner_ = std::shared_ptr<const void>(mapped, [size](const void* at) { ::munmap(const_cast<void*>(at), size); });

  // Magic, major and minor version, the header's length in 2 bytes (version 1) or 4, the header, the data.
  const auto* bytes = static_cast<const unsigned char*>(mapped);
  const unsigned version = size > 6 ? bytes[6] : 1;
  if (version < 1 || version > 3)
    fail(fmt::format("found .npy format version {}, expected 1, 2 or 3; write it with np.save", version));
  const std::size_t begin = version == 1 ? 10 : 12;
  if (size < begin) fail("the file ends inside the .npy header; it is cut off, so copy or save it again");
  std::size_t header_length = 0;
  for (std::size_t at = begin; at-- > 8;) header_length = header_length << 8 | bytes[at];
  if (header_length > size - begin)
    fail(fmt::format("found {} bytes, expected a .npy header of {}; it is cut off, so copy or save it again",
                     size - begin, header_length));
  Header header = HeaderParser({static_cast<const char*>(mapped) + begin, header_length}, path_).parse();
  check_dtype(path_, header.dtype);
  dtype_ = std::move(header.dtype);
  fortran_order_ = header.fortran_order;
  shape_ = std::move(header.shape);

  const auto item_size = static_cast<std::size_t>(dtype_[2] - '0');
  std::size_t promised = item_size;
  bool overflow = false;
  for (const Index n : shape_) overflow |= __builtin_mul_overflow(promised, static_cast<std::size_t>(n), &promised);
  if (overflow) fail(fmt::format("the .npy header promises shape {}, more than any memory holds", shape_text()));
  const std::size_t found = size - begin - header_length;
  if (found != promised)
    fail(fmt::format("found {} bytes of data, expected {} for shape {} of '{}'; {}, so copy or save it again", found,
                     promised, shape_text(), dtype_,
                     found < promised ? "it is cut off" : "something follows the array"));
  data_ = bytes + begin + header_length;
  if ((begin + header_length) % item_size != 0) {  // np.save aligns, other writers may not
    const auto copy = std::make_shared<std::vector<double>>(found / sizeof(double) + 1);
    std::memcpy(copy->data(), data_, found);
    data_ = copy->data();
    owner_ = copy;
  }
}

MatrixView NpyFile::view() const {
  if (shape_.size() != 2)
    throw Error(ErrorKind::kInput,
                fmt::format("{}: found shape {}, expected two dimensions, (rows, classes){}", path_, shape_text(),
                            shape_.size() == 1  ? "; of the probabilities p of one of two classes save both: "
                                                  "np.save(path, np.stack([1 - p, p], axis=1)); one row is a[None, :]"
                            : shape_.size() > 2 ? "; save one row an example: np.save(path, a.reshape(len(a), -1)), or "
                                                  "a.reshape(-1, a.shape[-1]) if the last dimension is that of classes"
                                                : ""));
  const Index rows = shape_[0];
  const Index cols = shape_[1];
  const Index row_stride = fortran_order_ ? 1 : cols;
  const Index col_stride = fortran_order_ ? rows : 1;
  if (dtype_ == "<f4") return {static_cast<const float*>(data_), rows, cols, row_stride, col_stride};
  if (dtype_ == "<f8") return {static_cast<const double*>(data_), rows, cols, row_stride, col_stride};
  throw Error(ErrorKind::kInput, fmt::format("{}: found dtype '{}', expected '<f4' or '<f8'; convert it: np.save(path, "
                                             "a.astype(np.float32))",
                                             path_, dtype_));
}

std::vector<double> NpyFile::column() const {
  if (shape_.size() != 1 && !(shape_.size() == 2 && shape_[1] == 1))
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: found shape {}, expected one dimension, (rows,){}", path_, shape_text(),
                    shape_.size() == 2 ? "; of one-hot labels save the argmax: np.save(path, a.argmax(axis=1))" : ""));
  const Index n = shape_[0];
  switch (dtype_[1]) {
    case 'f':
      return dtype_[2] == '4' ? to_doubles<float>(data_, n) : to_doubles<double>(data_, n);
    case 'i':
      switch (dtype_[2]) {
        case '1':
          return to_doubles<std::int8_t>(data_, n);
        case '2':
          return to_doubles<std::int16_t>(data_, n);
        case '4':
          return to_doubles<std::int32_t>(data_, n);
        default:
          return to_doubles<std::int64_t>(data_, n);
      }
    default:  // unsigned; a bool is read as a byte, since any other value than 0 and 1 in a C++ bool is undefined
      switch (dtype_[2]) {
        case '1':
          return to_doubles<std::uint8_t>(data_, n);
        case '2':
          return to_doubles<std::uint16_t>(data_, n);
        case '4':
          return to_doubles<std::uint32_t>(data_, n);
        default:
          return to_doubles<std::uint64_t>(data_, n);
      }
  }
}

std::string NpyFile::shape_text() const {
  return fmt::format("({}{})", fmt::join(shape_, ", "), shape_.size() == 1 ? "," : "");
}

}  // namespace labelshift
