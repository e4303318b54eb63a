#include "core/openmp.h"

#include <dlfcn.h>

#include <initializer_list>
#include <type_traits>

namespace duet::openmp {
namespace {

struct Runtime {
  int (*threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
  void (*parallel)(void (*)(void*), void*, unsigned threads, unsigned flags) = nullptr;
};

// GCC's runtime, or LLVM's, which has GCC's entry too. Looked for until there is one.
const Runtime& runtime() {
  static Runtime found;
  for (const char* name : {"libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so"}) {
    if (found.parallel) break;
    void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) continue;
    const auto find = [library](const char* symbol, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      return function != nullptr;
    };
    Runtime all;
    if (find("omp_get_max_threads", all.threads) && find("omp_set_num_threads", all.set_threads) &&
        find("GOMP_parallel", all.parallel)) {
      found = all;
    }
  }
  return found;
}

}  // namespace

int threads() { return runtime().parallel ? runtime().threads() : 0; }

void set_threads(int threads) {
  if (runtime().parallel) runtime().set_threads(threads);
}

void in_every_thread(void (*body)(void*), void* data, int threads) {
  if (!runtime().parallel) return body(data);
  runtime().parallel(body, data, static_cast<unsigned>(threads), 0);
}

}  // namespace duet::openmp
