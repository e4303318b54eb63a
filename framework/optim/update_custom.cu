// update: one optimizer step over all parameters in one kernel, which ends the step too (advance()), and one before
// it for the norm of all gradients where they are clipped.
// Mapping:  thread = twice 4 consecutive values (one 16-byte access a tensor each); block = 448 threads, and a warp that computes what
//           is the same for all and moves the step's state on.
// Traffic:  w and each state read and written once, dw read once; so is the average where one is kept, and
//           dw once more where its norm is needed.
// Limits:   fp32; the flat buffers are multiples of 256 bytes, so there is no tail; 2^34 values.
#include <algorithm>
#include <type_traits>

#include "device/check.h"
#include "device/launch.h"
#include "optim/update.h"
#include "optim/updated_quad.cuh"

namespace duet {
namespace {

constexpr int kQuads = 2;  // of a thread, all of whose loads are under way at once
constexpr int kUpdaters = 448, kThreads = kUpdaters + 32, kPerBlock = kQuads * kUpdaters;
/// Of all tensors, from which on what is read once is the first to leave L2, where the weights may stay for the next forward.
constexpr int64_t kStreamedBytes = 32 << 20;

template <class Rule, int kStates, bool kExtras, bool kStreams>
__global__ void __launch_bounds__(kThreads, kExtras ? 1 : 2)
    update_kernel(Rule rule, unsigned quads, float4* __restrict__ w, const float4* dw,
                  float4* __restrict__ s0, float4* __restrict__ s1,
                  const __grid_constant__ UpdateExtras extras, StepState* state,
                  const __grid_constant__ StepEnd end, unsigned* ticket) {
  wait_for_primary();
  let_secondary_start();
  __shared__ typename Rule::Factors shared_factors;
  __shared__ uint64_t step;
  const bool is_wanted = updates(*state, *end.loss);
  if (threadIdx.x >= kUpdaters) {
    // One thread a block computes the factors while the others wait for what they have asked for.
    const bool leads = threadIdx.x == kUpdaters;
    if (leads) {
      step = state->step;
      shared_factors = rule.factors(state->learning_rate, step + 1);
    }
    __syncthreads();
    // That of the last block that has read the state moves it on. The ticket wraps to 0.
    if (ticket && leads) {
      __threadfence();
      if (atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1) advance_state(*state, end);
    }
    return;
  }
  unsigned at[kQuads];
  UpdatedQuad quad[kQuads] = {};
  float4 gradient[kQuads], average[kQuads] = {};
  UpdateKind kind[kQuads];
  float4* const ema = reinterpret_cast<float4*>(extras.ema);
  const auto load = [](const float4* from) { return kStreams ? __ldcs(from) : *from; };
  const auto store = [](float4* to, const float4& value) {
    kStreams ? __stcs(to, value) : void(*to = value);
  };
#pragma unroll
  for (int j = 0; j < kQuads; ++j) {
    at[j] = blockIdx.x * kPerBlock + j * kUpdaters + threadIdx.x;
    kind[j] = at[j] < quads ? UpdateKind::kDecayed : UpdateKind::kElsewhere;
    if (at[j] >= quads) continue;
    quad[j].w = w[at[j]];
    gradient[j] = load(dw + at[j]);
    if (kStates > 0) quad[j].a = load(s0 + at[j]);
    if (kStates > 1) quad[j].b = load(s1 + at[j]);
    if (kExtras) {
      if (ema) average[j] = load(ema + at[j]);
      if (extras.kinds) kind[j] = extras.kinds[at[j] / (kKindElements / 4)];
    }
  }
  const float scale = kExtras && extras.scale ? *extras.scale : 1.0f;
  __syncthreads();
  if (!is_wanted) return;
  const typename Rule::Factors factors = shared_factors;
#pragma unroll
  for (int j = 0; j < kQuads; ++j) {
    if (kind[j] == UpdateKind::kElsewhere) continue;
    const float decay = kind[j] == UpdateKind::kDecayed ? rule.weight_decay : 0.0f;
    float4 g = gradient[j];
    if (kExtras) {
      const auto scaled = [&](float value) { return rounded_product(scale, value); };
      g = make_float4(scaled(g.x), scaled(g.y), scaled(g.z), scaled(g.w));
    }
    const UpdatedQuad updated = updated_quad(rule, factors, decay, g, quad[j]);
    w[at[j]] = updated.w;
    if (kStates > 0) store(s0 + at[j], updated.a);
    if (kStates > 1) store(s1 + at[j], updated.b);
    if (kExtras && ema) {
      const float share = extras.ema_share;
      const float4 &of = average[j], &now = updated.w;
      store(ema + at[j],
            make_float4(averaged(of.x, now.x, share, step), averaged(of.y, now.y, share, step),
                        averaged(of.z, now.z, share, step), averaged(of.w, now.w, share, step)));
    }
  }
}

// A norm: blocks add up parts of a fixed length, the last one adds up theirs in
// order, so that the sum is the same every time.
constexpr int kNormBlocks = 512, kNormThreads = 256;

struct Norm {
  float scale;
  unsigned ticket;
  double parts[kNormBlocks];
};

__device__ double sum_over_block(double value, double* shared) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = kNormThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  return shared[0];
}

__global__ void __launch_bounds__(kNormThreads)
    norm_kernel(int64_t quads, const float4* values, NormScale scale, Norm* norm) {
  wait_for_primary();
  __shared__ double shared[kNormThreads];
  __shared__ bool last;
  double sum = 0.0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kNormThreads + threadIdx.x; i < quads;
       i += static_cast<int64_t>(gridDim.x) * kNormThreads) {
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
  for (unsigned b = threadIdx.x; b < gridDim.x; b += kNormThreads) sum += __ldcg(&norm->parts[b]);
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
    const int64_t tensors = 2 + kStates + (extras.ema ? 1 : 0);
    const bool streams = tensors * t.w.elements() * int64_t{sizeof(float)} > kStreamedBytes;
    const auto by = [&]<bool kStreams>(std::bool_constant<kStreams>) {
      extras.any() ? run<kStates, true, kStreams>() : run<kStates, false, kStreams>();
    };
    streams ? by(std::true_type{}) : by(std::false_type{});
  }

 private:
  template <int kStates, bool kExtras, bool kStreams>
  void run() const {
    const int64_t quads = t.w.elements() / 4;
    if (quads == 0 && !ticket) return;
    const auto blocks =
        static_cast<unsigned>(std::max<int64_t>(1, (quads + kPerBlock - 1) / kPerBlock));
    const auto quad = [](const Tensor& tensor) { return tensor.data<float4>(); };
    launch_following({blocks, kThreads, 0, context.stream()},
                     update_kernel<Rule, kStates, kExtras, kStreams>, rule,
                     static_cast<unsigned>(quads), quad(t.w), quad(t.dw),
                     kStates > 0 ? quad(t.state[0]) : nullptr,
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
  const auto blocks = static_cast<unsigned>(
      std::clamp<int64_t>((quads + kNormThreads - 1) / kNormThreads, 1, kNormBlocks));
  launch_following({blocks, kNormThreads, 0, context.stream()}, norm_kernel, quads,
                   reinterpret_cast<const float4*>(values), scale, static_cast<Norm*>(norm));
}

}  // namespace duet
