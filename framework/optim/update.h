// One step of a rule over all parameters, in one kernel; and what goes with it: clipping,
// parameters that do not decay, the average of the weights.
#pragma once

#include "device/device.h"
#include "optim/optimizer.h"
#include "optim/rules.h"

namespace duet {

/// How parameters are updated, for every kKindElements elements, of which no two parameters share
/// any.
enum class UpdateKind : uint8_t { kDecayed, kPlain, kElsewhere };
inline constexpr int64_t kKindElements = 64;

/// Beside the rule; null where it is not asked for, and then it costs nothing.
struct UpdateExtras {
  const float* scale = nullptr;       // of all gradients, in device memory
  const UpdateKind* kinds = nullptr;  // all kDecayed; those kElsewhere are left alone
  float* ema = nullptr;
  float ema_share = 0.0f;  // of the new weights in the average; the first step takes them alone

  bool any() const { return scale || kinds || ema; }
};

/// `average` moves towards `w`, as torch.optim.swa_utils.AveragedModel with its get_ema_avg_fn().
DUET_HOST_DEVICE inline float averaged(float average, float w, float share, uint64_t step) {
  return step == 0 ? w : average + share * (w - average);
}

/// What the optimizer's options need of memory on the device.
class UpdateOptions {
 public:
  /// `elsewhere` says which parameters another update takes; null: none.
  UpdateOptions(Context& context, const OptimizerTensors& tensors, const OptimizerOptions& options,
                bool (*elsewhere)(const Shape& shape) = nullptr);

  /// Queues what the update needs to know of all gradients.
  void queue();
  const UpdateExtras& extras() const { return extras_; }
  /// Of update_parameters(): a zero, in the device's memory.
  unsigned* ticket() const { return static_cast<unsigned*>(ticket_.data()); }
  size_t memory_bytes() const { return kinds_.bytes() + clip_.bytes() + ticket_.bytes(); }

 private:
  Context& context_;
  const Tensor dw_;
  const double clip_norm_;
  Buffer kinds_, clip_, ticket_;
  UpdateExtras extras_;
};

/// Queues (GPU) or computes (CPU) one update of all parameters by `rule`; and with a ticket, a zero in the
/// device's memory that stays one, advance().
template <class Rule>
void update_parameters(Context& context, const Rule& rule, const OptimizerTensors& tensors,
                       const UpdateExtras& extras, StepState* state, const StepEnd& end,
                       unsigned* ticket);

/// What makes a vector of the norm 1: 1 / max(norm, 1e-7).
DUET_HOST_DEVICE inline float norm_scale(double sum_of_squares) {
  const double norm = sqrt(sum_of_squares);
  return static_cast<float>(1.0 / (norm < 1e-7 ? 1e-7 : norm));
}
/// What clip_grad_norm_ multiplies the gradients by: min(1, clip_norm / (norm + 1e-6)).
DUET_HOST_DEVICE inline float clip_scale(double sum_of_squares, double clip_norm) {
  const double scale = clip_norm / (sqrt(sum_of_squares) + 1e-6);
  return scale < 1.0 ? static_cast<float>(scale) : scale >= 1.0 ? 1.0f : NAN;
}
/// One of the two; the former without a clip_norm.
struct NormScale {
  double clip_norm = 0.0;

  DUET_HOST_DEVICE float of(double sum_of_squares) const {
    return clip_norm > 0.0 ? clip_scale(sum_of_squares, clip_norm) : norm_scale(sum_of_squares);
  }
};

/// The GPU's halves, in update_custom.cu. `norm` is what the latter needs of memory, zero before the
/// first call, and begins with the scale of the 4 * quads values.
template <class Rule>
void update_parameters_gpu(Context& context, const Rule& rule, const OptimizerTensors& tensors,
                           const UpdateExtras& extras, StepState* state, const StepEnd& end,
                           unsigned* ticket);
size_t norm_bytes_gpu();
void queue_norm_gpu(Context& context, const float* values, int64_t quads, const NormScale& scale,
                    void* norm);

}  // namespace duet
