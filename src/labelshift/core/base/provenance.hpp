#pragma once

#include <string>

namespace labelshift {

/// By what something was computed. Each is empty where the system does not say.
struct Provenance {
  std::string command;  // of the process, as a shell takes it
  std::string version;  // of labelshift
  std::string machine;  // processor, cores, memory, system and the instructions that are used; no name and no address
};

/// Of this process.
Provenance provenance_here();

/// A word as a shell takes it: in quotes where it has to be.
std::string shell_word(const std::string& word);

}  // namespace labelshift
