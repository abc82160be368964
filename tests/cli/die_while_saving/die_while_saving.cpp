// Preloaded by sites_test.cpp and mpi_run_test.cpp, so that a process is killed or stopped at a moment that no race
// decides. DIE_AT is "writing 3", "before 3" or "after 3": kills it while it saves its third checkpoint, before or
// after that has its name; "stop 3": stops it then, as SIGSTOP does; "log 3": stops it before it writes the third line
// of what it sends.

#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Raises a signal if this is the moment, of which `passed` have been before.
void raise_at(const char* moment, int& passed, int signal) {
  if (std::string(moment) + " " + std::to_string(++passed) == std::getenv("DIE_AT")) std::raise(signal);
}

}  // namespace

extern "C" int fsync(int descriptor) {
  static int written = 0;
  char path[4096] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  if (::readlink(link.c_str(), path, sizeof path - 1) > 0 && std::strstr(path, "/checkpoint.tmp-"))
    raise_at("writing", written, SIGKILL);
  return next<int(int)>("fsync")(descriptor);
}

extern "C" int rename(const char* from, const char* to) {
  static int before = 0, after = 0, stopped = 0;
  const bool saves = std::strstr(to, "/checkpoint-") != nullptr && std::strstr(from, "/checkpoint.tmp-") != nullptr;
  if (saves) raise_at("before", before, SIGKILL);
  const int status = next<int(const char*, const char*)>("rename")(from, to);
  if (saves) {
    raise_at("after", after, SIGKILL);
    raise_at("stop", stopped, SIGSTOP);
  }
  return status;
}

extern "C" ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  static int logged = 0;
  const std::string_view text(static_cast<const char*>(bytes), size);
  if (text.starts_with("{\"") && text.find("\"sha256\":") != text.npos) raise_at("log", logged, SIGSTOP);
  return next<ssize_t(int, const void*, std::size_t)>("write")(descriptor, bytes, size);
}
