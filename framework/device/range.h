// Names stretches of the host's work for NVIDIA's tools (NVTX): Nsight Systems shows them above the
// kernels that were queued meanwhile, Nsight Compute picks kernels by them.
#pragma once

#include <string>

#include "device/gpu.h"

namespace duet {

/// Open from construction to destruction, on this thread; ranges nest. In a build without CUDA it
/// does nothing. A captured CUDA graph keeps none of the ranges it was captured in.
class Range {
 public:
  explicit Range(const char* name) { gpu::push_range(name); }
  explicit Range(const std::string& name) : Range(name.c_str()) {}
  ~Range() { gpu::pop_range(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace duet
