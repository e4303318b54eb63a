#include "measure/repeat_work.h"

#include <cstring>

#include "core/parallel.h"

namespace duet {
namespace {

void write_variant(const Tensor& to, const void* from, const uint64_t* number) {
  const auto count = static_cast<uint64_t>(to.elements());
  const Variant variant(*number, count);
  const uint64_t left = count - variant.shift;  // before the values wrap around
  if (to.desc.dtype != DType::kFloat32) {
    const auto* values = static_cast<const int32_t*>(from);
    std::memcpy(to.memory, values + variant.shift, left * 4);
    std::memcpy(static_cast<int32_t*>(to.memory) + left, values, variant.shift * 4);
    return;
  }
  const auto* values = static_cast<const float*>(from);
  auto* out = to.data<float>();
  const auto scale = [&](float* out, const float* in, uint64_t n) {
    parallel_ranges(static_cast<int64_t>(n), 2, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) out[i] = in[i] * variant.factor;
    });
  };
  scale(out, values + variant.shift, left);
  scale(out + left, values, variant.shift);
}

void count_differences(const void* a, const void* b, size_t bytes, uint64_t* count) {
  if (std::memcmp(a, b, bytes) == 0) return;
  const auto *p = static_cast<const uint32_t*>(a), *q = static_cast<const uint32_t*>(b);
  for (size_t i = 0; i < bytes / 4; ++i) *count += p[i] != q[i];
}

}  // namespace

#if DUET_WITH_CUDA
#define DUET_ON_GPU(call) \
  if (context.device() == Device::kGpu) return gpu::call
#else
#define DUET_ON_GPU(call) (void)context
#endif

void queue_variant(Context& context, const Tensor& to, const void* from, const uint64_t* number) {
  DUET_ON_GPU(queue_variant(context, to, from, number));
  write_variant(to, from, number);
}

void queue_step(Context& context, uint64_t* to, uint64_t from, const uint64_t* number) {
  DUET_ON_GPU(queue_step(context, to, from, number));
  *to = from + *number;
}

void queue_advance(Context& context, uint64_t* number, uint64_t by) {
  DUET_ON_GPU(queue_advance(context, number, by));
  *number += by;
}

void queue_count_differences(Context& context, const void* a, const void* b, size_t bytes,
                             uint64_t* count) {
  DUET_ON_GPU(queue_count_differences(context, a, b, bytes, count));
  count_differences(a, b, bytes, count);
}

void queue_fill_shared_memory(Context& context) { DUET_ON_GPU(queue_fill_shared_memory(context)); }

#undef DUET_ON_GPU

}  // namespace duet
