// What device/staged_slots.h asks of the GPU. gpu_copies_cuda.cpp implements it, gpu_none.cpp in a build
// without CUDA.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace duet::gpu {

/// Memory of the host that a GPU reads by itself, so that a copy runs beside other work.
void* allocate_pinned(size_t bytes);  // throws OutOfMemoryError
void release_pinned(void* memory) noexcept;
/// A stream beside those of contexts, for copies.
CUstream_st* make_stream();
/// Waits for its work first.
void destroy_stream(CUstream_st* stream) noexcept;
/// From pinned memory.
void queue_upload(void* to, const void* from, size_t bytes, CUstream_st* stream);

/// What is queued on `stream` from here on waits for what was recorded last, if anything was.
void queue_wait(void* event, CUstream_st* stream);
/// The host waits, asleep, for what was recorded last. REQUIRES: of make_sleeping_event().
void wait_for(void* event);
/// An event that measures no time; record_event() and destroy_event() of device/gpu.h take it.
void* make_sleeping_event();

}  // namespace duet::gpu
