// activation custom_vectorized: the elements of a 16-byte access a thread.
// Mapping:  thread = 4 elements (8 in bf16); block = 256; the last thread takes a tail one by one.
// Traffic:  as custom_scalar, in a quarter (an eighth) of the load and store instructions.
// Limits:   fp32 or bf16, any size and layout; tensors start at multiples of 16 bytes, as every
//           arena's do.
#include "device/check.h"
#include "device/launch.h"
#include "kernels/vector.cuh"
#include "layers/activation/activation.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

template <class T, class F>
__global__ void activation_forward_vectorized_kernel(F f, int64_t count, const T* x, T* y) {
  wait_for_primary();
  let_secondary_start();
  constexpr int V = kWidest<T>;
  const int64_t vector = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (vector * V + V <= count) {
    auto values = load<V>(x + vector * V);
#pragma unroll
    for (int k = 0; k < V; ++k) values.v[k] = f.forward(values.v[k]);
    store(y + vector * V, values);
  } else {
    for (int64_t i = vector * V; i < count; ++i) y[i] = T(f.forward(Accumulator<T>(x[i])));
  }
}

// Where f's gradient ignores x or y, the compiler drops that load.
template <class T, class F>
__global__ void activation_backward_vectorized_kernel(F f, int64_t count, const T* x, const T* y,
                                                      const T* dy, T* dx) {
  wait_for_primary();
  let_secondary_start();
  constexpr int V = kWidest<T>;
  const int64_t vector = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = vector * V;
  if (first + V <= count) {
    const auto a = load<V>(x + first), b = load<V>(y + first), d = load<V>(dy + first);
    Vector<Accumulator<T>, V> values;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      values.v[k] = d.v[k] * f.gradient(a.v[k], output_of<T>(f, a.v[k], T(b.v[k])));
    }
    store(dx + first, values);
  } else {
    for (int64_t i = first; i < count; ++i) {
      const Accumulator<T> value = x[i];
      dx[i] = T(dy[i] * f.gradient(value, output_of<T>(f, value, y[i])));
    }
  }
}

template <class T>
class ActivationCustomVectorized : public ActivationImpl {
 public:
  using ActivationImpl::ActivationImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    visit_activation(problem_, [&](auto f) {
      launch_following({blocks(x), kThreads, 0, run.stream()},
                       activation_forward_vectorized_kernel<T, decltype(f)>, f, x.elements(),
                       x.data<T>(), y.data<T>());
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    visit_activation(problem_, [&](auto f) {
      launch_following({blocks(x), kThreads, 0, run.stream()},
                       activation_backward_vectorized_kernel<T, decltype(f)>, f, x.elements(),
                       x.data<T>(), y.data<T>(), dy.data<T>(), dx.data<T>());
    });
  }

 private:
  static unsigned blocks(const Tensor& x) {
    constexpr int kPerBlock = kThreads * kWidest<T>;
    return static_cast<unsigned>((x.elements() + kPerBlock - 1) / kPerBlock);
  }
};

}  // namespace

ImplEntry<ActivationProblem> activation_custom_vectorized() {
  return gpu_entry<ActivationCustomVectorized>("custom_vectorized");
}

}  // namespace duet
