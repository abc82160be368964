#include "labelshift/data/sha256.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>
#include <memory>
#include <new>
#include <vector>

#include "labelshift/data/input_file.hpp"
#include "labelshift/data/text_lines.hpp"

namespace labelshift {

std::string sha256_of_file(const std::string& path) {
  TextFile file{InputFile(path)};
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> state(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!state || !EVP_DigestInit_ex(state.get(), EVP_sha256(), nullptr)) throw std::bad_alloc();
  std::vector<char> chunk(1 << 17);
  do {
    file.read(chunk.data(), std::ssize(chunk));
    EVP_DigestUpdate(state.get(), chunk.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(state.get(), digest.data(), nullptr);
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace labelshift
