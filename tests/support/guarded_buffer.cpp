#include "support/guarded_buffer.h"

#include <cstring>
#include <stdexcept>

namespace duet {
namespace {

constexpr uint32_t kBefore = 0x10000, kAfter = 0x20000;

template <class T>
std::vector<std::byte> encode(const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <class T>
std::vector<double> decode(const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

}  // namespace

GuardedBuffer::GuardedBuffer(Device device, size_t bytes)
    : buffer_(device, bytes ? bytes + 2 * kGuardBytes : 0), bytes_(bytes) {
  if (bytes == 0) return;
  const auto before = guard(kBefore), after = guard(kAfter);
  copy_bytes(buffer_.data(), device, before.data(), Device::kCpu, kGuardBytes);
  copy_bytes(buffer_.at(kGuardBytes + bytes), device, after.data(), Device::kCpu, kGuardBytes);
  poison();
}

std::vector<std::byte> GuardedBuffer::guard(uint32_t salt) const {
  std::vector<std::byte> bytes(kGuardBytes);
  for (uint32_t i = 0; i < kGuardBytes / 4; ++i) {
    // A NaN as float, and as the high half of a double; no byte of it is 0, the likeliest value to
    // be written by mistake.
    const uint32_t word = 0x7FF80000u | salt | (i / 255 + 1) << 8 | (i % 255 + 1);
    std::memcpy(bytes.data() + 4 * i, &word, 4);
  }
  return bytes;
}

void GuardedBuffer::poison() { fill_bytes(data(), device(), 0xFF, bytes_); }

void GuardedBuffer::upload(const void* from) {
  copy_bytes(data(), device(), from, Device::kCpu, bytes_);
}

std::vector<std::byte> GuardedBuffer::download() const {
  std::vector<std::byte> bytes(bytes_);
  copy_bytes(bytes.data(), Device::kCpu, data(), device(), bytes_);
  return bytes;
}

std::optional<std::string> GuardedBuffer::damage() const {
  if (bytes_ == 0) return {};
  std::vector<std::byte> found(kGuardBytes);
  for (const bool after : {false, true}) {
    const auto expected = guard(after ? kAfter : kBefore);
    copy_bytes(found.data(), Device::kCpu, buffer_.at(after ? kGuardBytes + bytes_ : 0), device(),
               kGuardBytes);
    size_t changed = 0, nearest = 0;
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (found[i] == expected[i]) continue;
      if (changed == 0 || !after) nearest = after ? i : kGuardBytes - i;
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

void GuardedTensor::set(const std::vector<double>& values) {
  if (static_cast<int64_t>(values.size()) != desc_.elements()) {
    throw std::logic_error("GuardedTensor::set: wrong number of values");
  }
  const auto bytes = [&] {
    switch (desc_.dtype) {
      case DType::kFloat32:
        return encode<float>(values);
      case DType::kFloat64:
        return encode<double>(values);
      case DType::kInt32:
        return encode<int32_t>(values);
      case DType::kUInt8:
        return encode<uint8_t>(values);
      default:
        throw std::logic_error("GuardedTensor: no " + std::string(to_string(desc_.dtype)));
    }
  }();
  buffer_.upload(bytes.data());
}

std::vector<double> GuardedTensor::get() const {
  const auto bytes = buffer_.download();
  switch (desc_.dtype) {
    case DType::kFloat32:
      return decode<float>(bytes);
    case DType::kFloat64:
      return decode<double>(bytes);
    case DType::kInt32:
      return decode<int32_t>(bytes);
    case DType::kUInt8:
      return decode<uint8_t>(bytes);
    default:
      throw std::logic_error("GuardedTensor: no " + std::string(to_string(desc_.dtype)));
  }
}

}  // namespace duet
