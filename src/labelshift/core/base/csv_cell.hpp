#pragma once

#include <string>

namespace labelshift {

/// A cell of a CSV file, quoted if it has to be.
std::string csv_cell(const std::string& text);

}  // namespace labelshift
