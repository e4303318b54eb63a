// update: one optimizer step over all parameters in one kernel.
// Mapping:  thread = 4 consecutive values (one 16-byte access a tensor); block = 256 threads.
// Traffic:  w and each state read and written once, dw read once.
// Limits:   fp32; the flat buffers are multiples of 256 bytes, so there is no tail.
#include "device/check.h"
#include "optim/rules.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

template <class Rule, int kStates>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Rule rule, int64_t quads, float4* __restrict__ w, const float4* __restrict__ dw,
                  float4* __restrict__ s0, float4* __restrict__ s1, const StepState* state,
                  const float* loss) {
  // pow() in double is slow: one thread a block computes the factors while the others load.
  __shared__ typename Rule::Factors shared_factors;
  if (threadIdx.x == 0) {
    shared_factors = rule.factors(state->learning_rate, state->step + 1);
  }
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  float4 value{}, gradient{}, a{}, b{};
  if (i < quads) {
    value = w[i];
    gradient = dw[i];
    if (kStates > 0) a = s0[i];
    if (kStates > 1) b = s1[i];
  }
  const bool finite = isfinite(*loss);
  __syncthreads();
  if (i >= quads || !finite) return;
  const typename Rule::Factors factors = shared_factors;
  const auto apply = [&](float g, float& v, float& p, float& q) {
    float s[2] = {p, q};
    rule.apply(factors, g, v, s);
    p = s[0];
    q = s[1];
  };
  apply(gradient.x, value.x, a.x, b.x);
  apply(gradient.y, value.y, a.y, b.y);
  apply(gradient.z, value.z, a.z, b.z);
  apply(gradient.w, value.w, a.w, b.w);
  w[i] = value;
  if (kStates > 0) s0[i] = a;
  if (kStates > 1) s1[i] = b;
}

template <class Rule, int kStates>
void launch(Context& context, const Rule& rule, const OptimizerTensors& t, const StepState* state,
            const float* loss) {
  const int64_t quads = t.w.elements() / 4;
  if (quads == 0) return;
  const auto blocks = static_cast<unsigned>((quads + kThreads - 1) / kThreads);
  const auto quad = [](const Tensor& tensor) { return tensor.data<float4>(); };
  update_kernel<Rule, kStates><<<blocks, kThreads, 0, context.stream()>>>(
      rule, quads, quad(t.w), quad(t.dw), kStates > 0 ? quad(t.state[0]) : nullptr,
      kStates > 1 ? quad(t.state[1]) : nullptr, state, loss);
  DUET_LAUNCHED();
}

}  // namespace

template <class Rule>
void update_parameters_gpu(Context& context, const Rule& rule, const OptimizerTensors& tensors,
                           const StepState* state, const float* loss) {
  switch (rule.states()) {
    case 0:
      return launch<Rule, 0>(context, rule, tensors, state, loss);
    case 1:
      return launch<Rule, 1>(context, rule, tensors, state, loss);
    default:
      return launch<Rule, 2>(context, rule, tensors, state, loss);
  }
}

template void update_parameters_gpu(Context&, const SgdRule&, const OptimizerTensors&,
                                    const StepState*, const float*);
template void update_parameters_gpu(Context&, const AdamRule&, const OptimizerTensors&,
                                    const StepState*, const float*);

}  // namespace duet
