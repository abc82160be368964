#pragma once

#include <istream>
#include <memory>

#include "labelshift/data/files/input_file.hpp"

namespace labelshift {

/// The bytes of a file, unpacked on the way if its first bytes are gzip's. Damaged gzip data throws Error{kInput} out
/// of whatever reads the stream.
class UnpackedFile : public std::istream {
 public:
  explicit UnpackedFile(InputFile file);

 private:
  std::unique_ptr<std::streambuf> buffer_;
};

}  // namespace labelshift
