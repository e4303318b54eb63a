#include "device/stopwatch.h"

#include <chrono>

#include "device/gpu.h"

namespace duet {
double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Stopwatch::Stopwatch(Context& context) : context_(context) {
  if (context.device() == Device::kCpu) return;
  begin_ = gpu::make_event();
  end_ = gpu::make_event();
}

Stopwatch::~Stopwatch() {
  gpu::destroy_event(begin_);
  gpu::destroy_event(end_);
}

void Stopwatch::start() {
  if (begin_) {
    gpu::record_event(begin_, context_.stream());
  } else {
    start_ = now_seconds();
  }
}

double Stopwatch::stop() {
  if (!begin_) return now_seconds() - start_;
  gpu::record_event(end_, context_.stream());
  return gpu::seconds_between(begin_, end_);
}

}  // namespace duet
