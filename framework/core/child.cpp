#include "core/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/running.h"

namespace duet {
namespace {

constexpr uint64_t kEnd = ~uint64_t{0};  // in place of a text's size: the work returned
constexpr int kLookMilliseconds = 50;    // less than what makes two signals one (InterruptGuard)

void write_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) _exit(kExitFailure);  // nobody listens
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

/// What comes out of the pipe, whose end is also that of the child: a process that it has started may
/// hold the pipe open for ever. Passes an interrupt on to the child once.
class Reader {
 public:
  Reader(int fd, pid_t child) : fd_(fd), child_(child) {}

  bool read_all(void* data, size_t bytes) {
    char* at = static_cast<char*>(data);
    for (bool ended = false; bytes > 0;) {
      pollfd waited = {.fd = fd_, .events = POLLIN, .revents = 0};
      const int ready = poll(&waited, 1, kLookMilliseconds);
      if (InterruptGuard::requested() && !told_) {
        for (const int signal : {SIGINT, SIGTERM}) kill(child_, signal);  // one may be ignored
        told_ = true;
      }
      if (ready == 0 && ended) return false;  // and what it wrote is read
      if (ready == 0) ended = has_ended();
      if (ready <= 0) continue;
      const ssize_t got = read(fd_, at, bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }

 private:
  bool has_ended() const {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child_;
  }

  const int fd_;
  const pid_t child_;
  bool told_ = false;
};

[[noreturn]] void be_child(pid_t parent, int fd, const std::function<void(const Send&)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitFailure);
  work([fd](const std::string& text) {
    const uint64_t size = text.size();
    write_all(fd, &size, sizeof size);
    write_all(fd, text.data(), size);
  });
  write_all(fd, &kEnd, sizeof kEnd);
  std::fflush(nullptr);
  _exit(kExitDone);
}

}  // namespace

std::string ChildEnd::text() const {
  if (!note.empty()) return note;
  if (signal != 0) return "crashed: " + signal_text(signal);
  return "ended the process with exit code " + std::to_string(code);
}

ChildEnd run_in_child(const std::function<void(const Send&)>& work, const Send& receive) {
  int ends[2];
  std::fflush(nullptr);  // else the child would write it, too
  Running::share();
  const pid_t self = getpid();
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw RunError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    be_child(self, ends[1], work);
  }
  const int error = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    throw RunError(std::string("cannot start a process: ") + std::strerror(error));
  }
  ChildEnd end;
  const auto reap = [&] {
    close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    if (WIFEXITED(status)) end.code = WEXITSTATUS(status);
    end.note = Running::note();
  };
  try {
    Reader reader(ends[0], child);
    std::string text;
    for (uint64_t size = 0; reader.read_all(&size, sizeof size);) {
      end.finished = size == kEnd;
      if (end.finished) break;
      text.resize(size);
      if (!reader.read_all(text.data(), size)) break;
      receive(text);
    }
  } catch (...) {
    kill(child, SIGKILL);
    reap();
    throw;
  }
  reap();
  return end;
}

}  // namespace duet
