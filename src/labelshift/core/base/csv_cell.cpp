#include "labelshift/core/base/csv_cell.hpp"

namespace labelshift {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(" \t\r\n\",;") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

}  // namespace labelshift
