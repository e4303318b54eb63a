#include "measure/check/compare_memory.h"

#include <cstring>

#include "measure/examine/repeat_work.h"

namespace duet {

bool same_bytes(const void* a, const void* b, size_t bytes, Context& context) {
  if (bytes == 0) return true;
  if (context.device() == Device::kCpu) return std::memcmp(a, b, bytes) == 0;
  const Buffer count(Device::kGpu, sizeof(uint64_t));
  auto* different = static_cast<uint64_t*>(count.data());
  context.queue_fill(different, 0, count.bytes());
  queue_count_differences(context, a, b, bytes, different);
  uint64_t result = 0;
  copy_bytes(&result, Device::kCpu, different, Device::kGpu, sizeof result);
  return result == 0;
}

bool all_bytes(const void* memory, std::byte byte, size_t bytes, Context& context) {
  constexpr size_t kWord = 4;
  for (std::byte first : download(memory, context.device(), std::min(bytes, kWord))) {
    if (first != byte) return false;
  }
  // Every word is the one before.
  return bytes <= kWord ||
         same_bytes(memory, static_cast<const char*>(memory) + kWord, bytes - kWord, context);
}

}  // namespace duet
