#include "device/device.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "core/arena.h"
#include "device/gpu.h"

namespace duet {

std::string_view to_string(Device device) { return device == Device::kCpu ? "cpu" : "gpu"; }

Buffer::Buffer(Device device, size_t bytes) : device_(device), bytes_(bytes) {
  if (bytes == 0) return;
  if (device == Device::kGpu) {
    data_ = gpu::allocate(bytes);
  } else {
    data_ = std::aligned_alloc(kAlignment, align_up(bytes));
    if (!data_) throw std::bad_alloc();
  }
}

Buffer::~Buffer() {
  if (device_ == Device::kGpu) {
    gpu::release(data_);
  } else {
    std::free(data_);
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (bytes == 0) return;
  if (to_device == Device::kCpu && from_device == Device::kCpu) {
    std::memmove(to, from, bytes);
  } else {
    gpu::copy(to, from, bytes);
  }
}

void fill_bytes(void* memory, Device device, int byte, size_t bytes) {
  if (bytes == 0) return;
  if (device == Device::kCpu) {
    std::memset(memory, byte, bytes);
  } else {
    gpu::fill(memory, byte, bytes);
  }
}

}  // namespace duet
