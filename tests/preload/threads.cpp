// A library for LD_PRELOAD under which only the first DUET_THREADS threads can be created, as under
// a limit of processes.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <atomic>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  static std::atomic<int> created = 0;
  const char* most = getenv("DUET_THREADS");
  if (most && created++ >= atoi(most)) return EAGAIN;
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, run, argument);
}
