#include "device/stream_times.h"

#include <condition_variable>
#include <deque>
#include <mutex>

#include "device/check.h"

namespace duet {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestHold = 100ms;

// Where the stream waits for the host.
class Gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  // Called by the CUDA runtime, in the stream's order.
  static void CUDART_CB wait(void* gate) {
    auto& self = *static_cast<Gate*>(gate);
    std::unique_lock lock(self.mutex_);
    self.changed_.wait_for(lock, kLongestHold, [&] { return self.open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace

struct StreamTimes::Impl {
  cudaStream_t stream = nullptr;
  Clock::time_point zero;
  std::vector<cudaEvent_t> marks;  // the first is zero
  std::deque<Gate> gates;          // never moved: the stream holds their addresses

  ~Impl() {
    for (Gate& gate : gates) gate.open();
    cudaStreamSynchronize(stream);
    for (cudaEvent_t event : marks) cudaEventDestroy(event);
  }
  void record(cudaStream_t where) {
    marks.push_back(nullptr);
    DUET_CUDA(cudaEventCreate(&marks.back()));
    DUET_CUDA(cudaEventRecord(marks.back(), where));
  }
};

StreamTimes::StreamTimes(Context& context) : impl_(std::make_unique<Impl>()) {
  impl_->stream = context.stream();
  DUET_CUDA(cudaStreamSynchronize(impl_->stream));
  const auto before = Clock::now();
  impl_->record(impl_->stream);
  DUET_CUDA(cudaEventSynchronize(impl_->marks.front()));
  impl_->zero = before + (Clock::now() - before) / 2;
}

StreamTimes::~StreamTimes() = default;

void StreamTimes::hold() {
  impl_->gates.emplace_back();
  DUET_CUDA(cudaLaunchHostFunc(impl_->stream, Gate::wait, &impl_->gates.back()));
}

void StreamTimes::release() { impl_->gates.back().open(); }

size_t StreamTimes::mark(CUstream_st* stream) {
  impl_->record(stream ? stream : impl_->stream);
  return impl_->marks.size() - 2;
}

std::vector<double> StreamTimes::microseconds() {
  DUET_CUDA(cudaStreamSynchronize(impl_->stream));
  for (cudaEvent_t mark : impl_->marks) DUET_CUDA(cudaEventSynchronize(mark));
  std::vector<double> times;
  for (size_t i = 1; i < impl_->marks.size(); ++i) {
    float milliseconds = 0.0f;
    DUET_CUDA(cudaEventElapsedTime(&milliseconds, impl_->marks[0], impl_->marks[i]));
    times.push_back(1e3 * static_cast<double>(milliseconds));
  }
  return times;
}

StreamTimes::Clock::time_point StreamTimes::zero() const { return impl_->zero; }

}  // namespace duet
