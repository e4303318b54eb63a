// A library for LD_PRELOAD that injects one fault into the calls of a process that change files
// below one folder: an error, or the end of the process as by kill -9 or a power cut.
//
//   DUET_FAULT_PATH  the folder, as the process names it; calls on other paths are left alone
//   DUET_FAULT_AT    the number of the call, from 1; 0 injects nothing
//   DUET_FAULT_KIND  ENOSPC, EIO: the call fails, and does nothing
//                    full: it and all that follow which need space fail with ENOSPC
//                    short: as full, but a write has written half by then
//                    killed: the process ends before the call
//                    done: it ends behind the call
//                    half: it ends when half of a write is written
//   DUET_FAULT_LOG   a file to which each call is appended as a line
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr int kMostDescriptors = 1024;

struct Faults {
  const char* path = getenv("DUET_FAULT_PATH");
  const char* kind = getenv("DUET_FAULT_KIND");
  long at = getenv("DUET_FAULT_AT") ? atol(getenv("DUET_FAULT_AT")) : 0;
  int log = -1;
  long calls = 0;
  bool watched[kMostDescriptors] = {};

  Faults() {
    const char* file = getenv("DUET_FAULT_LOG");
    if (file)
      log = static_cast<int>(
          syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }
  bool is(const char* name) const { return kind && strcmp(kind, name) == 0; }
  bool below(const char* name) const {
    if (!path || !name) return false;
    const size_t length = strlen(path);
    return strncmp(name, path, length) == 0 && (name[length] == '/' || name[length] == '\0');
  }
  bool below(int fd) const { return fd >= 0 && fd < kMostDescriptors && watched[fd]; }
};

Faults& faults() {
  static Faults all;
  return all;
}

[[noreturn]] void end_process() {
  syscall(SYS_kill, getpid(), SIGKILL);
  for (;;) pause();
}

enum class Needs { kSpace, kNothing };

// Counts a call. Returns the error it is to fail with, or 0.
int before(const char* name, const char* what, Needs needs = Needs::kNothing) {
  Faults& f = faults();
  ++f.calls;
  if (f.log >= 0) {
    char line[PATH_MAX + 64];
    const int length = snprintf(line, sizeof line, "%ld %s %s\n", f.calls, name, what);
    syscall(SYS_write, f.log, line, length);
  }
  const bool now = f.calls == f.at;
  if (now && (f.is("killed") || f.is("half"))) end_process();
  if (now && f.is("ENOSPC")) return ENOSPC;
  if (now && f.is("EIO")) return EIO;
  const bool full = f.is("full") || f.is("short");
  return full && f.at > 0 && f.calls >= f.at && needs == Needs::kSpace ? ENOSPC : 0;
}

template <class Result>
Result after(Result result) {
  const Faults& f = faults();
  if (f.calls == f.at && f.is("done")) end_process();
  return result;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int open_file(const char* name, const char* path, int flags, mode_t mode) {
  const auto open_next = next<int(const char*, int, ...)>(name);
  if (!faults().below(path) || (flags & (O_WRONLY | O_RDWR | O_DIRECTORY)) == 0) {
    return open_next(path, flags, mode);
  }
  const int error = before(name, path, flags & O_CREAT ? Needs::kSpace : Needs::kNothing);
  if (error) {
    errno = error;
    return -1;
  }
  const int fd = open_next(path, flags, mode);
  if (fd >= 0 && fd < kMostDescriptors) faults().watched[fd] = true;
  return after(fd);
}

mode_t mode_of(int flags, va_list arguments) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

ssize_t write_some(const char* name, int fd, const void* data, size_t bytes) {
  Faults& f = faults();
  const auto write_next = next<ssize_t(int, const void*, size_t)>("write");
  if (!f.below(fd)) return write_next(fd, data, bytes);
  const bool cut = f.calls + 1 == f.at && (f.is("half") || f.is("short"));
  if (cut) syscall(SYS_write, fd, data, bytes / 2);
  if (const int error = before(name, "", Needs::kSpace)) {
    if (cut && bytes > 1) return static_cast<ssize_t>(bytes / 2);
    errno = error;
    return -1;
  }
  return after(write_next(fd, data, bytes));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("open64", path, flags, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  const auto open_next = next<FILE*(const char*, const char*)>("fopen64");
  if (!faults().below(path) || !strpbrk(mode, "wa+")) return open_next(path, mode);
  if (const int error = before("fopen64", path, Needs::kSpace)) {
    errno = error;
    return nullptr;
  }
  FILE* file = open_next(path, mode);
  if (file && fileno(file) < kMostDescriptors) faults().watched[fileno(file)] = true;
  return after(file);
}

FILE* fopen(const char* path, const char* mode) { return fopen64(path, mode); }

ssize_t write(int fd, const void* data, size_t bytes) {
  return write_some("write", fd, data, bytes);
}

int close(int fd) {
  Faults& f = faults();
  const auto close_next = next<int(int)>("close");
  if (!f.below(fd)) return close_next(fd);
  const int error = before("close", "");
  f.watched[fd] = false;
  const int result = close_next(fd);  // even if it fails the descriptor is gone
  if (error) {
    errno = error;
    return -1;
  }
  return after(result);
}

#define DUET_ON_DESCRIPTOR(name, parameters, arguments, needs)             \
  int name parameters {                                                    \
    if (!faults().below(fd)) return next<int parameters>(#name) arguments; \
    if (const int error = before(#name, "", needs)) {                      \
      errno = error;                                                       \
      return -1;                                                           \
    }                                                                      \
    return after(next<int parameters>(#name) arguments);                   \
  }
DUET_ON_DESCRIPTOR(fsync, (int fd), (fd), Needs::kNothing)
DUET_ON_DESCRIPTOR(fdatasync, (int fd), (fd), Needs::kNothing)
DUET_ON_DESCRIPTOR(ftruncate, (int fd, off_t bytes), (fd, bytes), Needs::kNothing)
DUET_ON_DESCRIPTOR(ftruncate64, (int fd, off64_t bytes), (fd, bytes), Needs::kNothing)
DUET_ON_DESCRIPTOR(fchmod, (int fd, mode_t mode), (fd, mode), Needs::kNothing)
DUET_ON_DESCRIPTOR(flock, (int fd, int how), (fd, how), Needs::kNothing)

#define DUET_ON_PATH(name, parameters, arguments, needs)                     \
  int name parameters {                                                      \
    if (!faults().below(path)) return next<int parameters>(#name) arguments; \
    if (const int error = before(#name, path, needs)) {                      \
      errno = error;                                                         \
      return -1;                                                             \
    }                                                                        \
    return after(next<int parameters>(#name) arguments);                     \
  }
DUET_ON_PATH(mkdir, (const char* path, mode_t mode), (path, mode), Needs::kSpace)
DUET_ON_PATH(unlink, (const char* path), (path), Needs::kNothing)
DUET_ON_PATH(remove, (const char* path), (path), Needs::kNothing)
DUET_ON_PATH(rename, (const char* path, const char* to), (path, to), Needs::kSpace)
DUET_ON_PATH(truncate, (const char* path, off_t bytes), (path, bytes), Needs::kNothing)
DUET_ON_PATH(truncate64, (const char* path, off64_t bytes), (path, bytes), Needs::kNothing)
DUET_ON_PATH(chmod, (const char* path, mode_t mode), (path, mode), Needs::kNothing)

}  // extern "C"
