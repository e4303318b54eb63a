// The update on the CPU, and the way to the GPU's kernels.
#include "optim/update.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"

namespace duet {
namespace {

constexpr int64_t kOperations = 10;  // an element

// The number of states is known to the compiler and nothing can change the factors: so the loop
// becomes vector code.
template <int kStates, class Rule>
void update_range(Rule rule, typename Rule::Factors factors, float decay, float scale,
                  int64_t count, float* w, const float* dw, float* s0, float* s1) {
  for (int64_t i = 0; i < count; ++i) {
    float s[2] = {};
    if constexpr (kStates > 0) s[0] = s0[i];
    if constexpr (kStates > 1) s[1] = s1[i];
    rule.apply(factors, decay, scale * dw[i], w[i], s);
    if constexpr (kStates > 0) s0[i] = s[0];
    if constexpr (kStates > 1) s1[i] = s[1];
  }
}

// Partial sums of a fixed length, so that the bits do not depend on the threads.
double sum_of_squares(const Tensor& tensor) {
  constexpr int64_t kPart = 1 << 14;
  const float* values = tensor.data<float>();
  const int64_t count = tensor.elements();
  std::vector<double> parts(static_cast<size_t>((count + kPart - 1) / kPart));
  parallel_for(static_cast<int64_t>(parts.size()), count, [&](int64_t part) {
    double sum = 0.0;
    for (int64_t i = part * kPart; i < std::min(count, (part + 1) * kPart); ++i) {
      sum += static_cast<double>(values[i]) * values[i];
    }
    parts[static_cast<size_t>(part)] = sum;
  });
  double sum = 0.0;
  for (double part : parts) sum += part;
  return sum;
}

template <class Rule>
void update_on_cpu(const Rule& rule, const OptimizerTensors& tensors, const UpdateExtras& extras,
                   const StepState& state) {
  const auto factors = rule.factors(state.learning_rate, state.step + 1);
  const float scale = extras.scale ? *extras.scale : 1.0f;
  float* w = tensors.w.data<float>();
  const float* dw = tensors.dw.data<float>();
  const int states = rule.states();
  float* s0 = states > 0 ? tensors.state[0].data<float>() : nullptr;
  float* s1 = states > 1 ? tensors.state[1].data<float>() : nullptr;
  const auto update_one_kind = [&](int64_t first, int64_t last) {
    const UpdateKind kind =
        extras.kinds ? extras.kinds[first / kKindElements] : UpdateKind::kDecayed;
    if (kind == UpdateKind::kElsewhere) return;
    const float decay = kind == UpdateKind::kDecayed ? rule.weight_decay : 0.0f;
    const auto update = [&](auto range) {
      range(rule, factors, decay, scale, last - first, w + first, dw + first, s0 ? s0 + first : s0,
            s1 ? s1 + first : s1);
    };
    if (states == 0) update(update_range<0, Rule>);
    if (states == 1) update(update_range<1, Rule>);
    if (states == 2) update(update_range<2, Rule>);
    if (!extras.ema) return;
    for (int64_t i = first; i < last; ++i) {
      extras.ema[i] = averaged(extras.ema[i], w[i], extras.ema_share, state.step);
    }
  };
  parallel_ranges(tensors.w.elements(), kOperations, [&](int64_t first, int64_t last) {
    if (!extras.kinds) return update_one_kind(first, last);
    for (int64_t next; first < last; first = next) {
      next = std::min(last, (first / kKindElements + 1) * kKindElements);
      update_one_kind(first, next);
    }
  });
}

}  // namespace

UpdateOptions::UpdateOptions(Context& context, const OptimizerTensors& tensors,
                             const OptimizerOptions& options, bool (*elsewhere)(const Shape&))
    : context_(context),
      dw_(tensors.dw),
      clip_norm_(options.clip_norm),
      ticket_(context.device(), sizeof(unsigned)) {
  fill_bytes(ticket_.data(), context.device(), 0, ticket_.bytes());
  const Device device = context.device();
  if (!options.decay_biases || elsewhere) {
    const int64_t count = (tensors.w.elements() + kKindElements - 1) / kKindElements;
    std::vector<UpdateKind> kinds(static_cast<size_t>(count), UpdateKind::kDecayed);
    for (const ParameterPlace& place : tensors.parameters) {
      UpdateKind kind = UpdateKind::kDecayed;
      if (!options.decay_biases && place.shape.rank() < 2) kind = UpdateKind::kPlain;
      if (elsewhere && elsewhere(place.shape)) kind = UpdateKind::kElsewhere;
      const int64_t end = place.offset + place.shape.elements();
      std::fill(kinds.begin() + place.offset / kKindElements,
                kinds.begin() + (end + kKindElements - 1) / kKindElements, kind);
    }
    kinds_ = Buffer(device, kinds.size());
    copy_bytes(kinds_.data(), device, kinds.data(), Device::kCpu, kinds.size());
    extras_.kinds = static_cast<const UpdateKind*>(kinds_.data());
  }
  if (options.clip_norm > 0.0) {
    size_t bytes = sizeof(float);
#if DUET_WITH_CUDA
    if (device == Device::kGpu) bytes = norm_bytes_gpu();
#endif
    clip_ = Buffer(device, bytes);
    fill_bytes(clip_.data(), device, 0, bytes);
    extras_.scale = static_cast<const float*>(clip_.data());
  }
  if (options.ema > 0.0) {
    extras_.ema = tensors.ema.data<float>();
    extras_.ema_share = static_cast<float>(1.0 - options.ema);
  }
}

void UpdateOptions::queue() {
  if (!extras_.scale) return;
  if (context_.device() == Device::kGpu) {
#if DUET_WITH_CUDA
    queue_norm_gpu(context_, dw_.data<float>(), dw_.elements() / 4, NormScale{clip_norm_},
                   clip_.data());
#endif
    return;
  }
  *static_cast<float*>(clip_.data()) = clip_scale(sum_of_squares(dw_), clip_norm_);
}

template <class Rule>
void update_parameters(Context& context, const Rule& rule, const OptimizerTensors& tensors,
                       const UpdateExtras& extras, StepState* state, const StepEnd& end,
                       unsigned* ticket) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) {
    return update_parameters_gpu(context, rule, tensors, extras, state, end, ticket);
  }
#endif
  (void)context;
  if (updates(*state, *end.loss)) update_on_cpu(rule, tensors, extras, *state);
  if (ticket) advance_state(*state, end);
}

template void update_parameters(Context&, const SgdRule&, const OptimizerTensors&,
                                const UpdateExtras&, StepState*, const StepEnd&, unsigned*);
template void update_parameters(Context&, const AdamRule&, const OptimizerTensors&,
                                const UpdateExtras&, StepState*, const StepEnd&, unsigned*);
template void update_parameters(Context&, const RmspropRule&, const OptimizerTensors&,
                                const UpdateExtras&, StepState*, const StepEnd&, unsigned*);

}  // namespace duet
