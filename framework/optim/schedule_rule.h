// The learning rate of a step, computed from its number alone; written once for the CPU and the
// GPU.
//
// Source: PyTorch's torch.optim.lr_scheduler (StepLR, ExponentialLR, CosineAnnealingLR, OneCycleLR,
// LinearLR), the closed forms of its documentation, with optimizer.learning_rate as base_lr
// (OneCycleLR: as max_lr) and momentum left alone (cycle_momentum=False). A warm-up is
// SequentialLR([LinearLR(start_factor=1/(warmup+1), total_iters=warmup), schedule], [warmup]).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace duet {

struct ScheduleRule {
  enum class Kind : int32_t { kConstant, kStep, kExponential, kCosine, kOneCycle, kLinear };

  Kind kind = Kind::kConstant;
  bool linear_anneal = false;  // one_cycle: else half a cosine
  double learning_rate = 0.0;  // the optimizer's
  // In steps:
  double warmup = 0.0;
  double period = 1.0;  // step, exponential: of one call of PyTorch's scheduler.step()
  double total = 1.0;   // cosine, one_cycle, linear: behind the warm-up; at least 1
  // PyTorch's:
  double gamma = 1.0, step_size = 1.0;
  double eta_min = 0.0;
  double pct_start = 0.3, div_factor = 25.0, final_div_factor = 1e4;
  double start_factor = 1.0, end_factor = 1.0;

  /// Of the step with `step` steps before it.
  DUET_HOST_DEVICE float rate(uint64_t step) const {
    const double s = static_cast<double>(step);
    if (s >= warmup) return static_cast<float>(scheduled(s - warmup));
    return static_cast<float>(scheduled(0.0) * (s + 1.0) / (warmup + 1.0));
  }

 private:
  static constexpr double kPi = 3.14159265358979323846;

  DUET_HOST_DEVICE double scheduled(double t) const {
    switch (kind) {
      case Kind::kStep:
        return learning_rate * pow(gamma, floor(floor(t / period) / step_size));
      case Kind::kExponential:
        return learning_rate * pow(gamma, floor(t / period));
      case Kind::kCosine:
        return eta_min + (learning_rate - eta_min) * (1.0 + cos(kPi * t / total)) / 2.0;
      case Kind::kOneCycle:
        return one_cycle(t);
      case Kind::kLinear: {
        const double share = t < total ? t / total : 1.0;
        return learning_rate * (start_factor + (end_factor - start_factor) * share);
      }
      case Kind::kConstant:
        break;
    }
    return learning_rate;
  }

  // Up to `peak`, down to `end`, and there it stays; PyTorch ends with an error instead.
  DUET_HOST_DEVICE double one_cycle(double t) const {
    const double peak = pct_start * total - 1.0, end = total - 1.0;
    const double first = learning_rate / div_factor;
    if (t > end) t = end;
    if (t <= peak) return anneal(first, learning_rate, peak > 0.0 ? t / peak : 1.0);
    return anneal(learning_rate, first / final_div_factor, (t - peak) / (end - peak));
  }

  DUET_HOST_DEVICE double anneal(double from, double to, double share) const {
    if (linear_anneal) return from + (to - from) * share;
    return to + (from - to) * (1.0 + cos(kPi * share)) / 2.0;
  }
};

}  // namespace duet
