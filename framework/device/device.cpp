#include "device/device.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "core/arena.h"
#include "core/error.h"
#include "device/fresh_memory.h"
#include "device/gpu.h"
#include "device/host_memory.h"

namespace duet {

namespace {

// Host memory in use by all buffers. Linux promises more than there is and then ends the process
// that comes to need it; so what can never fit, or does not fit now, is refused here.
std::atomic<size_t> host_bytes = 0;
constexpr size_t kLooksAtFree = 64 << 20;  // bytes of a buffer; to look reads files

std::atomic<bool> fills_fresh_memory = false;

void* allocate_on_host(size_t bytes) {
  const auto refuse = [&](size_t needed, size_t there, const char* what) {
    host_bytes -= bytes;
    throw OutOfMemoryError("out of memory: this needs more than " + std::to_string(needed >> 20) +
                           " MiB, and this " + what + " " + std::to_string(there >> 20) +
                           " MiB; choose a smaller batch or smaller layers");
  };
  const size_t total = host_bytes += bytes;
  if (total > host_memory()) refuse(total, host_memory(), "process may have");
  if (bytes >= kLooksAtFree) {
    const size_t available = available_memory().value_or(bytes);
    if (bytes > available) refuse(bytes, available, "machine now has free");
  }
  void* data = std::aligned_alloc(kAlignment, align_up(bytes));
  if (!data) refuse(total, host_memory(), "process may have");
  return data;
}

}  // namespace

std::string_view to_string(Device device) { return device == Device::kCpu ? "cpu" : "gpu"; }

Buffer::Buffer(Device device, size_t bytes) : device_(device), bytes_(bytes) {
  if (bytes == 0) return;
  if (device == Device::kGpu) {
    data_ = gpu::allocate(bytes);
    if (fills_fresh_memory) gpu::fill(data_, 0xFF, bytes);
  } else {
    data_ = allocate_on_host(bytes);
  }
}

Buffer::~Buffer() {
  if (device_ == Device::kGpu) {
    gpu::release(data_);
  } else if (data_) {
    host_bytes -= bytes_;
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

FilledFreshMemory::FilledFreshMemory() {
  fills_fresh_memory = true;
  mallopt(M_PERTURB, 0x80);  // what is allocated gets the complement
}

FilledFreshMemory::~FilledFreshMemory() {
  fills_fresh_memory = false;
  mallopt(M_PERTURB, 0);
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

std::vector<std::byte> download(const void* memory, Device device, size_t bytes) {
  std::vector<std::byte> copy(bytes);
  copy_bytes(copy.data(), Device::kCpu, memory, device, bytes);
  return copy;
}

}  // namespace duet
