#include "core/parallel.h"

#include <sched.h>

#include <atomic>
#include <cfenv>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace duet {
namespace {

int wanted_threads() {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const int threads = std::atoi(text);
    if (threads > 0) return std::min(threads, 1024);
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

// True in a thread that is inside a shared loop.
thread_local bool in_loop = false;

// Of the loops that this thread starts.
thread_local bool (*stop_of_loops)() = nullptr;

struct Loop {
  int64_t count = 0;
  void (*call)(const void*, int64_t) = nullptr;
  const void* body = nullptr;
  bool (*stop)() = nullptr;
  std::fenv_t
      environment{};  // the caller's: all threads round as it does, whatever was left in them

  bool goes_on(int64_t i) const { return i < count && !(stop && stop()); }
};

// The threads, which sleep between loops. One loop at a time.
class Pool {
 public:
  Pool() {
    try {
      for (int i = 1; i < cpu_threads(); ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::exception&) {
      // The system gives no more (a limit of processes, no memory): those there are do the work.
    }
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // False if another thread's loop has the pool.
  bool run(const Loop& loop) {
    const std::unique_lock mine(in_use_, std::try_to_lock);
    if (!mine) return false;
    {
      const std::lock_guard lock(mutex_);
      loop_ = loop;
      std::fegetenv(&loop_.environment);
      next_ = 0;
      ++number_;
      open_ = true;
    }
    wake_.notify_all();
    take_parts(loop);
    std::unique_lock lock(mutex_);
    open_ = false;  // whoever has not come by now need not
    done_.wait(lock, [this] { return inside_ == 0; });
    return true;
  }

 private:
  void take_parts(const Loop& loop) {
    const LoopsAlone inside;
    for (int64_t i = next_++; loop.goes_on(i); i = next_++) loop.call(loop.body, i);
  }

  void work() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || (open_ && number_ != seen); });
      if (stop_) return;
      seen = number_;
      const Loop loop = loop_;
      ++inside_;
      lock.unlock();
      std::fesetenv(&loop.environment);
      take_parts(loop);
      lock.lock();
      if (--inside_ == 0) done_.notify_one();
    }
  }

  std::mutex in_use_;
  std::mutex mutex_;  // of all below but next_
  std::condition_variable wake_, done_;
  Loop loop_;
  uint64_t number_ = 0;
  bool open_ = false;
  bool stop_ = false;
  int inside_ = 0;  // threads, without the caller, that are in the loop
  std::atomic<int64_t> next_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

int cpu_threads() {
  static const int threads = wanted_threads();
  return threads;
}

LoopStop::LoopStop(bool (*stop)()) : outer_(stop_of_loops) { stop_of_loops = stop; }

LoopStop::~LoopStop() { stop_of_loops = outer_; }

LoopsAlone::LoopsAlone() : outer_(in_loop) { in_loop = true; }

LoopsAlone::~LoopsAlone() { in_loop = outer_; }

void share_loop(int64_t count, void (*call)(const void* body, int64_t i), const void* body) {
  const Loop loop = {count, call, body, stop_of_loops};
  if (!in_loop && cpu_threads() > 1) {
    static Pool pool;
    if (pool.run(loop)) return;
  }
  for (int64_t i = 0; loop.goes_on(i); ++i) call(body, i);
}

}  // namespace duet
