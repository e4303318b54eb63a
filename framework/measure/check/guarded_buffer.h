// Memory whose surroundings are watched. On both sides of the data lie bands of NaNs in every
// floating-point type, another one in every word of some 15 KB, so that a read outside the data
// poisons the result and a write outside it, even of a NaN copied from the other band, is found. A
// largest or smallest value passes over a NaN: bands of large finite numbers show such a read. What
// only reads, or puts back what it wrote, is shown by protected pages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "device/device.h"
#include "measure/check/fenced_memory.h"

namespace duet {

/// The byte that outputs are filled with before a run: NaN in every floating-point type, -1 in the
/// integers.
inline constexpr int kPoison = 0xFF;

/// What surrounds a buffer.
struct Guards {
  size_t bytes = size_t{1} << 10;  // of a band: a multiple of kAlignment, at most 256 KiB
  std::optional<Side> fence = {};  // on the CPU: protected pages there, and no bands
};

class GuardedBuffer {
 public:
  static constexpr size_t kGuardBytes = Guards{}.bytes;
  /// For what an index that is far off writes: whole rows or images beyond the end.
  static constexpr size_t kWideGuardBytes = size_t{256} << 10;
  enum class Band {
    kNaN,
    kLarge,  // finite numbers near the largest of every floating-point type, of both signs
  };

  GuardedBuffer() = default;
  /// Exactly `bytes` of data, aligned to kAlignment, poisoned.
  GuardedBuffer(Device device, size_t bytes, const Guards& guards = {});

  /// Falsy for 0 bytes: an implementation that asked for nothing gets nothing.
  void* data() const { return bytes_ ? address() : nullptr; }
  /// Where the data starts, or would start if there were any: the first byte after the front band.
  void* address() const {
    if (fenced_) return fenced_->data();
    return buffer_.data() ? buffer_.at(guard_bytes_) : nullptr;
  }
  size_t bytes() const { return bytes_; }
  Device device() const { return buffer_.device(); }

  /// Fills the data with kPoison.
  void poison();
  /// Fills the bands, of NaNs so far. Does nothing to protected pages.
  void surround(Band band);
  void upload(const void* from);
  std::vector<std::byte> download() const;
  /// What was overwritten, if anything was: "3 bytes after the end, first at +0".
  std::optional<std::string> damage() const;

 private:
  Buffer buffer_;  // with the bands
  std::unique_ptr<FencedMemory> fenced_;
  size_t bytes_ = 0;
  size_t guard_bytes_ = 0;
  Band band_ = Band::kNaN;
};

inline constexpr Guards kWideGuards = {.bytes = GuardedBuffer::kWideGuardBytes};

/// `values` as they lie in memory, and back; any type but float16.
/// REQUIRES: values.size() == desc.elements().
std::vector<std::byte> encode(const TensorDesc& desc, const std::vector<double>& values);
std::vector<double> decode(const TensorDesc& desc, const std::vector<std::byte>& bytes);
/// The bytes of `values` in memory of `device`.
Buffer stored(const TensorDesc& desc, const std::vector<double>& values, Device device);
/// What a tensor on `device` holds, in memory order. Synchronous.
std::vector<double> values_of(const Tensor& tensor, Device device);

/// A tensor in a GuardedBuffer. Values travel as doubles, which hold every value of the
/// types exactly.
class GuardedTensor {
 public:
  GuardedTensor() = default;
  GuardedTensor(Device device, const TensorDesc& desc, const Guards& guards = {})
      : buffer_(device, desc.bytes(), guards), desc_(desc) {}

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
