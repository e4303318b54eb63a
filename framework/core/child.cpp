#include "core/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/running.h"
#include "core/timers.h"

namespace duet {
namespace {

/// Stands before each text; `mark` stands behind it, too. Who writes to all descriptors of the child is
/// noticed by that.
struct MessageHeader {
  uint64_t mark;
  uint64_t size;
};
constexpr uint64_t kMark = 0xd5e7'0c41'93ab'62f8;
constexpr uint64_t kEnd = ~uint64_t{0};       // in place of a text's size: the work returned
constexpr uint64_t kEndWithTimer = kEnd - 1;  // it did, and left a timer running
constexpr uint64_t kMostMessageBytes = 1 << 30;
constexpr int kLookMilliseconds = 50;  // less than what makes two signals one (InterruptGuard)
constexpr int kMostStoppedLooks =
    40;  // no time, as a clock goes on where both processes are stopped

void write_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (errno != EPIPE) Running::leave_note("closed descriptors that are not its own");
      _exit(kExitFailure);  // nobody listens
    }
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

/// The process, and what comes out of its pipe. The pipe's end is also that of the process: one that it
/// has started may hold the pipe open for ever. Passes an interrupt on to it once.
class Child {
 public:
  Child(int fd, pid_t pid) : fd_(fd), pid_(pid) {}

  bool read_all(void* data, size_t bytes) {
    char* at = static_cast<char*>(data);
    for (bool ended = false; bytes > 0;) {
      pollfd waited = {.fd = fd_, .events = POLLIN, .revents = 0};
      const int ready = poll(&waited, 1, kLookMilliseconds);
      if (ready == 0 && ended) return false;  // and what it wrote is read
      pass_interrupt_on();
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

  /// Its next text. Nothing behind the last one, or where something else came: then `end` says so.
  bool read_text(std::string* text, ChildEnd* end) {
    MessageHeader header{};
    uint64_t mark = 0;
    if (!read_all(&header, sizeof header)) return false;
    end->timer = header.mark == kMark && header.size == kEndWithTimer;
    end->finished = end->timer || (header.mark == kMark && header.size == kEnd);
    if (end->finished) return false;
    end->garbled = header.mark != kMark || header.size > kMostMessageBytes;
    if (end->garbled) return false;
    text->resize(header.size);
    if (!read_all(text->data(), text->size()) || !read_all(&mark, sizeof mark)) return false;
    end->garbled = mark != kMark;
    return !end->garbled;
  }

  void kill() const { ::kill(pid_, SIGKILL); }

  /// Waits for its end; stopped_by() says whether it was stopped, and ended therefore.
  int wait() {
    for (int status = 0;;) {
      const pid_t ended = waitpid(pid_, &status, stopped_by_ ? 0 : WNOHANG);
      if (ended == pid_) return status;
      if (ended < 0 && errno != EINTR) return 0;
      poll(nullptr, 0, kLookMilliseconds / 10);
      pass_interrupt_on();
      if (++waits_ % 10 == 0) has_ended();
    }
  }
  int stopped_by() const { return stopped_by_; }

 private:
  bool has_ended() {
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) !=
            0 ||
        info.si_pid != pid_) {
      looks_stopped_ = 0;
      return false;
    }
    if (info.si_code != CLD_STOPPED && info.si_code != CLD_TRAPPED) return true;
    if (++looks_stopped_ == kMostStoppedLooks) {
      stopped_by_ = info.si_status;
      kill();
    }
    return false;
  }

  void pass_interrupt_on() {
    if (!InterruptGuard::requested() || told_) return;
    for (const int signal : {SIGINT, SIGTERM}) ::kill(pid_, signal);  // one may be ignored
    told_ = true;
  }

  const int fd_;
  const pid_t pid_;
  bool told_ = false;
  int looks_stopped_ = 0, waits_ = 0, stopped_by_ = 0;
};

[[noreturn]] void be_child(pid_t parent, int fd, const std::function<void(const Send&)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitFailure);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  InterruptGuard::in_child();
  work([fd](const std::string& text) {
    const MessageHeader header = {kMark, text.size()};
    write_all(fd, &header, sizeof header);
    write_all(fd, text.data(), text.size());
    write_all(fd, &kMark, sizeof kMark);
  });
  const MessageHeader end = {kMark, !running_timers().empty() ? kEndWithTimer : kEnd};
  write_all(fd, &end, sizeof end);
  std::fflush(nullptr);
  _exit(kExitDone);
}

}  // namespace

std::string ChildEnd::text() const {
  const std::string where = place.empty() ? "" : " " + place;
  if (!note.empty()) return note + where;
  if (garbled) return "wrote to descriptors that are not its own" + where;
  if (stop != 0) return "stopped the process by " + signal_text(stop) + where;
  if (timer) return "leaves a timer running, whose signal ends the process" + where;
  if (is_untimely()) return "ended the process by " + signal_text(signal) + where;
  if (signal != 0) return "crashed: " + signal_text(signal) + where;
  return "ended the process with exit code " + std::to_string(code) + where;
}

bool ChildEnd::is_untimely() const {
  constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP, SIGKILL};
  return signal != 0 &&
         std::find(std::begin(kCrashes), std::end(kCrashes), signal) == std::end(kCrashes);
}

ChildEnd run_in_child(const std::function<void(const Send&)>& work, const Send& receive) {
  int ends[2];
  std::fflush(nullptr);  // else the child would write it, too
  Running::share();
  const pid_t self = getpid();
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw RunError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    be_child(self, ends[1], work);
  }
  const int error = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    throw RunError(std::string("cannot start a process: ") + std::strerror(error));
  }
  ChildEnd end;
  Child child(ends[0], pid);
  const auto reap = [&] {
    close(ends[0]);
    const int status = child.wait();
    end.stop = child.stopped_by();
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    if (WIFEXITED(status)) end.code = WEXITSTATUS(status);
    end.note = Running::note();
    if (!end.finished) end.place = Running::place();
  };
  try {
    for (std::string text; child.read_text(&text, &end);) receive(text);
  } catch (...) {
    child.kill();
    reap();
    throw;
  }
  if (end.garbled) child.kill();
  reap();
  return end;
}

}  // namespace duet
