// State of the GPU that all work of the process shares. gpu_cuda.cpp implements it, and
// gpu_none.cpp in a build without CUDA, where there is none.
#pragma once

#include <cstddef>
#include <string>

struct CUstream_st;

namespace duet::gpu {

/// The error that a CUDA call left behind ("NAME: text"), which is taken away; empty if there is
/// none. The next launch that is checked would be blamed for it.
std::string take_error();

/// Waits for the GPU. True if an illegal access, or the like, has made every further call fail.
bool is_lost();

/// The share of the L2 cache that is set aside for accesses marked as persisting, and how much
/// memory a stream marks.
struct PersistingCache {
  size_t bytes = 0, window_bytes = 0;
  bool operator==(const PersistingCache&) const = default;
};
PersistingCache persisting_cache(CUstream_st* stream);
/// Sets both, and forgets what lies in the share. A window that has another size is taken away.
void set_persisting_cache(CUstream_st* stream, const PersistingCache& cache);

}  // namespace duet::gpu
