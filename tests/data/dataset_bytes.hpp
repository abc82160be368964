#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace labelshift {

/// The bytes of an IDX file of unsigned bytes.
inline std::string idx_bytes(const std::vector<std::uint32_t>& shape, const std::string& data) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 0xff);
  return bytes + data;
}

/// A record of a CIFAR file: the label bytes, then 3 x 32 x 32 times `pixel`.
inline std::string cifar_record(const std::string& labels, char pixel) {
  return labels + std::string(3072, pixel);
}

/// A file of a tar archive: its header, which may promise another size, and its bytes, filled up to whole blocks.
inline std::string tar_file(const std::string& name, const std::string& data, char type = '0',
                            std::optional<std::size_t> size = std::nullopt) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  const auto octal = [](std::size_t value, int digits) {
    std::string text;
    for (; digits > 0; --digits, value >>= 3) text.insert(text.begin(), static_cast<char>('0' + (value & 7)));
    return text;
  };
  put(0, name);
  put(124, octal(size.value_or(data.size()), 11));
  put(148, "        ");
  header[156] = type;
  put(257, "ustar");
  put(263, "00");
  std::size_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6) + '\0');
  return header + data + std::string((512 - data.size() % 512) % 512, '\0');
}

/// What ends a tar archive.
inline const std::string kTarEnd(1024, '\0');

}  // namespace labelshift
