#include "labelshift/data/files/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/json.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/data/files/errno_text.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/output_file.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/data/files/text_lines.hpp"

namespace labelshift {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 16 << 20;  // a thousand layers need less than 1 MB
constexpr const char* kMetadata = "__metadata__";

// The SHA-256 of the file with zeros in place of these digits.
constexpr const char* kSum = "labelshift-sha256";
constexpr std::size_t kSumDigits = 64;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}", path, why));
}

/// Fills `size` bytes from byte `offset` on.
void read_bytes(const InputFile& file, std::uint64_t offset, void* out, std::uint64_t size) {
  auto* bytes = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = ::pread(file.descriptor(), bytes, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(file.path(), fmt::format("cannot be read: {}", errno_text(errno)));
    if (got == 0) refuse(file.path(), fmt::format("ends at byte {}, expected {} more; copy it again", offset, size));
    bytes += got;
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::uint64_t>(got);
  }
}

nlohmann::json parse_header(const std::string& path, const std::string& text) {
  std::set<std::string> names;
  const auto each_name_once = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key && !names.insert(value.get<std::string>()).second)
      refuse(path, fmt::format("the header names {} twice, expected every tensor once",
                               excerpt(value.get_ref<const std::string&>())));
    return true;
  };
  const auto header = nlohmann::json::parse(text, each_name_once, /*allow_exceptions=*/false);
  if (!header.is_object()) refuse(path, "its header is not a JSON object; expected a safetensors file");
  return header;
}

std::map<std::string, std::string> parse_metadata(const std::string& path, const nlohmann::json& header) {
  std::map<std::string, std::string> metadata;
  const auto found = header.find(kMetadata);
  if (found == header.end()) return metadata;
  if (!found->is_object()) refuse(path, fmt::format("{} in the header is not an object", kMetadata));
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) refuse(path, fmt::format("{} {} in the header is not a string", kMetadata, excerpt(key)));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// Where in the text of a header the digits of the sum are; npos: nowhere. The sequence is unique: in a JSON string a
/// quote has a backslash before it.
std::size_t sum_place(std::string_view header) {
  const std::string before = fmt::format("\"{}\":\"", kSum);
  const std::size_t at = header.find(before);
  return at == header.npos || header.size() - at < before.size() + kSumDigits ? header.npos : at + before.size();
}

/// Where a tensor lies: floats [begin, begin + count) of the file's numbers.
struct Extent {
  std::string name;
  std::vector<Index> shape;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

/// A list of whole numbers that are not negative, or nothing.
bool read_list(const nlohmann::json& object, const char* key, std::vector<std::uint64_t>& out) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return false;
  for (const auto& entry : *found) {
    if (!entry.is_number_unsigned()) return false;
    out.push_back(entry.get<std::uint64_t>());
  }
  return true;
}

/// `floats` is how many the file holds, so a count that passes the checks fits memory and every signed index.
Extent parse_extent(const std::string& path, const std::string& name, const nlohmann::json& entry,
                    std::uint64_t floats) {
  const auto bad = [&](const std::string& why) { refuse(path, fmt::format("tensor {}: {}", excerpt(name), why)); };
  std::vector<std::uint64_t> shape, offsets;
  if (!entry.is_object() || !entry.contains("dtype") || !read_list(entry, "shape", shape) ||
      !read_list(entry, "data_offsets", offsets) || offsets.size() != 2)
    bad("expected dtype, shape and two data_offsets in the header");
  if (entry["dtype"] != "F32")
    bad(fmt::format("found the type {}, expected \"F32\"",
                    excerpt(entry["dtype"].is_string() ? entry["dtype"].get<std::string>() : "?")));
  if (offsets[0] > offsets[1] || offsets[1] > floats * sizeof(float))
    bad(fmt::format("found bytes {} to {}, expected an order and an end by {}", offsets[0], offsets[1],
                    floats * sizeof(float)));
  std::uint64_t count = std::find(shape.begin(), shape.end(), 0) == shape.end() ? 1 : 0;
  for (const std::uint64_t size : shape) {
    if (count > 0 && size > floats / count)
      bad(fmt::format("its shape [{}] is larger than the file", fmt::join(shape, ", ")));
    count *= size;
  }
  if (offsets[0] % sizeof(float) != 0 || offsets[1] - offsets[0] != count * sizeof(float))
    bad(fmt::format("found bytes {} to {}, expected {} for the shape [{}]", offsets[0], offsets[1],
                    count * sizeof(float), fmt::join(shape, ", ")));
  if (std::any_of(shape.begin(), shape.end(), [](std::uint64_t size) { return size > (std::uint64_t{1} << 62); }))
    bad("a size in its shape is no number of elements");
  return {name, {shape.begin(), shape.end()}, offsets[0] / sizeof(float), count};
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header;
  header[kMetadata] = metadata;
  header[kMetadata][kSum] = std::string(kSumDigits, '0');
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.values.size_bytes();
    // Not header[name], which compares with every name before.
    header.get_ref<Json::object_t&>().emplace_back(
        tensor.name, Json{{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}});
    offset = end;
  }
  std::string text = json_line(header);
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');  // so that the numbers are aligned
  const std::uint64_t length = text.size();
  Sha256 sum;
  sum.add(&length, kLengthBytes);
  sum.add(text.data(), text.size());
  for (const NamedTensor& tensor : tensors) sum.add(tensor.values.data(), tensor.values.size_bytes());
  text.replace(sum_place(text), kSumDigits, sum.digits());
  OutputFile file(path);
  file.write({reinterpret_cast<const char*>(&length), kLengthBytes});
  file.write(text);
  for (const NamedTensor& tensor : tensors)
    file.write({reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size_bytes()});
  file.commit();
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  const InputFile file(path, FileKind::kRegular);
  const auto size = static_cast<std::uint64_t>(file.size());
  std::uint64_t length = 0;
  if (size < kLengthBytes)
    refuse(path,
           fmt::format("found {} bytes, expected a safetensors file, which begins with the 8 bytes of a length", size));
  read_bytes(file, 0, &length, kLengthBytes);
  if (length > std::min(size - kLengthBytes, kLongestHeader))
    refuse(path, fmt::format("the first 8 bytes announce a header of {} bytes, expected at most {}; it is no "
                             "safetensors file or not all of one",
                             length, std::min(size - kLengthBytes, kLongestHeader)));
  std::string text(length, '\0');
  read_bytes(file, kLengthBytes, text.data(), length);
  const nlohmann::json header = parse_header(path, text);
  metadata_ = parse_metadata(path, header);

  const std::uint64_t bytes = size - kLengthBytes - length;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : header.items())
    if (name != kMetadata) extents.push_back(parse_extent(path, name, entry, bytes / sizeof(float)));
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.count < b.count;  // an empty tensor lies before its neighbour
  });
  std::uint64_t end = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != end)
      refuse(path, fmt::format("tensor {}: begins at byte {}, expected {}, where the one before it ends",
                               excerpt(extent.name), extent.begin * sizeof(float), end * sizeof(float)));
    end += extent.count;
  }
  if (end * sizeof(float) != bytes)
    refuse(path, fmt::format("found {} bytes of numbers, expected {} for its tensors; copy it again", bytes,
                             end * sizeof(float)));

  values_.resize(end);
  read_bytes(file, kLengthBytes + length, values_.data(), bytes);
  has_sum_ = metadata_.erase(kSum) > 0;
  if (has_sum_) {
    const std::size_t at = sum_place(text);
    const std::string expected = at == text.npos ? "" : text.substr(at, kSumDigits);
    if (at != text.npos) text.replace(at, kSumDigits, kSumDigits, '0');
    Sha256 sum;
    sum.add(&length, kLengthBytes);
    sum.add(text.data(), text.size());
    sum.add(values_.data(), bytes);
    if (sum.digits() != expected)
      refuse(path, "its bytes are not those it was written with, by its SHA-256; copy it again, or make it again");
  }
  for (Extent& extent : extents)
    tensors_.push_back({std::move(extent.name), std::move(extent.shape),
                        std::span<const float>(values_).subspan(extent.begin, extent.count)});
}

void SafetensorsFile::require_sum() const {
  if (!has_sum_)
    refuse(path_, "it has no SHA-256 sum, so damage to it would go unseen; expected a file that this version wrote");
}

std::span<const float> SafetensorsFile::tensor(const std::string& name, const std::vector<Index>& shape) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const NamedTensor& tensor) { return tensor.name == name; });
  if (found == tensors_.end()) refuse(path_, fmt::format("has no tensor {}", excerpt(name)));
  if (found->shape != shape)
    refuse(path_, fmt::format("tensor {}: found the shape [{}], expected [{}]", excerpt(name),
                              fmt::join(found->shape, ", "), fmt::join(shape, ", ")));
  return found->values;
}

const std::string& SafetensorsFile::metadata(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end())
    refuse(path_, fmt::format("{} has no \"{}\"; expected a file that labelshift wrote", kMetadata, key));
  return found->second;
}

bool is_whole_safetensors(const std::string& path) {
  try {
    SafetensorsFile(path).require_sum();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check_format(const std::string& path, int found, int expected, const std::string& writer) {
  if (found != expected)
    refuse(path, fmt::format("found version {} of its format, which labelshift {} wrote, expected version {}, which "
                             "this labelshift {} reads; use the other labelshift, or make it again",
                             found, writer, expected, version()));
}

}  // namespace labelshift
