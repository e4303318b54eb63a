// update_parameters: the CPU's loop, and the way to the GPU's kernel.
#include "core/error.h"
#include "optim/rules.h"

namespace duet {

template <class Rule>
void update_parameters(Context& context, const Rule& rule, const OptimizerTensors& tensors,
                       const StepState* state, const float* loss) {
  if (context.device() == Device::kGpu) {
#if DUET_WITH_CUDA
    update_parameters_gpu(context, rule, tensors, state, loss);
#endif
    return;
  }
  if (!std::isfinite(*loss)) return;
  const auto factors = rule.factors(state->learning_rate, state->step + 1);
  const int64_t count = tensors.w.elements();
  float* w = tensors.w.data<float>();
  const float* dw = tensors.dw.data<float>();
  float* s0 = rule.states() > 0 ? tensors.state[0].data<float>() : nullptr;
  float* s1 = rule.states() > 1 ? tensors.state[1].data<float>() : nullptr;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    float s[2] = {s0 ? s0[i] : 0.0f, s1 ? s1[i] : 0.0f};
    rule.apply(factors, dw[i], w[i], s);
    if (s0) s0[i] = s[0];
    if (s1) s1[i] = s[1];
  }
}

template void update_parameters(Context&, const SgdRule&, const OptimizerTensors&, const StepState*,
                                const float*);
template void update_parameters(Context&, const AdamRule&, const OptimizerTensors&,
                                const StepState*, const float*);

}  // namespace duet
