// What a training minimises where a network has several losses: their sum by weights.
#pragma once

#include <stdexcept>

#include "core/host_device.h"
#include "device/context.h"

namespace duet {

/// Losses of a step, float32 {1} each, in memory of a context's device, and their weights.
struct WeightedLosses {
  static constexpr int kMost = 8;

  int count = 0;
  const float* losses[kMost] = {};
  float weights[kMost] = {};

  void add(const float* loss, float weight) {
    if (count == kMost) throw std::logic_error("more losses than WeightedLosses holds");
    losses[count] = loss;
    weights[count++] = weight;
  }
  /// In the order in which they were added, in double: the same bits on the CPU and a GPU.
  DUET_HOST_DEVICE float sum() const {
    double sum = 0.0;
    for (int i = 0; i < count; ++i) {
      sum += static_cast<double>(weights[i]) * static_cast<double>(*losses[i]);
    }
    return static_cast<float>(sum);
  }
};

/// *objective = terms.sum(), which may be NaN or infinite. Queued (GPU) or done (CPU).
void add_losses(Context& context, const WeightedLosses& terms, float* objective);

#if DUET_WITH_CUDA
void add_losses_gpu(Context& context, const WeightedLosses& terms, float* objective);
#endif

}  // namespace duet
