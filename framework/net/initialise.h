// What a parameter starts with, computed where it lies: the same bits on the CPU and on a GPU.
#pragma once

#include "core/tensor.h"
#include "device/context.h"
#include "device/normal.h"
#include "device/philox.h"

namespace duet {

struct InitialValues {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  /// The constant, half the width of the uniform interval around 0, or the standard deviation.
  double scale = 0.0;
  uint64_t seed = 0;
  uint32_t stream = 0;
};

/// Those of elements 4 * block to 4 * block + 3, in PyTorch's order. Static, as device/normal.h says.
static DUET_HOST_DEVICE inline void initial_block(const InitialValues& how, uint32_t block,
                                                  float (&values)[4]) {
  double draws[4] = {1.0, 1.0, 1.0, 1.0};
  if (how.kind != InitialValues::Kind::kConstant) {
    const Philox4 words = philox_block(how.seed, 0, how.stream, block);
    if (how.kind == InitialValues::Kind::kNormal) {
      normal_pair(words.v[0], words.v[1], &draws[0], &draws[1]);
      normal_pair(words.v[2], words.v[3], &draws[2], &draws[3]);
    } else {
      for (int j = 0; j < 4; ++j) draws[j] = 2.0 * unit_double(words.v[j]) - 1.0;
    }
  }
  for (int j = 0; j < 4; ++j) values[j] = static_cast<float>(how.scale * draws[j]);
}

/// Queues what fills `parameter`, which is float32 or float64. Only in a build with CUDA.
void queue_initial_values(Context& context, const InitialValues& how, const Tensor& parameter);

}  // namespace duet
