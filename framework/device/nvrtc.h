// NVRTC, the compiler of device code: opened while the program runs, so that it is needed by who
// compiles kernels then and by nobody else. Needs neither a GPU nor a driver.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace duet {

class Nvrtc {
 public:
  /// Opens libnvrtc at the first call: that of DUET_NVRTC (a file) in the environment, else the one
  /// that the loader finds, else that of CUDA_HOME, CUDA_PATH or /usr/local/cuda. nullptr if there
  /// is none; missing_reason() says then where it was looked for.
  static const Nvrtc* find();
  static std::string missing_reason();

  /// "13.0"
  const std::string& version() const { return version_; }
  /// Of the library.
  const std::string& path() const { return path_; }
  /// The toolkit's headers beside the library, for #include <cuda_bf16.h>; empty if there are none.
  const std::string& includes() const { return includes_; }
  /// Whether it makes code for that compute capability (90: 9.0).
  bool knows(int capability) const;

  struct Compiled {
    std::string cubin;  // empty: there were errors
    std::string log;
  };
  /// `headers` are names and contents of what `source` may include by name. Throws RunError for
  /// what is not the source's fault.
  Compiled compile(const std::string& source,
                   const std::vector<std::pair<std::string, std::string>>& headers,
                   const std::vector<std::string>& options) const;

 private:
  struct Api;

  explicit Nvrtc(void* library);
  void check(int status, const char* call) const;

  const Api* api_;
  std::string version_, path_, includes_;
  std::vector<int> capabilities_;
};

}  // namespace duet
