// Memory whose surroundings are watched. On both sides of the data lie bands of NaNs, a different
// one in every word, so that a read outside the data poisons the result and a write outside it,
// even of a NaN copied from the other band, is found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "device/device.h"

namespace duet {

class GuardedBuffer {
 public:
  static constexpr size_t kGuardBytes = 1024;  // a multiple of kAlignment

  GuardedBuffer() = default;
  /// Exactly `bytes` of data, aligned to kAlignment, poisoned.
  GuardedBuffer(Device device, size_t bytes);

  /// Falsy for 0 bytes: an implementation that asked for nothing gets nothing.
  void* data() const { return bytes_ ? buffer_.at(kGuardBytes) : nullptr; }
  size_t bytes() const { return bytes_; }
  Device device() const { return buffer_.device(); }

  /// Fills the data with 0xFF bytes: NaN in every floating-point type, -1 in the integers.
  void poison();
  void upload(const void* from);
  std::vector<std::byte> download() const;
  /// What was overwritten, if anything was: "3 bytes after the end, first at +0".
  std::optional<std::string> damage() const;

 private:
  std::vector<std::byte> guard(uint32_t salt) const;

  Buffer buffer_;
  size_t bytes_ = 0;
};

/// A tensor in a GuardedBuffer. Values travel as doubles, which hold every value of float32,
/// float64, int32 and uint8 exactly.
class GuardedTensor {
 public:
  GuardedTensor() = default;
  GuardedTensor(Device device, const TensorDesc& desc)
      : buffer_(device, desc.bytes()), desc_(desc) {}

  Tensor view() const { return {desc_, buffer_.data()}; }
  const TensorDesc& desc() const { return desc_; }
  GuardedBuffer& buffer() { return buffer_; }
  const GuardedBuffer& buffer() const { return buffer_; }
  /// REQUIRES: values.size() == desc().elements().
  void set(const std::vector<double>& values);
  std::vector<double> get() const;

 private:
  GuardedBuffer buffer_;
  TensorDesc desc_;
};

}  // namespace duet
