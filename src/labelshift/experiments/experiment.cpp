#include "labelshift/experiments/experiment.hpp"

#include <cctype>

namespace labelshift {

std::string ComparedRun::place_of(const std::string& key) const {
  const auto found = places.find(key);
  return found == places.end() ? place : found->second + row;
}

std::string ComparedRun::folder_name() const {
  std::string result;
  for (const unsigned char letter : name) {
    if (std::isalnum(letter) && letter < 0x80)
      result += static_cast<char>(std::tolower(letter));
    else if (!result.empty() && result.back() != '-')
      result += '-';
  }
  while (result.ends_with('-')) result.pop_back();
  return result;
}

}  // namespace labelshift
