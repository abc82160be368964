#include "labelshift/data/files/sha256.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <new>
#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (!state_->context || !EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr)) throw std::bad_alloc();
}

Sha256::~Sha256() = default;

void Sha256::add(const void* data, std::size_t size) {
  EVP_DigestUpdate(state_->context.get(), data, size);
}

std::string Sha256::digits() {
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(state_->context.get(), digest.data(), nullptr);
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string sha256_of(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes.data(), bytes.size());
  return sum.digits();
}

std::string sha256_of_file(const std::string& path) {
  UnpackedFile file{InputFile(path)};
  Sha256 sum;
  std::vector<char> chunk(1 << 17);
  do {
    file.read(chunk.data(), std::ssize(chunk));
    sum.add(chunk.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  return sum.digits();
}

std::string sum_line(std::string_view bytes, const std::string& name) {
  return fmt::format("{}  {}\n", sha256_of(bytes), name);
}

std::optional<std::string> damage_of(const std::string& folder, const std::vector<std::string>& needed) {
  constexpr std::size_t kDigits = 64;
  constexpr std::size_t kNameAt = kDigits + 2;
  const std::string list = folder + "/" + kSumsFile;
  std::string path = list;  // what is being read
  std::set<std::string> listed;
  try {
    const std::string text = read_file(path);
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      if (end == text.npos || end - begin <= kNameAt) return fmt::format("{} is damaged", list);
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      path = fmt::format("{}/{}", folder, line.substr(kNameAt));
      if (sha256_of(read_file(path)) != line.substr(0, kDigits))
        return fmt::format("{} is damaged: its SHA-256 is not the one in {}", path, kSumsFile);
      listed.emplace(line.substr(kNameAt));
    }
  } catch (const Error&) {
    return fmt::format("{} is missing, or no file that can be read", path);
  }
  for (const std::string& name : needed)
    if (!listed.contains(name)) return fmt::format("{} does not list {}", list, name);
  return std::nullopt;
}

}  // namespace labelshift
