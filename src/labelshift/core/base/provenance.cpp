#include "labelshift/core/base/provenance.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/version.hpp"

namespace labelshift {
namespace {

/// The words of this process's command line; the program without the folder it is in.
std::string command_here() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::string command;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    std::string word = all.substr(at, end - at);
    if (command.empty())
      command = shell_word(word.substr(word.rfind('/') + 1));
    else
      command += " " + shell_word(word);
    at = end + 1;
  }
  return command;
}

std::string processor_here() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const std::size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return "";
}

std::string machine_here() {
  std::string text = processor_here();
  if (!text.empty()) text += ", ";
  const unsigned cores = std::thread::hardware_concurrency();
  text += fmt::format("{} core{}", cores, cores == 1 ? "" : "s");
  const double bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (bytes > 0.0) text += fmt::format(", {:.1f} GiB of memory", bytes / (1024.0 * 1024.0 * 1024.0));
  if (utsname system{}; ::uname(&system) == 0)
    text += fmt::format(", {} {} {}", system.sysname, system.release, system.machine);
  return text + fmt::format(", instructions {}", to_string(cpu()));
}

}  // namespace

std::string shell_word(const std::string& word) {
  constexpr const char* kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

Provenance provenance_here() {
  return {.command = command_here(), .version = version(), .machine = machine_here()};
}

}  // namespace labelshift
