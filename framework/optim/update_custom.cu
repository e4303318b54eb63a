// update: one optimizer step over all parameters in one kernel, which ends the step too (advance()), and one before
// it for the norm of all gradients where they are clipped.
// Mapping:  thread = 4 consecutive values (one 16-byte access a tensor); block = 256 threads.
// Traffic:  w and each state read and written once, dw read once; so is the average where one is kept, and
//           dw once more where its norm is needed.
// Limits:   fp32; the flat buffers are multiples of 256 bytes, so there is no tail.
#include <algorithm>

#include "device/check.h"
#include "device/launch.h"
#include "optim/update.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

template <class Rule, int kStates, bool kExtras>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Rule rule, int64_t quads, float4* __restrict__ w, const float4* __restrict__ dw,
                  float4* __restrict__ s0, float4* __restrict__ s1,
                  const __grid_constant__ UpdateExtras extras, StepState* state, StepEnd end,
                  unsigned* ticket) {
  wait_for_primary();
  // One thread a block computes the factors while the others load.
  __shared__ typename Rule::Factors shared_factors;
  __shared__ uint64_t step;
  if (threadIdx.x == 0) {
    step = state->step;
    shared_factors = rule.factors(state->learning_rate, step + 1);
  }
  const int64_t i = extras.gaps.place(static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x);
  float4 value{}, gradient{}, a{}, b{}, average{};
  float4* const ema = reinterpret_cast<float4*>(extras.ema);
  UpdateKind kind = UpdateKind::kDecayed;
  float scale = 1.0f;
  if (i < quads) {
    value = w[i];
    gradient = dw[i];
    if (kStates > 0) a = s0[i];
    if (kStates > 1) b = s1[i];
    if (kExtras) {
      if (ema) average = ema[i];
      if (extras.kinds) kind = extras.kinds[i / (kKindElements / 4)];
      if (extras.scale) scale = *extras.scale;
    }
  }
  const bool is_wanted = updates(*state, *end.loss);
  __syncthreads();
  // The last block that has read the state moves it on, while others still load. The ticket wraps to 0.
  if (ticket && threadIdx.x == 0) {
    __threadfence();
    if (atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1) advance_state(*state, end);
  }
  if (i >= quads || !is_wanted || kind == UpdateKind::kElsewhere) return;
  const float decay = kind == UpdateKind::kDecayed ? rule.weight_decay : 0.0f;
  const typename Rule::Factors factors = shared_factors;
  const auto apply = [&](float g, float& v, float& p, float& q) {
    float s[2] = {p, q};
    rule.apply(factors, decay, kExtras ? scale * g : g, v, s);
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
  if (kExtras && ema) {
    const float share = extras.ema_share;
    ema[i] = make_float4(
        averaged(average.x, value.x, share, step), averaged(average.y, value.y, share, step),
        averaged(average.z, value.z, share, step), averaged(average.w, value.w, share, step));
  }
}

// A norm: blocks add up parts of a fixed length, the last one adds up theirs in
// order, so that the sum is the same every time.
constexpr int kNormBlocks = 512;

struct Norm {
  float scale;
  unsigned ticket;
  double parts[kNormBlocks];
};

__device__ double sum_over_block(double value, double* shared) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  return shared[0];
}

__global__ void __launch_bounds__(kThreads)
    norm_kernel(int64_t quads, const float4* __restrict__ values, NormScale scale, Norm* norm) {
  wait_for_primary();
  __shared__ double shared[kThreads];
  __shared__ bool last;
  double sum = 0.0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < quads;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    const float4 g = values[i];
    // A square of a float is exact in double.
    sum += static_cast<double>(g.x) * g.x + static_cast<double>(g.y) * g.y +
           static_cast<double>(g.z) * g.z + static_cast<double>(g.w) * g.w;
  }
  sum = sum_over_block(sum, shared);
  if (threadIdx.x == 0) {
    norm->parts[blockIdx.x] = sum;
    __threadfence();                                                  // the part before the ticket
    last = atomicInc(&norm->ticket, gridDim.x - 1) == gridDim.x - 1;  // wraps to 0
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  sum = 0.0;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += kThreads) sum += __ldcg(&norm->parts[b]);
  sum = sum_over_block(sum, shared);
  if (threadIdx.x == 0) norm->scale = scale.of(sum);
}

/// What a rule's kernels take.
template <class Rule>
struct Launch {
  Context& context;
  const Rule& rule;
  const OptimizerTensors& t;
  const UpdateExtras& extras;
  StepState* state;
  const StepEnd& end;
  unsigned* ticket;

  template <int kStates>
  void run() const {
    extras.any() ? run<kStates, true>() : run<kStates, false>();
  }

 private:
  template <int kStates, bool kExtras>
  void run() const {
    const int64_t quads = t.w.elements() / 4, left = quads - extras.gaps.total();
    if (left == 0 && !ticket) return;
    const auto blocks =
        static_cast<unsigned>(std::max<int64_t>(1, (left + kThreads - 1) / kThreads));
    const auto quad = [](const Tensor& tensor) { return tensor.data<float4>(); };
    launch_following({blocks, kThreads, 0, context.stream()}, update_kernel<Rule, kStates, kExtras>,
                     rule, quads, quad(t.w), quad(t.dw), kStates > 0 ? quad(t.state[0]) : nullptr,
                     kStates > 1 ? quad(t.state[1]) : nullptr, extras, state, end, ticket);
  }
};

}  // namespace

template <class Rule>
void update_parameters_gpu(Context& context, const Rule& rule, const OptimizerTensors& tensors,
                           const UpdateExtras& extras, StepState* state, const StepEnd& end,
                           unsigned* ticket) {
  const Launch<Rule> launch{context, rule, tensors, extras, state, end, ticket};
  switch (rule.states()) {
    case 0:
      return launch.template run<0>();
    case 1:
      return launch.template run<1>();
    default:
      return launch.template run<2>();
  }
}

template void update_parameters_gpu(Context&, const SgdRule&, const OptimizerTensors&,
                                    const UpdateExtras&, StepState*, const StepEnd&, unsigned*);
template void update_parameters_gpu(Context&, const AdamRule&, const OptimizerTensors&,
                                    const UpdateExtras&, StepState*, const StepEnd&, unsigned*);
template void update_parameters_gpu(Context&, const RmspropRule&, const OptimizerTensors&,
                                    const UpdateExtras&, StepState*, const StepEnd&, unsigned*);

size_t norm_bytes_gpu() { return sizeof(Norm); }

void queue_norm_gpu(Context& context, const float* values, int64_t quads, const NormScale& scale,
                    void* norm) {
  const auto blocks =
      static_cast<unsigned>(std::clamp<int64_t>((quads + kThreads - 1) / kThreads, 1, kNormBlocks));
  launch_following({blocks, kThreads, 0, context.stream()}, norm_kernel, quads,
                   reinterpret_cast<const float4*>(values), scale, static_cast<Norm*>(norm));
}

}  // namespace duet
