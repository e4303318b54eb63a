#include "support/trainer_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "device/device.h"
#include "train/checkpoint/safetensors.h"

namespace duet {

namespace fs = std::filesystem;

const char* const kTinyNetwork = R"(name: tiny
backend: cpu
data: {dataset: synthetic_images, batch: 16, size: 8, classes: 4, train_count: 64, validation_count: 32}
train: {epochs: 2}
optimizer: {type: adam, learning_rate: 0.01}
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3}
  - {name: relu1, type: relu}
  - {name: flatten, type: flatten}
  - {name: fc1, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)";

TrainerFolder::TrainerFolder(std::string program) : program_(std::move(program)) {
  write("tiny.yaml", kTinyNetwork);
}

pid_t TrainerFolder::start(const std::string& arguments, const Options& options,
                           int terminal) const {
  std::vector<std::string> words = {program_};
  std::istringstream stream(arguments);
  for (std::string word; stream >> word;) words.push_back(word == "''" ? "" : word);
  std::vector<std::string> environment = options.environment;
  std::string preload = options.preload;
#ifdef DUET_PRELOAD_CUBLASLT
  static const bool without_gpu = !gpu_available();
  if (without_gpu && !options.cublaslt)
    preload += std::string(preload.empty() ? "" : ":") + DUET_PRELOAD_CUBLASLT;
#endif
  if (!preload.empty()) environment.push_back("LD_PRELOAD=" + preload);
  if (!options.preload.empty()) {
    // The library brings libstdc++, whose operator delete comes before AddressSanitizer's then.
    environment.push_back("ASAN_OPTIONS=verify_asan_link_order=0:alloc_dealloc_mismatch=0");
  }
  // ThreadSanitizer writes a file there before main(), and a limit would end the process.
  if (options.most_file_bytes) environment.push_back("TEST_TMPDIR=/nowhere");
  for (const char* kept :
       {"PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = getenv(kept)) environment.push_back(std::string(kept) + "=" + value);
  }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
  };
  const std::vector<char*> argv = pointers(words), envp = pointers(environment);
  const std::string out = *this / "stdout", err = *this / "stderr";

  // fork() would copy the tables of 30,000 pages that cuBLASLt's relocations changed.
  const pid_t process = vfork();
  if (process != 0) return process;
  // In the child, which has this process's memory: only simple system calls.
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  if (chdir(path().c_str()) != 0 || dup2(open("/dev/null", O_RDONLY), 0) < 0 ||
      dup2(open(out.c_str(), flags, 0600), 1) < 0 ||
      dup2(terminal >= 0 ? terminal : open(err.c_str(), flags, 0600), 2) < 0) {
    _exit(126);
  }
  if (options.most_file_bytes) {
    const rlimit limit = {*options.most_file_bytes, *options.most_file_bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  for (const int fd : options.closed) close(fd);
  for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) signal(one, SIG_DFL);
  execve(program_.c_str(), argv.data(), envp.data());
  _exit(127);
}

Outcome TrainerFolder::finish(pid_t process) const {
  int status = 0;
  waitpid(process, &status, 0);
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read("stdout"),
                  read("stderr")};
  fs::remove(*this / "stdout");
  fs::remove(*this / "stderr");
  return outcome;
}

Outcome TrainerFolder::run(const std::string& arguments, const Options& options) const {
  if (!options.terminal) return finish(start(arguments, options, -1));
  int master = -1, terminal = -1;
  if (openpty(&master, &terminal, nullptr, nullptr, nullptr) != 0) {
    ADD_FAILURE() << "openpty failed";
    return {};
  }
  const pid_t process = start(arguments, options, terminal);
  close(terminal);
  std::string shown;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(master, buffer, sizeof buffer)) > 0;)
    shown.append(buffer, got);
  close(master);
  Outcome outcome = finish(process);
  outcome.err = shown;
  return outcome;
}

Outcome TrainerFolder::run_until(const std::string& arguments, const fs::path& started, int signal,
                                 const std::string& text, const Options& options) const {
  const pid_t process = start(arguments, options, -1);
  // Beyond what a sanitizer takes on a busy machine.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(300);
  std::error_code error;
  while (std::chrono::steady_clock::now() < end) {
    const auto bytes = fs::file_size(*this / started, error);
    if (!error && bytes > 0 && read(started).find(text) != std::string::npos) break;
    siginfo_t ended = {};
    waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (ended.si_pid == process) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto signalled = std::chrono::steady_clock::now();
  kill(process, signal);
  Outcome outcome = finish(process);
  outcome.seconds_after_signal =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - signalled).count();
  return outcome;
}

std::vector<nlohmann::json> metrics(const TrainerFolder& folder, const std::string& run,
                                    const std::string& event) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : lines_of(folder.read(run + "/metrics.jsonl"))) {
    const nlohmann::json object = nlohmann::json::parse(line);
    if (object.at("event") == event) lines.push_back(object);
  }
  return lines;
}

std::map<std::string, std::string> tensors(const fs::path& checkpoint) {
  const safetensors::File file = safetensors::read(checkpoint);
  std::map<std::string, std::string> values = {{"step", file.metadata().at("step")}};
  for (const safetensors::Entry& entry : file.entries()) {
    values[entry.name] = {static_cast<const char*>(entry.data), entry.bytes()};
  }
  return values;
}

}  // namespace duet
