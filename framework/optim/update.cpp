// update_parameters: the CPU's loop, and the way to the GPU's kernel.
#include "core/error.h"
#include "core/parallel.h"
#include "optim/rules.h"

namespace duet {

namespace {

// The number of states is known to the compiler and nothing can change the factors: so the loop
// becomes vector code.
template <int kStates, class Rule>
void update_range(Rule rule, typename Rule::Factors factors, int64_t count, float* w,
                  const float* dw, float* s0, float* s1) {
  for (int64_t i = 0; i < count; ++i) {
    float s[2] = {};
    if constexpr (kStates > 0) s[0] = s0[i];
    if constexpr (kStates > 1) s[1] = s1[i];
    rule.apply(factors, dw[i], w[i], s);
    if constexpr (kStates > 0) s0[i] = s[0];
    if constexpr (kStates > 1) s1[i] = s[1];
  }
}

}  // namespace

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
  const int states = rule.states();
  float* s0 = states > 0 ? tensors.state[0].data<float>() : nullptr;
  float* s1 = states > 1 ? tensors.state[1].data<float>() : nullptr;
  constexpr int64_t kOperations = 10;
  parallel_ranges(count, kOperations, [&](int64_t first, int64_t last) {
    const auto update = [&](auto range) {
      range(rule, factors, last - first, w + first, dw + first, s0 ? s0 + first : s0,
            s1 ? s1 + first : s1);
    };
    if (states == 0) return update(update_range<0, Rule>);
    if (states == 1) return update(update_range<1, Rule>);
    update(update_range<2, Rule>);
  });
}

template void update_parameters(Context&, const SgdRule&, const OptimizerTensors&, const StepState*,
                                const float*);
template void update_parameters(Context&, const AdamRule&, const OptimizerTensors&,
                                const StepState*, const float*);

}  // namespace duet
