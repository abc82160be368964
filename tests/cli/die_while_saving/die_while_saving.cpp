// Preloaded by sites_test.cpp: kills the process while it saves its third checkpoint, at the moment that DIE_AT names.

#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Whether this is the moment, in a checkpoint that is the third.
void die_at(const char* moment, int& checkpoints) {
  if (std::strcmp(moment, std::getenv("DIE_AT")) == 0 && ++checkpoints == 3) std::raise(SIGKILL);
}

}  // namespace

extern "C" int fsync(int descriptor) {
  static int written = 0;
  char path[4096] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  if (::readlink(link.c_str(), path, sizeof path - 1) > 0 && std::strstr(path, "/checkpoint.tmp-"))
    die_at("writing", written);
  return next<int(int)>("fsync")(descriptor);
}

extern "C" int rename(const char* from, const char* to) {
  static int before = 0, after = 0;
  const bool saves = std::strstr(to, "/checkpoint-") != nullptr && std::strstr(from, "/checkpoint.tmp-") != nullptr;
  if (saves) die_at("before", before);
  const int status = next<int(const char*, const char*)>("rename")(from, to);
  if (saves) die_at("after", after);
  return status;
}
