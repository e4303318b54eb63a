// add custom_vectorized: all inputs are read once and the sum is written once, 16 bytes at a time,
// in add_relu as relu of it or, with y, as relu's gradient.
// Mapping:  thread = 4 elements (8 in bf16); block = 256; the last thread takes a tail one by one.
// Traffic:  count + 1 times x, one more for y. More than 8 inputs: 8 in the first launch, 7 and the
//           sum so far in each that follows; in bf16, whose sums may not be rounded on the way, up
//           to 64 at once.
// Limits:   fp32 or bf16, any size and layout; tensors start at multiples of 16 bytes, as every
//           arena's do.
#include <algorithm>

#include "device/check.h"
#include "device/launch.h"
#include "kernels/vector.cuh"
#include "layers/activation/activation.h"
#include "layers/add/add.h"

namespace duet {
namespace {

constexpr int kThreads = 256;
constexpr int kMostAtOnce = 8;
constexpr int kMostInBf16 = 64;

template <class T>
struct Inputs {
  const T* x[kMostAtOnce];
};
template <class T>
struct ManyInputs {
  const T* x[kMostInBf16];
};

// What becomes of a sum. `y` is read where relu's gradient is taken alone.
using Then = AddImpl::Then;
template <Then then, class T>
__device__ __forceinline__ Accumulator<T> after(Accumulator<T> sum, const T* y, int64_t i) {
  if constexpr (then == Then::kRelu) return ReluFunction{}.forward(sum);
  if constexpr (then == Then::kReluGradient) {
    const Accumulator<T> value = y[i];
    return sum * ReluFunction{}.gradient(value, value);
  }
  return sum;
}

template <int count, Then then, class T>
__global__ void add_vectorized_kernel(Inputs<T> inputs, int64_t elements, const T* y, T* to) {
  wait_for_primary();
  constexpr int V = kWidest<T>;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (first + V <= elements) {
    Vector<Accumulator<T>, V> v[count];  // all loads before the first sum
#pragma unroll
    for (int k = 0; k < count; ++k) v[k] = load<V>(inputs.x[k] + first);
    Vector<Accumulator<T>, V> gate;
    if constexpr (then == Then::kReluGradient) gate = load<V>(y + first);
#pragma unroll
    for (int k = 1; k < count; ++k) {
#pragma unroll
      for (int i = 0; i < V; ++i) v[0].v[i] += v[k].v[i];
    }
#pragma unroll
    for (int i = 0; i < V; ++i) v[0].v[i] = after<then>(v[0].v[i], gate.v, i);
    store(to + first, v[0]);
  } else {
    for (int64_t i = first; i < elements; ++i) {
      Accumulator<T> value = inputs.x[0][i];
      for (int k = 1; k < count; ++k) value += inputs.x[k][i];
      to[i] = T(after<then>(value, y, i));
    }
  }
}

template <Then then, class T>
__global__ void add_many_kernel(const __grid_constant__ ManyInputs<T> inputs, int count,
                                int64_t elements, const T* y, T* to) {
  wait_for_primary();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  Accumulator<T> value = inputs.x[0][i];
  for (int k = 1; k < count; ++k) value += inputs.x[k][i];
  to[i] = T(after<then>(value, y, i));
}

unsigned blocks_for(int64_t elements, int per_thread) {
  const int64_t per_block = int64_t{kThreads} * per_thread;
  return static_cast<unsigned>((elements + per_block - 1) / per_block);
}

template <Then then, class T, int count = 1>
void launch(int inputs, cudaStream_t stream, const Inputs<T>& from, int64_t elements, const T* y,
            T* to) {
  if constexpr (count < kMostAtOnce) {
    if (inputs > count) return launch<then, T, count + 1>(inputs, stream, from, elements, y, to);
  }
  launch_following({blocks_for(elements, kWidest<T>), kThreads, 0, stream},
                   add_vectorized_kernel<count, then, T>, from, elements, y, to);
}

/// Calls visit() with `then` as a type.
template <class Visit>
void visit_then(Then then, Visit&& visit) {
  if (then == Then::kRelu) return visit(std::integral_constant<Then, Then::kRelu>());
  if (then == Then::kReluGradient) {
    return visit(std::integral_constant<Then, Then::kReluGradient>());
  }
  visit(std::integral_constant<Then, Then::kNothing>());
}

class AddCustomVectorized : public AddImpl {
 public:
  using AddImpl::AddImpl;

  void sum(const Run& run, const std::vector<Tensor>& from, Then then, const Tensor& y,
           const Tensor& to) override {
    if (problem_.dtype == DType::kFloat32) return sum_by_parts<float>(run, from, then, y, to);
    if (from.size() <= kMostAtOnce) return sum_by_parts<bfloat16>(run, from, then, y, to);
    ManyInputs<bfloat16> inputs{};
    std::transform(from.begin(), from.end(), inputs.x,
                   [](const Tensor& x) { return x.data<bfloat16>(); });
    visit_then(then, [&](auto constant) {
      launch_following({blocks_for(to.elements(), 1), kThreads, 0, run.stream()},
                       add_many_kernel<constant(), bfloat16>, inputs, static_cast<int>(from.size()),
                       to.elements(), y.data<bfloat16>(), to.data<bfloat16>());
    });
  }

 private:
  template <class T>
  static void sum_by_parts(const Run& run, const std::vector<Tensor>& from, Then then,
                           const Tensor& y, const Tensor& to) {
    for (size_t next = 0; next < from.size();) {
      Inputs<T> inputs;
      int count = 0;
      if (next > 0) inputs.x[count++] = to.data<T>();
      while (count < kMostAtOnce && next < from.size()) {
        inputs.x[count++] = from[next++].data<T>();
      }
      visit_then(next == from.size() ? then : Then::kNothing, [&](auto constant) {
        launch<constant(), T>(count, run.stream(), inputs, to.elements(), y.data<T>(),
                              to.data<T>());
      });
    }
  }
};

std::optional<std::string> unsupported(const AddProblem& problem, Pass) {
  if (problem.dtype == DType::kFloat32 || problem.inputs <= kMostInBf16) return {};
  return "sums up to " + std::to_string(kMostInBf16) + " inputs in bf16";
}

}  // namespace

ImplEntry<AddProblem> add_custom_vectorized() {
  return impl_entry<AddCustomVectorized>("custom_vectorized", unsupported, gpu_dtypes());
}

}  // namespace duet
