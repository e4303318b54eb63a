#include "device/staged_slots.h"

#include "device/gpu.h"

namespace duet {

StagedSlots::StagedSlots(Context& context, size_t slots, size_t bytes)
    : context_(context), slots_(slots), slot_bytes_(bytes) {
  if (context.device() == Device::kCpu) {
    memory_ = Buffer(Device::kCpu, slots * bytes);
    host_ = static_cast<std::byte*>(memory_.data());
    return;
  }
  try {
    device_ = Buffer(Device::kGpu, slots * bytes);
    host_ = static_cast<std::byte*>(gpu::allocate_pinned(slots * bytes));
    copies_ = gpu::make_stream();
    for (size_t i = 0; i < slots; ++i) {
      used_.push_back(gpu::make_sleeping_event());
      copied_.push_back(gpu::make_sleeping_event());
    }
  } catch (...) {
    release();
    throw;
  }
}

StagedSlots::~StagedSlots() { release(); }

void StagedSlots::release() noexcept {
  if (context_.device() == Device::kCpu) return;
  gpu::destroy_stream(copies_);
  for (void* event : used_) gpu::destroy_event(event);
  for (void* event : copied_) gpu::destroy_event(event);
  gpu::release_pinned(host_);
}

void StagedSlots::used(size_t slot) {
  if (copies_) gpu::record_event(used_[slot], context_.stream());
}

StagedSlots::Marks StagedSlots::queue_copy(size_t slot, StreamTimes* times) {
  if (!copies_) return {};
  Marks marks;
  gpu::queue_wait(used_[slot], copies_);
  if (times) marks.begin = times->mark(copies_);
  gpu::queue_upload(device_.at(slot * slot_bytes_), host(slot), slot_bytes_, copies_);
  gpu::record_event(copied_[slot], copies_);
  if (times) marks.end = times->mark(copies_);
  return marks;
}

void StagedSlots::queue_wait(size_t slot) {
  if (copies_) gpu::queue_wait(copied_[slot], context_.stream());
}

void StagedSlots::wait_for_copy(size_t slot) {
  if (copies_) gpu::wait_for(copied_[slot]);
}

}  // namespace duet
