// The few GPU services that CPU-only code calls. Two files implement them: gpu_cuda.cpp in a build
// with CUDA, gpu_none.cpp in one without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

struct CUstream_st;

namespace duet::gpu {

void* allocate(size_t bytes);                         // throws DeviceError
void release(void* memory) noexcept;                  // nullptr is fine
void copy(void* to, const void* from, size_t bytes);  // any direction, synchronous
void fill(void* memory, int byte, size_t bytes);
int64_t memory_in_use();  // bytes, by every process

/// What device/range.h does. `name` is copied.
void push_range(const char* name);
void pop_range();

/// 90 of compute capability 9.0. REQUIRES: gpu_available().
int compute_capability();
/// "0000:3b:00.0" of the GPU in use, or empty.
std::string pci_bus_id();

/// Events that measure time (cudaEvent_t). destroy_event(nullptr) is fine.
void* make_event();
void destroy_event(void* event) noexcept;
void record_event(void* event, CUstream_st* stream);
/// Waits for `end`. Both must have been recorded.
double seconds_between(void* begin, void* end);

/// What `trainer doctor` and run.json tell: {"CUDA runtime", "13.0 (compiled against 13.0)"}, ...
/// Loads the libraries to ask them. Works without a GPU.
std::vector<std::pair<std::string, std::string>> versions();

}  // namespace duet::gpu
