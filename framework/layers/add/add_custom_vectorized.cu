// add custom_vectorized: all inputs are read once and the sum is written once, 16 bytes at a time.
// Mapping:  thread = 4 elements; block = 256; the last thread takes a tail of 1 to 3 one by one.
// Traffic:  count + 1 times x. More than 8 inputs: 8 in the first launch, 7 and the sum so far in
//           each that follows.
// Limits:   fp32, any size and layout; tensors start at multiples of 16 bytes, as every arena's do.
#include "device/check.h"
#include "layers/add/add_impls.h"

namespace duet {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;
constexpr int kMostAtOnce = 8;

struct Inputs {
  const float* x[kMostAtOnce];
};

template <int count>
__global__ void add_vectorized_kernel(Inputs inputs, int64_t elements, float* y) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kPerThread;
  if (first + kPerThread <= elements) {
    float4 v[count];  // all loads before the first sum
#pragma unroll
    for (int k = 0; k < count; ++k) v[k] = *reinterpret_cast<const float4*>(inputs.x[k] + first);
#pragma unroll
    for (int k = 1; k < count; ++k) {
      v[0].x += v[k].x;
      v[0].y += v[k].y;
      v[0].z += v[k].z;
      v[0].w += v[k].w;
    }
    *reinterpret_cast<float4*>(y + first) = v[0];
  } else {
    for (int64_t i = first; i < elements; ++i) {
      float value = inputs.x[0][i];
      for (int k = 1; k < count; ++k) value += inputs.x[k][i];
      y[i] = value;
    }
  }
}

template <int count = 2>
void launch(int inputs, cudaStream_t stream, const Inputs& from, int64_t elements, float* to) {
  if constexpr (count < kMostAtOnce) {
    if (inputs > count) return launch<count + 1>(inputs, stream, from, elements, to);
  }
  constexpr int64_t kPerBlock = kThreads * kPerThread;
  const auto blocks = static_cast<unsigned>((elements + kPerBlock - 1) / kPerBlock);
  add_vectorized_kernel<count><<<blocks, kThreads, 0, stream>>>(from, elements, to);
  DUET_LAUNCHED();
}

class AddCustomVectorized : public AddImpl {
 public:
  using AddImpl::AddImpl;

  void sum(const Run& run, const std::vector<Tensor>& from, const Tensor& to) override {
    for (size_t next = 0; next < from.size();) {
      Inputs inputs;
      int count = 0;
      if (next > 0) inputs.x[count++] = to.data<float>();
      while (count < kMostAtOnce && next < from.size()) {
        inputs.x[count++] = from[next++].data<float>();
      }
      launch(count, run.stream(), inputs, to.elements(), to.data<float>());
    }
  }
};

}  // namespace

ImplEntry<AddProblem> add_custom_vectorized() {
  return {"custom_vectorized", supports_all, make_implementation<AddCustomVectorized>};
}

}  // namespace duet
