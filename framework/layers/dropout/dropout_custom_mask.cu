// dropout custom_mask: forward stores the mask, a bit an element; backward only reads it.
// Mapping:  thread = 8 elements in memory order = 1 byte of mask.
// Traffic:  forward x once, y once, mask written (a bit an element); backward dy, mask once,
//           dx once.
// Limits:   fp32 or bf16, any size and layout; in nhwc forward draws a Philox block an element.
#include "device/check.h"
#include "kernels/vector.cuh"
#include "layers/dropout/dropout.h"

namespace duet {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 8;

// to[i] = from[i] * scale for the elements first .. first+7 whose bit is set, 0 for the others.
template <class T>
__device__ void apply8(unsigned kept, float scale, int64_t first, int64_t count, const T* from,
                       T* to) {
  if (first + kPerThread <= count) {
    constexpr int V = kWidest<T>;
#pragma unroll
    for (int i = 0; i < kPerThread; i += V) {
      auto values = load<V>(from + first + i);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        values.v[k] = kept & 1u << (i + k) ? values.v[k] * scale : 0.0f;
      }
      store(to + first + i, values);
    }
  } else {
    for (int64_t i = first; i < count; ++i) {
      to[i] = T(kept >> (i - first) & 1 ? from[i] * scale : 0.0f);
    }
  }
}

template <class T>
__global__ void dropout_forward_mask_kernel(DropoutMask mask, float scale, const uint64_t* step,
                                            int64_t count, const T* x, T* y, uint8_t* bits) {
  const int64_t byte = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = byte * kPerThread;
  if (first >= count) return;
  unsigned kept = 0;
  if (mask.channels_last) {
    for (int b = 0; b < kPerThread && first + b < count; ++b) {
      kept |= (mask.kept(*step, first + b) ? 1u : 0u) << b;
    }
  } else {
    kept = mask.kept4(*step, 2 * byte) | mask.kept4(*step, 2 * byte + 1) << 4;
  }
  bits[byte] = static_cast<uint8_t>(kept);
  apply8(kept, scale, first, count, x, y);
}

template <class T>
__global__ void dropout_backward_mask_kernel(float scale, int64_t count, const uint8_t* bits,
                                             const T* dy, T* dx) {
  const int64_t byte = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = byte * kPerThread;
  if (first < count) apply8(bits[byte], scale, first, count, dy, dx);
}

template <class T>
class DropoutCustomMask : public DropoutImpl {
 public:
  using DropoutImpl::DropoutImpl;

  size_t state_bytes() const override {
    return (problem_.x.elements() + kPerThread - 1) / kPerThread;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) override {
    if (!run.training) return run.context.queue_copy(y.memory, x.memory, x.bytes());
    dropout_forward_mask_kernel<<<blocks(), kThreads, 0, run.stream()>>>(
        mask_, scale_, run.step, x.elements(), x.data<T>(), y.data<T>(), state.data<uint8_t>());
    DUET_LAUNCHED();
  }

  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor& state,
                const Tensor& dx) override {
    if (!run.training) return run.context.queue_copy(dx.memory, dy.memory, dy.bytes());
    dropout_backward_mask_kernel<<<blocks(), kThreads, 0, run.stream()>>>(
        scale_, dy.elements(), state.data<uint8_t>(), dy.data<T>(), dx.data<T>());
    DUET_LAUNCHED();
  }

 private:
  unsigned blocks() const {
    return static_cast<unsigned>((state_bytes() + kThreads - 1) / kThreads);
  }
};

}  // namespace

ImplEntry<DropoutProblem> dropout_custom_mask() {
  return gpu_entry<DropoutCustomMask>("custom_mask");
}

}  // namespace duet
