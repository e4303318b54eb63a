#include "device/nvrtc.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/interrupt.h"

struct _nvrtcProgram;  // nvrtc.h's

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr int kCompilationError = 6;

// What may be given to dlopen(), the first that is there.
std::vector<std::string> places() {
  if (const char* named = std::getenv("DUET_NVRTC")) return {named};
  std::vector<std::string> all;
  const std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (const std::string& name : names) all.push_back(name);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* home = std::getenv(variable);
    for (const std::string& name : names) {
      if (home) all.push_back(std::string(home) + "/lib64/" + name);
    }
  }
  for (const char* folder : {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"}) {
    for (const std::string& name : names) all.push_back(folder + name);
  }
  return all;
}

}  // namespace

// The part of nvrtc.h that is used. Every function returns an nvrtcResult, 0 for success.
struct Nvrtc::Api {
  const char* (*error)(int) = nullptr;
  int (*version)(int*, int*) = nullptr;
  int (*arch_count)(int*) = nullptr;
  int (*archs)(int*) = nullptr;
  int (*create)(_nvrtcProgram**, const char*, const char*, int, const char* const*,
                const char* const*) = nullptr;
  int (*destroy)(_nvrtcProgram**) = nullptr;
  int (*compile)(_nvrtcProgram*, int, const char* const*) = nullptr;
  int (*cubin_size)(_nvrtcProgram*, size_t*) = nullptr;
  int (*cubin)(_nvrtcProgram*, char*) = nullptr;
  int (*log_size)(_nvrtcProgram*, size_t*) = nullptr;
  int (*log)(_nvrtcProgram*, char*) = nullptr;

  // False if the library has not all of it.
  bool load(void* library) {
    const auto get = [&](auto& function, const char* name) {
      void* symbol = dlsym(library, name);
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
      return symbol != nullptr;
    };
    return get(error, "nvrtcGetErrorString") && get(version, "nvrtcVersion") &&
           get(arch_count, "nvrtcGetNumSupportedArchs") && get(archs, "nvrtcGetSupportedArchs") &&
           get(create, "nvrtcCreateProgram") && get(destroy, "nvrtcDestroyProgram") &&
           get(compile, "nvrtcCompileProgram") && get(cubin_size, "nvrtcGetCUBINSize") &&
           get(cubin, "nvrtcGetCUBIN") && get(log_size, "nvrtcGetProgramLogSize") &&
           get(log, "nvrtcGetProgramLog");
  }
};

Nvrtc::Nvrtc(void* library) {
  static Api api;  // of the one library that a process opens
  if (!api.load(library)) throw RunError("is not NVRTC, or one before CUDA 12");
  api_ = &api;
  int major = 0, minor = 0, count = 0;
  check(api.version(&major, &minor), "nvrtcVersion");
  version_ = std::to_string(major) + "." + std::to_string(minor);
  check(api.arch_count(&count), "nvrtcGetNumSupportedArchs");
  capabilities_.resize(static_cast<size_t>(count));
  check(api.archs(capabilities_.data()), "nvrtcGetSupportedArchs");
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) path_ = map->l_name;
  std::error_code error;
  const fs::path folder = fs::canonical(path_, error).parent_path();
  for (const fs::path& place : {folder / "../include", folder / "../../../include"}) {
    if (includes_.empty() && fs::exists(place / "cuda_bf16.h", error)) {
      includes_ = fs::canonical(place, error).string();
    }
  }
}

const Nvrtc* Nvrtc::find() {
  static const Nvrtc* const found = []() -> const Nvrtc* {
    for (const std::string& place : places()) {
      void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) continue;
      try {
        return new Nvrtc(library);  // as long as the process lives
      } catch (const RunError&) {
        dlclose(library);
      }
    }
    return nullptr;
  }();
  return found;
}

std::string Nvrtc::missing_reason() {
  if (find()) return "";
  std::string text = "NVRTC, which compiles kernels at run time, was not found (";
  for (const std::string& place : places()) text += (text.back() == '(' ? "" : ", ") + place;
  return text +
         "); it comes with the CUDA toolkit, as package cuda-nvrtc-12-8 or nvidia-cuda-nvrtc";
}

bool Nvrtc::knows(int capability) const {
  return std::find(capabilities_.begin(), capabilities_.end(), capability) != capabilities_.end();
}

void Nvrtc::check(int status, const char* call) const {
  if (status == 0) return;
  throw RunError("NVRTC " + version_ + ": " + call + " -> " + api_->error(status));
}

Nvrtc::Compiled Nvrtc::compile(const std::string& source,
                               const std::vector<std::pair<std::string, std::string>>& headers,
                               const std::vector<std::string>& options) const {
  std::vector<const char*> names, texts, words;
  for (const auto& [name, text] : headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  for (const std::string& option : options) words.push_back(option.c_str());
  _nvrtcProgram* program = nullptr;
  check(api_->create(&program, source.c_str(), "duet.cu", static_cast<int>(headers.size()),
                     texts.data(), names.data()),
        "nvrtcCreateProgram");
  struct Destroyed {
    const Api* api;
    _nvrtcProgram* program;
    ~Destroyed() { api->destroy(&program); }
  } const destroyed{api_, program};
  const int status = [&] {
    const KeptSignalHandlers handlers;
    return api_->compile(program, static_cast<int>(words.size()), words.data());
  }();
  Compiled made;
  size_t bytes = 0;
  check(api_->log_size(program, &bytes), "nvrtcGetProgramLogSize");
  made.log.resize(bytes);
  check(api_->log(program, made.log.data()), "nvrtcGetProgramLog");
  while (!made.log.empty() && made.log.back() == '\0') made.log.pop_back();
  if (status == kCompilationError) return made;
  check(status, ("nvrtcCompileProgram (" + made.log + ")").c_str());
  check(api_->cubin_size(program, &bytes), "nvrtcGetCUBINSize");
  made.cubin.resize(bytes);
  check(api_->cubin(program, made.cubin.data()), "nvrtcGetCUBIN");
  return made;
}

}  // namespace duet
