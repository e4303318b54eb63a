// dropout: y = x * mask / (1 - p) in training, y = x in evaluation, as torch.nn.Dropout; any shape
// and layout. dx = dy * mask / (1 - p).
//
// Element i, in row-major order of the logical shape (N C H W, whatever the layout), is kept at
// step t if uniform_float(philox_block(seed, t, stream, i / 4).v[i % 4]) >= p. So every
// implementation, in every layout and on every device, drops the same elements. Keys: p 0.5 (0 <= p
// < 1).
#pragma once

#include "device/philox.h"
#include "layers/layer.h"

namespace duet {

struct DropoutProblem {
  TensorDesc x;  // y, dx, dy have the same
  float p = 0.5f;
  uint64_t seed = 0;
  uint32_t stream = 0;
  DType dtype = DType::kFloat32;

  std::string to_string() const;
};

/// The rule above, for kernels and the CPU alike.
struct DropoutMask {
  uint64_t seed = 0;
  uint32_t stream = 0;
  float p = 0.0f;
  bool channels_last = false;  // memory order is not logical order
  int64_t channels = 1;
  int64_t pixels = 1;

  explicit DropoutMask(const DropoutProblem& problem);

  /// Logical index of the element that stands at `i` in memory.
  DUET_HOST_DEVICE int64_t logical(int64_t i) const {
    if (!channels_last) return i;
    const int64_t pixel = i / channels;  // n * pixels + h * W + w
    return (pixel / pixels * channels + i % channels) * pixels + pixel % pixels;
  }
  /// Bit b is set if logical element 4 * block + b is kept.
  DUET_HOST_DEVICE unsigned kept4(uint64_t step, int64_t block) const {
    const Philox4 words = philox_block(seed, step, stream, static_cast<uint32_t>(block));
    unsigned bits = 0;
    for (int b = 0; b < 4; ++b) bits |= (uniform_float(words.v[b]) >= p ? 1u : 0u) << b;
    return bits;
  }
  /// True if the element that stands at `i` in memory is kept.
  DUET_HOST_DEVICE bool kept(uint64_t step, int64_t i) const {
    const int64_t element = logical(i);
    return kept4(step, element / 4) >> (element % 4) & 1u;
  }
};

/// The key p; 0.5 where it is a mistake, which goes to the reader.
float read_dropout_share(ConfigReader& reader);
DropoutProblem dropout_problem(float p, const TensorDesc& x, const LayerOptions& options);

const LayerType& dropout_type();

/// Both passes read run.training on the host and the step number in device memory.
class DropoutImpl : public MapImpl<DropoutProblem> {
 public:
  explicit DropoutImpl(const DropoutProblem& problem)
      : MapImpl(problem), mask_(problem), scale_(1.0f / (1.0f - problem.p)) {}

 protected:
  const DropoutMask mask_;
  const float scale_;
};

std::vector<ImplEntry<DropoutProblem>>& dropout_impls();

}  // namespace duet
