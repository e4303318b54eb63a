// activation custom_vectorized: four elements a thread in one 16-byte access.
// Mapping:  thread = 4 elements; block = 256; the last thread takes a tail of 1 to 3 one by one.
// Traffic:  as custom_scalar, in a quarter of the load and store instructions.
// Limits:   fp32, any size and layout; tensors start at multiples of 16 bytes, as every arena's do.
#include "device/check.h"
#include "layers/activation/activation.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float4 load4(const float* from, int64_t quad) {
  return reinterpret_cast<const float4*>(from)[quad];
}
__device__ __forceinline__ void store4(float* to, int64_t quad, float4 value) {
  reinterpret_cast<float4*>(to)[quad] = value;
}

template <class F>
__global__ void activation_forward_vectorized_kernel(F f, int64_t count, const float* x, float* y) {
  const int64_t quad = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (quad * 4 + 4 <= count) {
    const float4 v = load4(x, quad);
    store4(y, quad, {f.forward(v.x), f.forward(v.y), f.forward(v.z), f.forward(v.w)});
  } else {
    for (int64_t i = quad * 4; i < count; ++i) y[i] = f.forward(x[i]);
  }
}

// Where f's gradient ignores x or y, the compiler drops that load.
template <class F>
__global__ void activation_backward_vectorized_kernel(F f, int64_t count, const float* x,
                                                      const float* y, const float* dy, float* dx) {
  const int64_t quad = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (quad * 4 + 4 <= count) {
    const float4 a = load4(x, quad), b = load4(y, quad), d = load4(dy, quad);
    store4(dx, quad,
           {d.x * f.gradient(a.x, b.x), d.y * f.gradient(a.y, b.y), d.z * f.gradient(a.z, b.z),
            d.w * f.gradient(a.w, b.w)});
  } else {
    for (int64_t i = quad * 4; i < count; ++i) dx[i] = dy[i] * f.gradient(x[i], y[i]);
  }
}

class ActivationCustomVectorized : public ActivationImpl {
 public:
  using ActivationImpl::ActivationImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y) override {
    visit_activation(problem_, [&](auto f) {
      activation_forward_vectorized_kernel<<<blocks(x), kThreads, 0, run.stream()>>>(
          f, x.elements(), x.data<float>(), y.data<float>());
      DUET_LAUNCHED();
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override {
    visit_activation(problem_, [&](auto f) {
      activation_backward_vectorized_kernel<<<blocks(x), kThreads, 0, run.stream()>>>(
          f, x.elements(), x.data<float>(), y.data<float>(), dy.data<float>(), dx.data<float>());
      DUET_LAUNCHED();
    });
  }

 private:
  static unsigned blocks(const Tensor& x) {
    constexpr int kPerBlock = kThreads * 4;
    return static_cast<unsigned>((x.elements() + kPerBlock - 1) / kPerBlock);
  }
};

}  // namespace

ImplEntry<ActivationProblem> activation_custom_vectorized() {
  return {"custom_vectorized", supports_all, make_implementation<ActivationCustomVectorized>};
}

}  // namespace duet
