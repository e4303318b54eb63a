// add custom_vectorized: all inputs are read once and the sum is written once, 16 bytes at a time.
// Mapping:  thread = 4 elements (8 in bf16); block = 256; the last thread takes a tail one by one.
// Traffic:  count + 1 times x. More than 8 inputs: 8 in the first launch, 7 and the sum so far in
//           each that follows; in bf16, whose sums may not be rounded on the way, up to 64 at once.
// Limits:   fp32 or bf16, any size and layout; tensors start at multiples of 16 bytes, as every
//           arena's do.
#include <algorithm>

#include "device/check.h"
#include "kernels/vector.cuh"
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

template <int count, class T>
__global__ void add_vectorized_kernel(Inputs<T> inputs, int64_t elements, T* y) {
  constexpr int V = kWidest<T>;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (first + V <= elements) {
    Vector<Accumulator<T>, V> v[count];  // all loads before the first sum
#pragma unroll
    for (int k = 0; k < count; ++k) v[k] = load<V>(inputs.x[k] + first);
#pragma unroll
    for (int k = 1; k < count; ++k) {
#pragma unroll
      for (int i = 0; i < V; ++i) v[0].v[i] += v[k].v[i];
    }
    store(y + first, v[0]);
  } else {
    for (int64_t i = first; i < elements; ++i) {
      Accumulator<T> value = inputs.x[0][i];
      for (int k = 1; k < count; ++k) value += inputs.x[k][i];
      y[i] = T(value);
    }
  }
}

template <class T>
__global__ void add_many_kernel(const __grid_constant__ ManyInputs<T> inputs, int count,
                                int64_t elements, T* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  Accumulator<T> value = inputs.x[0][i];
  for (int k = 1; k < count; ++k) value += inputs.x[k][i];
  y[i] = T(value);
}

unsigned blocks_for(int64_t elements, int per_thread) {
  const int64_t per_block = int64_t{kThreads} * per_thread;
  return static_cast<unsigned>((elements + per_block - 1) / per_block);
}

template <class T>
class AddCustomVectorized : public AddImpl {
 public:
  using AddImpl::AddImpl;

  void sum(const Run& run, const std::vector<Tensor>& from, const Tensor& to) override {
    if constexpr (std::is_same_v<T, bfloat16>) {
      if (from.size() > kMostAtOnce) return sum_at_once(run, from, to);
    }
    for (size_t next = 0; next < from.size();) {
      Inputs<T> inputs;
      int count = 0;
      if (next > 0) inputs.x[count++] = to.data<T>();
      while (count < kMostAtOnce && next < from.size()) {
        inputs.x[count++] = from[next++].data<T>();
      }
      launch(run, count, inputs, to);
    }
  }

 private:
  template <int count = 2>
  static void launch(const Run& run, int wanted, const Inputs<T>& from, const Tensor& to) {
    if constexpr (count < kMostAtOnce) {
      if (wanted > count) return launch<count + 1>(run, wanted, from, to);
    }
    add_vectorized_kernel<count>
        <<<blocks_for(to.elements(), kWidest<T>), kThreads, 0, run.stream()>>>(from, to.elements(),
                                                                               to.data<T>());
    DUET_LAUNCHED();
  }
  static void sum_at_once(const Run& run, const std::vector<Tensor>& from, const Tensor& to) {
    ManyInputs<T> inputs{};
    std::transform(from.begin(), from.end(), inputs.x, [](const Tensor& x) { return x.data<T>(); });
    add_many_kernel<<<blocks_for(to.elements(), 1), kThreads, 0, run.stream()>>>(
        inputs, static_cast<int>(from.size()), to.elements(), to.data<T>());
    DUET_LAUNCHED();
  }
};

std::optional<std::string> unsupported(const AddProblem& problem, Pass) {
  if (problem.dtype == DType::kFloat32 || problem.inputs <= kMostInBf16) return {};
  return "sums up to " + std::to_string(kMostInBf16) + " inputs in bf16";
}

}  // namespace

ImplEntry<AddProblem> add_custom_vectorized() {
  return gpu_entry<AddCustomVectorized>("custom_vectorized", unsupported);
}

}  // namespace duet
