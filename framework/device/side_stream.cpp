#include "device/side_stream.h"

#include "device/gpu.h"
#include "device/gpu_copies.h"

namespace duet {
SideStream::SideStream(Context& main) : main_(main), stream_(gpu::make_stream()) {
  context_ = std::make_unique<Context>(main.device(), stream_);
  context_->set_workspace_limit(main.workspace_limit());
}

SideStream::~SideStream() {
  for (void* event : events_) gpu::destroy_event(event);
  context_.reset();
  gpu::destroy_stream(stream_);
}

void* SideStream::new_mark(CUstream_st* stream) {
  if (marks_ == events_.size()) events_.push_back(gpu::make_sleeping_event());
  void* const event = events_[marks_++];
  gpu::record_event(event, stream);
  return event;
}

void SideStream::follow_main() {
  gpu::queue_wait(new_mark(main_.stream()), stream_);
  is_used_ = true;
}

size_t SideStream::mark() {
  new_mark(stream_);
  return marks_ - 1;
}

void SideStream::hold_main(size_t mark) { gpu::queue_wait(events_[mark], main_.stream()); }

void SideStream::join() {
  if (is_used_) hold_main(mark());
  is_used_ = false;
  marks_ = 0;
}

Run aside(const Run& run) {
  if (!run.aside) return run;
  RunAside& to = *run.aside;
  to.stream.follow_main();
  to.is_taken = true;
  return {to.stream.context(), to.workspace,  to.workspace_bytes, run.step,
          run.training,        run.inference, run.ports};
}

}  // namespace duet
