#include "core/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/number_text.h"

namespace duet {
namespace {

bool is_program(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// A command's process, and the pipe that its output comes out of.
class Command {
 public:
  explicit Command(const std::string& command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail(command, errno);
    const std::string text = "{ " + command + "\n}";
    std::array<char*, 4> words = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                                  const_cast<char*>(text.c_str()), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_adddup2(&actions, ends[1], fd);
    }
    const int error = posix_spawn(&pid_, "/bin/sh", &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
    if (error == 0) return;
    close(output_);
    fail(command, error);
  }
  ~Command() {
    if (!ended_) kill_tree(pid_);
    close(output_);
    wait();
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Waits a moment for more output; false if there will be none. A process that it has started may hold
  /// the pipe open for ever, so that the end is also its own.
  bool read_into(std::string* text) {
    constexpr int kLookMilliseconds = 50;
    pollfd waited = {.fd = output_, .events = POLLIN, .revents = 0};
    const int ready = poll(&waited, 1, kLookMilliseconds);
    if (ready == 0 && ended_) return false;  // and what it wrote is read
    if (ready == 0) ended_ = has_ended();
    if (ready <= 0) return true;
    std::array<char, 65536> part;
    const ssize_t count = read(output_, part.data(), part.size());
    if (count > 0) text->append(part.data(), static_cast<size_t>(count));
    if (count == 0 && !ended_) ended_ = has_ended();
    if (count == 0 && !ended_) poll(nullptr, 0, 1);
    return count != 0 || !ended_;
  }

  /// REQUIRES: read_into() was false.
  int wait() {
    int status = 0;
    while (!reaped_ && waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    return status;
  }

 private:
  [[noreturn]] static void fail(const std::string& command, int error) {
    throw RunError("cannot start " + command + ": " + std::strerror(error));
  }

  bool has_ended() const {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }

  // With what it has started: a compiler is several processes. Stopped first, they start no more.
  static void kill_tree(pid_t pid) {
    kill(pid, SIGSTOP);
    std::error_code error;
    const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
    for (std::filesystem::directory_iterator at(tasks, error), end; !error && at != end;
         at.increment(error)) {
      std::ifstream children(at->path() / "children");
      for (std::string child; children >> child;) kill_tree(std::atoi(child.c_str()));
    }
    kill(pid, SIGKILL);
  }

  pid_t pid_ = 0;
  int output_ = -1;
  bool ended_ = false, reaped_ = false;
};

}  // namespace

CommandResult run_command(const std::string& command, const CommandLimits& limits) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kMostBetweenLooks(1);  // if not stopped
  CommandResult result;
  Command process(command);
  Clock::duration waited{};
  for (Clock::time_point last = Clock::now(); process.read_into(&result.output);) {
    InterruptGuard::check();
    const Clock::time_point now = Clock::now();
    waited += std::min<Clock::duration>(now - last, kMostBetweenLooks);
    last = now;
    if (result.output.size() > limits.output_bytes) {
      result.limit = printed("printed more than %zu MiB", limits.output_bytes >> 20);
    } else if (limits.patience && waited > *limits.patience) {
      result.limit = printed("has not ended after %g s",
                             std::chrono::duration<double>(*limits.patience).count());
    }
    if (result.limit.empty()) continue;
    result.code = 128 + SIGKILL;
    return result;
  }
  const int status = process.wait();
  result.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string path_variable() {
  const char* path = std::getenv("PATH");
  return path ? path : "";
}

std::optional<std::string> find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    return is_program(name) ? std::optional(name) : std::nullopt;
  }
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/" + name;
    if (!folder.empty() && is_program(program)) return program;
  }
  return {};
}

}  // namespace duet
