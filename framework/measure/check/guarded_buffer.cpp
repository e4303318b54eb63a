#include "measure/check/guarded_buffer.h"

#include <cstring>
#include <stdexcept>

#include "core/parallel.h"
#include "core/storage.h"

namespace duet {
namespace {

using Band = GuardedBuffer::Band;

// The sign of the words before and behind the data.
constexpr uint32_t kBefore = 0, kAfter = 0x80000000;

// Of bands of NaNs. A NaN as float, as the high half of a double, and each half of it as bfloat16.
uint32_t nan_word(uint32_t i, bool after) {
  constexpr uint32_t kLow = 253, kHigh = 15;
  const uint32_t low = i % kLow, high = i / kLow % kHigh;
  return 0x7FF07F80u | (after ? kAfter : kBefore) | high << 16 | (low / 127) << 15 |
         (low % 127 + 1);
}

// 1e38 and more as float and in both halves as bfloat16, and 1e304 as double. The word that is
// nearest to the data is positive.
uint32_t large_word(uint32_t i, bool after) {
  const uint32_t low = i % 127 + 1, high = i / 127 % 127 + 1;
  const bool negative = i % 2 == (after ? 1 : 0);
  return 0x7E007E00u | (negative ? 0x80000000u : 0) | high << 16 | low;
}

// The widest band; every band is the beginning of one. No byte of it is 0, the likeliest value to be
// written by mistake, and no word is all poison.
std::vector<std::byte> make_band(uint32_t (*word_at)(uint32_t, bool), bool after) {
  std::vector<std::byte> bytes(GuardedBuffer::kWideGuardBytes);
  for (uint32_t i = 0; i < bytes.size() / 4; ++i) {
    const uint32_t word = word_at(i, after);
    std::memcpy(bytes.data() + 4 * i, &word, 4);
  }
  return bytes;
}

const std::vector<std::byte>& band_of(Band band, bool after) {
  static const std::vector<std::byte> bands[][2] = {
      {make_band(nan_word, false), make_band(nan_word, true)},
      {make_band(large_word, false), make_band(large_word, true)}};
  return bands[band == Band::kLarge][after];
}

}  // namespace

GuardedBuffer::GuardedBuffer(Device device, size_t bytes, const Guards& guards) : bytes_(bytes) {
  if (guards.fence && device == Device::kCpu) {
    fenced_ = std::make_unique<FencedMemory>(bytes, *guards.fence);
  } else {
    guard_bytes_ = guards.bytes;
    buffer_ = Buffer(device, bytes + 2 * guard_bytes_);
    surround(Band::kNaN);
  }
  poison();
}

void GuardedBuffer::surround(Band band) {
  band_ = band;
  if (guard_bytes_ == 0) return;
  for (const bool after : {false, true}) {
    copy_bytes(buffer_.at(after ? guard_bytes_ + bytes_ : 0), device(), band_of(band, after).data(),
               Device::kCpu, guard_bytes_);
  }
}

void GuardedBuffer::poison() { fill_bytes(data(), device(), kPoison, bytes_); }

void GuardedBuffer::upload(const void* from) {
  copy_bytes(data(), device(), from, Device::kCpu, bytes_);
}

std::vector<std::byte> GuardedBuffer::download() const {
  return duet::download(data(), device(), bytes_);
}

std::optional<std::string> GuardedBuffer::damage() const {
  if (fenced_) {
    const std::string touched = fenced_->touched();
    return touched.empty() ? std::optional<std::string>() : touched;
  }
  if (guard_bytes_ == 0) return {};
  for (const bool after : {false, true}) {
    const std::vector<std::byte>& expected = band_of(band_, after);
    const void* there = buffer_.at(after ? guard_bytes_ + bytes_ : 0);
    std::vector<std::byte> copy;
    if (device() == Device::kGpu) {
      copy = duet::download(there, device(), guard_bytes_);
      there = copy.data();
    }
    if (std::memcmp(there, expected.data(), guard_bytes_) == 0) continue;
    const auto* found = static_cast<const std::byte*>(there);
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
