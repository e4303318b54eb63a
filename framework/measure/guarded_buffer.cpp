#include "measure/guarded_buffer.h"

#include <cstring>
#include <stdexcept>

#include "core/parallel.h"
#include "core/storage.h"

namespace duet {
namespace {

constexpr uint32_t kBefore = 0, kAfter = 0x80000000;  // the sign of a word

// The widest band; every band is the beginning of one.
std::vector<std::byte> make_band(uint32_t salt) {
  std::vector<std::byte> bytes(GuardedBuffer::kWideGuardBytes);
  for (uint32_t i = 0; i < bytes.size() / 4; ++i) {
    // A NaN as float, as the high half of a double, and each half of it as bfloat16; no byte of it
    // is 0, the likeliest value to be written by mistake, and none of it is all poison.
    constexpr uint32_t kLow = 253, kHigh = 15;
    const uint32_t low = i % kLow, high = i / kLow % kHigh;
    const uint32_t word = 0x7FF07F80u | salt | high << 16 | (low / 127) << 15 | (low % 127 + 1);
    std::memcpy(bytes.data() + 4 * i, &word, 4);
  }
  return bytes;
}

const std::vector<std::byte>& band(bool after) {
  static const std::vector<std::byte> bands[] = {make_band(kBefore), make_band(kAfter)};
  return bands[after];
}

}  // namespace

GuardedBuffer::GuardedBuffer(Device device, size_t bytes, size_t guard_bytes)
    : buffer_(device, bytes + 2 * guard_bytes), bytes_(bytes), guard_bytes_(guard_bytes) {
  copy_bytes(buffer_.data(), device, band(false).data(), Device::kCpu, guard_bytes);
  copy_bytes(buffer_.at(guard_bytes + bytes), device, band(true).data(), Device::kCpu, guard_bytes);
  poison();
}

void GuardedBuffer::poison() { fill_bytes(data(), device(), kPoison, bytes_); }

void GuardedBuffer::upload(const void* from) {
  copy_bytes(data(), device(), from, Device::kCpu, bytes_);
}

std::vector<std::byte> GuardedBuffer::download() const {
  return duet::download(data(), device(), bytes_);
}

std::optional<std::string> GuardedBuffer::damage() const {
  if (guard_bytes_ == 0) return {};
  for (const bool after : {false, true}) {
    const std::vector<std::byte>& expected = band(after);
    const std::vector<std::byte> found =
        duet::download(buffer_.at(after ? guard_bytes_ + bytes_ : 0), device(), guard_bytes_);
    if (std::memcmp(found.data(), expected.data(), guard_bytes_) == 0) continue;
    size_t changed = 0, nearest = 0;
    for (size_t i = 0; i < guard_bytes_; ++i) {
      if (found[i] == expected[i]) continue;
      if (changed == 0 || !after) nearest = after ? i : guard_bytes_ - i;
      ++changed;
    }
    if (changed) {
      return std::to_string(changed) + " bytes written " +
             (after ? "after the end, the first " + std::to_string(nearest) + " bytes past it"
                    : "before the start, the nearest " + std::to_string(nearest) +
                          " bytes before it");
    }
  }
  return {};
}

namespace {

void check_count(const TensorDesc& desc, const std::vector<double>& values) {
  if (static_cast<int64_t>(values.size()) == desc.elements()) return;
  throw std::logic_error(std::to_string(values.size()) + " values for " + desc.to_string());
}

void encode_to(void* to, const TensorDesc& desc, const std::vector<double>& values) {
  check_count(desc, values);
  visit_values(desc.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* out = static_cast<T*>(to);
    parallel_ranges(desc.elements(), 2, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) out[i] = static_cast<T>(values[i]);
    });
  });
}

}  // namespace

std::vector<std::byte> encode(const TensorDesc& desc, const std::vector<double>& values) {
  std::vector<std::byte> bytes(desc.bytes());
  encode_to(bytes.data(), desc, values);
  return bytes;
}

std::vector<double> decode(const TensorDesc& desc, const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / size_of(desc.dtype));
  visit_values(desc.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* in = reinterpret_cast<const T*>(bytes.data());
    parallel_ranges(static_cast<int64_t>(values.size()), 2, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) values[i] = static_cast<double>(in[i]);
    });
  });
  return values;
}

Buffer stored(const TensorDesc& desc, const std::vector<double>& values, Device device) {
  Buffer buffer(device, desc.bytes());
  if (device == Device::kCpu) {
    encode_to(buffer.data(), desc, values);
  } else if (desc.dtype == DType::kFloat64) {
    check_count(desc, values);
    copy_bytes(buffer.data(), device, values.data(), Device::kCpu, buffer.bytes());
  } else {
    copy_bytes(buffer.data(), device, encode(desc, values).data(), Device::kCpu, buffer.bytes());
  }
  return buffer;
}

void GuardedTensor::set(const std::vector<double>& values) {
  buffer_.upload(encode(desc_, values).data());
}

std::vector<double> values_of(const Tensor& tensor, Device device) {
  if (tensor.desc.dtype != DType::kFloat64) {
    return decode(tensor.desc, download(tensor.memory, device, tensor.bytes()));
  }
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  copy_bytes(values.data(), Device::kCpu, tensor.memory, device, tensor.bytes());
  return values;
}

std::vector<double> GuardedTensor::get() const { return values_of(view(), buffer_.device()); }

}  // namespace duet
