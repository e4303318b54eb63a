// The two kinds of memory and processor, and what this build and this machine have of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace duet {

enum class Device { kCpu, kGpu };
/// "cpu", "gpu"
std::string_view to_string(Device device);

/// True if Duet was built with CUDA.
bool built_with_cuda();
/// True if a GPU can be used now.
bool gpu_available();
/// Why gpu_available() is false and what to do about it, "... or use " + `instead`; empty if it is
/// true.
std::string gpu_missing_reason(std::string_view instead = "'--backend cpu'");
/// "NVIDIA H200"; empty without a GPU.
std::string gpu_name();
/// Bytes of the GPU's memory; 0 without a GPU.
size_t gpu_memory();
/// Bytes of the host's memory that this process may have: the machine's, or what its control groups
/// leave of it (device/host_memory.h).
size_t host_memory();

/// Uninitialised memory of one device, aligned to kAlignment, freed on destruction. Move-only.
/// Throws OutOfMemoryError if the host's buffers together would take more than host_memory(), if a
/// large one of them would take more than is free now (available_memory), or if the GPU has not
/// enough.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  /// REQUIRES: offset <= bytes().
  void* at(size_t offset) const { return static_cast<char*>(data_) + offset; }

 private:
  Device device_ = Device::kCpu;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Copies and fills, complete on return (work already queued on the device is waited for); not for
/// use inside a step.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes);
void fill_bytes(void* memory, Device device, int byte, size_t bytes);
std::vector<std::byte> download(const void* memory, Device device, size_t bytes);

}  // namespace duet
