#include "labelshift/data/datasets/class_names.hpp"

#include <fmt/format.h>

#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/utf8.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/data/files/text_lines.hpp"
#include "labelshift/data/files/unpacked_file.hpp"

namespace labelshift {

std::vector<std::string> numbered_classes(Index classes) {
  std::vector<std::string> names;
  for (Index c = 0; c < classes; ++c) names.push_back(std::to_string(c));
  return names;
}

std::vector<std::string> read_class_names(const std::string& path) {
  UnpackedFile text{InputFile(path)};
  Lines lines(text, path);
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (std::string_view line; lines.next(line);) {
    names.emplace_back(line);
    if (!is_utf8(line))
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: found a name that is not in UTF-8; save the file in UTF-8", lines.place()));
    if (!seen.emplace(line).second)
      throw Error(ErrorKind::kInput, fmt::format("{}: found the class {} a second time, expected every class once",
                                                 lines.place(), excerpt(line)));
  }
  return names;
}

}  // namespace labelshift
