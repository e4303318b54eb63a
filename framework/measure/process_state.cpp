#include "measure/process_state.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "core/config.h"
#include "core/error.h"
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

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
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
      descriptors_(open_descriptors()),
      busy_(is_busy(milliseconds(2))) {
  std::fegetenv(&environment_);
  if (context.device() == Device::kCpu) return;
  context.synchronize();
  cache_ = gpu::persisting_cache(context.stream());
}

std::string ProcessState::restore() {
  std::vector<std::string> changes;
  const auto note = [&](std::string text) {
    if (!text.empty()) changes.push_back(std::move(text));
  };
  note(restore_floating_point());
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
  return join(changes);
}

std::string ProcessState::restore_floating_point() {
  const bool rounds = std::fegetround() != rounding_, flushes = flushing() != flushing_;
  if (!rounds && !flushes) return "";
  std::fesetenv(&environment_);
  return rounds ? "another rounding mode" : "denormal numbers flushed to zero";
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
