#include "measure/examine/process_state.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "core/config.h"
#include "core/error.h"
#include "core/openmp.h"
#include "core/running.h"
#include "core/timers.h"
#include "device/stopwatch.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace duet {
namespace {

// A library opens some when it is first used.
constexpr size_t kManyDescriptors = 64;

// Whether results and operands that are denormal become zero.
unsigned flushing() {
#if defined(__SSE2__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  return _mm_getcsr() & (kFlushToZero | kDenormalsAreZero);
#else
  return 0;
#endif
}

size_t open_descriptors() {
  std::error_code error;
  size_t count = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    ++count;
  }
  if (error == std::errc::too_many_files_open) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }
  return count;
}

std::filesystem::path current_folder() {
  std::error_code error;
  return std::filesystem::current_path(error);
}

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The numbers that name the entries of a folder of /proc.
std::vector<pid_t> numbers_in(const char* folder) {
  std::vector<pid_t> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (const int number = std::atoi(at->path().filename().c_str()); number > 0) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::map<pid_t, cpu_set_t> affinities() {
  std::map<pid_t, cpu_set_t> all;
  for (const pid_t thread : numbers_in("/proc/self/task")) {
    cpu_set_t set;
    if (sched_getaffinity(thread, sizeof set, &set) == 0) all.emplace(thread, set);
  }
  return all;
}

std::array<struct sigaction, 65> handlers() {
  std::array<struct sigaction, 65> all{};
  for (int signal = 1; signal < static_cast<int>(all.size()); ++signal) {
    sigaction(signal, nullptr, &all[static_cast<size_t>(signal)]);
  }
  return all;
}

sigset_t blocked_signals() {
  sigset_t set;
  pthread_sigmask(SIG_BLOCK, nullptr, &set);
  return set;
}

// Those that live; the others are buried.
std::vector<pid_t> children() {
  std::vector<pid_t> all;
  siginfo_t info{};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return all;  // there are none
  const std::string own = std::to_string(getpid());
  for (const pid_t process : numbers_in("/proc")) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t name_end = text.rfind(')');  // then state and parent
    if (name_end == std::string::npos || name_end + 4 > text.size()) continue;
    if (text.compare(name_end + 4, own.size() + 1, own + " ") != 0) continue;
    if (text[name_end + 2] != 'Z') all.push_back(process);
  }
  return all;
}

template <class T>
std::vector<T> not_in(const std::vector<T>& known, std::vector<T> all) {
  std::erase_if(all, [&](const T& each) {
    return std::find(known.begin(), known.end(), each) != known.end();
  });
  return all;
}

std::string counted(size_t count, const std::string& one, const std::string& many) {
  return count == 1 ? "1 " + one : std::to_string(count) + " " + many;
}

using std::chrono::milliseconds;

// Whether some thread computes while this one sleeps so long. Duet's own sleep between loops.
bool is_busy(milliseconds time) {
  constexpr double kBusy = 0.2;  // of a processor; a machine with other work gives no more
  const double start = now_seconds(), before = processor_seconds();
  std::this_thread::sleep_for(time);
  return processor_seconds() - before > kBusy * (now_seconds() - start);
}

// Whether a thread but this one runs, or waits for nothing but a processor.
bool others_run() {
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().filename() == std::to_string(gettid())) continue;
    std::ifstream stat(at->path() / "stat");
    std::string text;
    std::getline(stat, text);
    const size_t name_end = text.rfind(')');
    if (name_end != std::string::npos && text.compare(name_end, 3, ") R") == 0) return true;
  }
  return false;
}

// What is about to end is no fault: threads of a loop that still wait for the next one take a while
// to stop. So it is not time that counts, of which other processes may leave them little, but what
// they have computed without a pause.
bool stays_busy() {
  if (!is_busy(milliseconds(2))) return false;
  std::this_thread::sleep_for(milliseconds(40));
  constexpr double kComputed = 0.25, kPatience = 5, kSomething = 0.01;  // seconds
  const double start = now_seconds(), before = processor_seconds();
  double computed = 0;
  do {
    std::this_thread::sleep_for(milliseconds(5));
    if (!others_run()) return false;
    computed = processor_seconds() - before;
  } while (computed < kComputed && now_seconds() - start < kPatience);
  return computed > kSomething;
}

}  // namespace

ProcessState::ProcessState(Context& context)
    : context_(context),
      rounding_(std::fegetround()),
      flushing_(flushing()),
      openmp_threads_(openmp::threads()),
      affinities_(affinities()),
      folder_(current_folder()),
      handlers_(handlers()),
      blocked_(blocked_signals()),
      timers_(running_timers()),
      children_(children()),
      descriptors_(open_descriptors()),
      busy_(is_busy(milliseconds(2))) {
  std::fegetenv(&environment_);
  prctl(PR_GET_CHILD_SUBREAPER, &adopted_before_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that a child's child is found too
  if (context.device() == Device::kCpu) return;
  context.synchronize();
  cache_ = gpu::persisting_cache(context.stream());
}

ProcessState::~ProcessState() { prctl(PR_SET_CHILD_SUBREAPER, adopted_before_); }

std::string ProcessState::restore() {
  std::vector<std::string> changes;
  const auto note = [&](std::string text) {
    if (!text.empty()) changes.push_back(std::move(text));
  };
  note(end_children());
  note(restore_signals());
  note(restore_affinity());
  note(restore_folder());
  if (context_.device() == Device::kGpu) note(restore_gpu());
  const size_t descriptors = open_descriptors();
  if (descriptors > descriptors_ + kManyDescriptors) {
    note(std::to_string(descriptors - descriptors_) + " open files");
    spoilt_ = true;
  }
  if (!busy_ && stays_busy()) {
    note("a thread that keeps computing, so that no time is sound");
    spoilt_ = true;
  }
  // Last, as OpenMP's threads are busy for a while after their loop.
  note(restore_floating_point());
  note(restore_threads());
  return join(changes);
}

std::string ProcessState::restore_floating_point() {
  struct Threads {
    const std::fenv_t& environment;
    const int rounding;
    const unsigned flushing;
    std::atomic<int> round{0}, flush{0};
  } threads{environment_, rounding_, flushing_};
  const auto restore = [](void* data) {
    auto& all = *static_cast<Threads*>(data);
    const bool rounds = std::fegetround() != all.rounding, flushes = flushing() != all.flushing;
    if (!rounds && !flushes) return;
    ++(rounds ? all.round : all.flush);
    std::fesetenv(&all.environment);
  };
  restore(&threads);
  const bool here = threads.round + threads.flush > 0;
  if (openmp::threads() > 0) openmp::in_every_thread(restore, &threads);
  if (threads.round + threads.flush == 0) return "";
  return std::string(threads.round > 0 ? "another rounding mode"
                                       : "denormal numbers flushed to zero") +
         (here ? "" : " in OpenMP's threads");
}

std::string ProcessState::restore_threads() {
  const int now = openmp::threads();
  if (openmp_threads_ == 0 || now == openmp_threads_) return "";
  openmp::set_threads(openmp_threads_);
  return std::to_string(now) + " threads of OpenMP where there were " +
         std::to_string(openmp_threads_);
}

std::string ProcessState::restore_affinity() {
  for (const char* asked : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    if (std::getenv(asked)) return "";  // the runtime binds threads when it makes them
  }
  const auto own = affinities_.find(gettid());
  if (own == affinities_.end()) return "";
  size_t changed = 0;
  for (const auto& [thread, set] : affinities()) {
    const auto before = affinities_.find(thread);
    const bool known = before != affinities_.end();
    if (!known && context_.device() == Device::kGpu) continue;  // the driver's
    const cpu_set_t& wanted = known ? before->second : own->second;
    if (CPU_EQUAL(&set, &wanted)) continue;
    ++changed;
    sched_setaffinity(thread, sizeof wanted, &wanted);
  }
  if (changed == 0) return "";
  return counted(changed, "thread", "threads") + " bound to other CPUs";
}

std::string ProcessState::restore_folder() {
  std::error_code error;
  if (folder_.empty() || current_folder() == folder_) return "";
  std::filesystem::current_path(folder_, error);
  return "another working folder";
}

std::string ProcessState::restore_signals() {
  std::vector<std::string> changes;
  const auto timers = not_in(timers_, running_timers());
  for (const int timer : timers) stop_timer(timer);
  if (!timers.empty())
    changes.push_back(counted(timers.size(), "timer", "timers") + " that runs on");
  const Handlers now = handlers();
  for (size_t i = 1; i < now.size(); ++i) {
    constexpr unsigned kOfTheLibrary = 0x04000000;  // SA_RESTORER, which who sets one adds
    const auto changed =
        static_cast<unsigned>(now[i].sa_flags ^ handlers_[i].sa_flags) & ~kOfTheLibrary;
    const bool same_function = now[i].sa_handler == handlers_[i].sa_handler;
    if (same_function && changed == 0) continue;
    const auto signal = static_cast<int>(i);
    sigaction(signal, &handlers_[i], nullptr);
    // NVRTC, which cuDNN calls too, puts handlers back without it (core/interrupt.h).
    if (same_function && changed == SA_SIGINFO) continue;
    // Libraries that write files or sockets handle these, as cuDNN does when it compiles a kernel.
    if (signal == SIGXFSZ || signal == SIGPIPE) continue;
    changes.push_back(std::string("another handler of ") + strsignal(signal));
  }
  const sigset_t blocked = blocked_signals();
  for (int signal = 1; signal < static_cast<int>(now.size()); ++signal) {
    if (sigismember(&blocked, signal) == sigismember(&blocked_, signal)) continue;
    pthread_sigmask(SIG_SETMASK, &blocked_, nullptr);
    changes.emplace_back("other blocked signals");
    break;
  }
  return join(changes);
}

std::string ProcessState::end_children() {
  const auto made = not_in(children_, children());
  if (made.empty()) return "";
  spoilt_ = !Running::is_shared();  // other threads of a user's process may have made them
  for (const pid_t child : made) {
    if (spoilt_) break;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return counted(made.size(), "child process", "child processes") +
         (spoilt_ ? "" : " (now killed)");
}

std::string ProcessState::restore_gpu() {
  std::string text = gpu::take_error();
  if (!text.empty()) text = "the CUDA error " + text;
  if (gpu::persisting_cache(context_.stream()) == cache_) return text;
  context_.synchronize();
  gpu::set_persisting_cache(context_.stream(), cache_);
  return text + (text.empty() ? "" : ", ") + "a share of the L2 cache that it keeps for itself";
}

std::string text_of_failure(std::string_view id, Device device) {
  std::string text;
  try {
    throw;
  } catch (const InterruptedError&) {
    throw;
  } catch (const UnusableProcessError&) {
    throw;
  } catch (const std::exception& error) {
    text = "failed: " + message_of(error);
  } catch (...) {
    text = "failed: it threw what is no std::exception";
  }
  if (device == Device::kGpu && gpu::is_lost()) {
    throw UnusableProcessError(std::string(id) + " " + text +
                               "; after that the GPU does nothing more for this process "
                               "(bench --sanitize finds the place)");
  }
  return text;
}

}  // namespace duet
