#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "labelshift/core/base/error.hpp"

namespace labelshift {

/// Runs `act`, which must throw this error.
template <typename Act>
void expect_error(ErrorKind kind, const std::string& message, Act&& act) {
  try {
    act();
    ADD_FAILURE() << "expected the error: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), message);
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind));
  }
}

/// A test with a directory of its own, which is gone afterwards.
class Scratch : public testing::Test {
 protected:
  Scratch() {
    // A random name may hold DIR by chance; this one always does.
    std::string pattern = testing::TempDir() + "labelshift-DIR-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~Scratch() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  /// Writes a file and returns its path.
  std::string file(const std::string& name, std::string_view bytes) const {
    std::ofstream out(path(name), std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    EXPECT_TRUE(out.flush());
    return path(name);
  }
  static std::string bytes_of(const std::string& file_path) {
    std::ifstream in(file_path, std::ios::binary);
    EXPECT_TRUE(in) << file_path;
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string gzipped(std::string_view bytes) const {
    gzFile out = gzopen(path("packed").c_str(), "wb");
    EXPECT_EQ(gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
    EXPECT_EQ(gzclose(out), Z_OK);
    return bytes_of(path("packed"));
  }

  /// The same; "DIR" in `message` stands for the test's directory.
  template <typename Act>
  void expect_error(ErrorKind kind, std::string message, Act&& act) const {
    for (std::size_t at = 0; (at = message.find("DIR", at)) != std::string::npos; at += directory_.size())
      message.replace(at, 3, directory_);
    labelshift::expect_error(kind, message, std::forward<Act>(act));
  }

 private:
  std::string directory_;
};

/// For as long as it lives, the test may do no more than an ordinary user: root reads and writes what it likes.
class OrdinaryUser {
 public:
  OrdinaryUser() : was_(::geteuid()) { EXPECT_EQ(::seteuid(was_ == 0 ? 65534 : was_), 0); }
  ~OrdinaryUser() { EXPECT_EQ(::seteuid(was_), 0); }

 private:
  uid_t was_;
};

/// The bytes of a .npy file with any header.
inline std::string npy_bytes(const std::string& header, std::string_view data, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  for (std::size_t at = 0; at < (version == 1 ? 2U : 4U); ++at)
    bytes += static_cast<char>(header.size() >> (8 * at) & 0xff);
  return bytes + header + std::string(data);
}

/// The bytes of numbers as they lie in memory.
template <typename Number>
std::string raw(std::initializer_list<Number> numbers) {
  return {reinterpret_cast<const char*>(std::data(numbers)), numbers.size() * sizeof(Number)};
}

}  // namespace labelshift
