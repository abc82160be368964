// Preloaded by sites_test.cpp and mpi_run_test.cpp, so that a process is killed or stopped at a moment that no race
// decides. DIE_AT is "writing 3", "before 3" or "after 3": kills it while it saves its third checkpoint, before or
// after that has its name; "stop 3": stops it then, as SIGSTOP does; "log 3": stops it before it writes the third line
// of what it sends. "full 3": the disk is full from the first bytes of its third checkpoint on.

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
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

int saved = 0;  // checkpoints that have their names

bool is_of_a_checkpoint(int descriptor) {
  char path[4096] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 && std::strstr(path, "/checkpoint.tmp-");
}

/// Whether there is no room for what is being saved. A directory has room, so that nobody hears of it by chance.
bool is_full(int descriptor) {
  struct stat found {};
  return "full " + std::to_string(saved + 1) == std::getenv("DIE_AT") && is_of_a_checkpoint(descriptor) &&
         ::fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
}

/// Writes what there is room for, half of what comes first and nothing of the rest.
template <typename Write>
ssize_t write_in_part(std::size_t size, Write&& write) {
  static bool half = false;
  if (!half && size > 1) {
    half = true;
    return write(size / 2);
  }
  errno = ENOSPC;
  return -1;
}

}  // namespace

extern "C" int fsync(int descriptor) {
  static int written = 0;
  if (is_full(descriptor)) {
    errno = ENOSPC;
    return -1;
  }
  if (is_of_a_checkpoint(descriptor)) raise_at("writing", written, SIGKILL);
  return next<int(int)>("fsync")(descriptor);
}

extern "C" int rename(const char* from, const char* to) {
  static int before = 0, after = 0, stopped = 0;
  const bool saves = std::strstr(to, "/checkpoint-") != nullptr && std::strstr(from, "/checkpoint.tmp-") != nullptr;
  if (saves) raise_at("before", before, SIGKILL);
  const int status = next<int(const char*, const char*)>("rename")(from, to);
  if (saves) {
    ++saved;
    raise_at("after", after, SIGKILL);
    raise_at("stop", stopped, SIGSTOP);
  }
  return status;
}

extern "C" ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  static int logged = 0;
  const std::string_view text(static_cast<const char*>(bytes), size);
  if (text.starts_with("{\"") && text.find("\"sha256\":") != text.npos) raise_at("log", logged, SIGSTOP);
  const auto write_some = [&](std::size_t some) {
    return next<ssize_t(int, const void*, std::size_t)>("write")(descriptor, bytes, some);
  };
  return is_full(descriptor) ? write_in_part(size, write_some) : write_some(size);
}

extern "C" ssize_t pwrite(int descriptor, const void* bytes, std::size_t size, off_t at) {
  const auto write_some = [&](std::size_t some) {
    return next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite")(descriptor, bytes, some, at);
  };
  return is_full(descriptor) ? write_in_part(size, write_some) : write_some(size);
}
