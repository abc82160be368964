#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "labelshift/core/base/cpu.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/learning/torch_backend.hpp"
#include "labelshift/learning/training_threads.hpp"

namespace labelshift {
namespace {

constexpr const char* kModule = "liblabelshift_torch.so";

/// The module's path: beside the program or above it in a build folder, where it is installed, else left to the dynamic
/// linker, for programs of others.
std::string find_module() {
  std::error_code none;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  for (const auto& folder : {here, here / "..", here / ".." / LABELSHIFT_LIBRARY_FOLDER,
                             std::filesystem::path(LABELSHIFT_INSTALLED_LIBRARIES)})
    if (std::filesystem::exists(folder / kModule, none)) return folder / kModule;
  return kModule;
}

// A setting that waits for the module, so that a program whose nets need no LibTorch never loads it.
std::atomic<bool> one_thread = false;
std::atomic<const TorchBackend*> loaded = nullptr;

/// What mends it, by the file that the dynamic linker's message begins with: of one that it did not find, the bare
/// name.
Error not_loaded(const std::string& module, const std::string& reason) {
  const std::string file = reason.substr(0, reason.find(':'));
  const auto version = file.find(".so.");
  if ((file.starts_with("libtorch") || file.starts_with("libc10")) && version != std::string::npos)
    return {ErrorKind::kSystem,
            fmt::format("LibTorch is needed here and is not installed; type: apt install libtorch{}",
                        file.substr(version + 4))};  // so Debian names a library of that version
  if (file == kModule)
    return {ErrorKind::kSystem, fmt::format("{}, the part of labelshift that uses LibTorch, is needed here and is not "
                                            "in {}; install labelshift again, or put the module's folder into "
                                            "LD_LIBRARY_PATH",
                                            kModule, LABELSHIFT_INSTALLED_LIBRARIES)};
  return {ErrorKind::kSystem, fmt::format("cannot load {}: {}; install labelshift again", module, reason)};
}

const TorchBackend& load() {
  hand_cpu_to_libraries();  // oneDNN and ATen read their variables when they are loaded
  const std::string path = find_module();
  void* module = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  void* entry = module ? ::dlsym(module, "labelshift_torch_backend") : nullptr;
  if (!entry) throw not_loaded(path, ::dlerror());
  const TorchBackend* backend = reinterpret_cast<const TorchBackend* (*)()>(entry)();
  if (one_thread) backend->use_one_thread();
  loaded = backend;
  return *backend;
}

}  // namespace

const TorchBackend& torch_backend() {
  static const TorchBackend& backend = load();
  return backend;
}

void use_one_torch_thread() {
  one_thread = true;
  if (const TorchBackend* backend = loaded) backend->use_one_thread();
}

}  // namespace labelshift
