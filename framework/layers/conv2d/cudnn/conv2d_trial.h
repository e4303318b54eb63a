// Trial runs of a convolution, for those who choose between ways to compute it: on values that the
// host knows, so that what a way leaves can be looked at. Include only in files that are compiled with
// CUDA.
#pragma once

#include <functional>

#include "core/storage.h"
#include "layers/conv2d/cudnn/conv2d_algorithms.h"
#include "layers/conv2d/cudnn/conv2d_samples.h"

namespace duet {

/// The memory of one pass of one convolution, on the GPU.
class Conv2dTrial {
 public:
  /// x and y are stored as the problem says, parameters and their gradients as `parameters`: w in
  /// one type, b in the other.
  struct Parameters {
    DType w, b;
  };

  Conv2dTrial(const Conv2dProblem& problem, Pass pass, const Parameters& parameters,
              size_t workspace_bytes);

  const Conv2dMemory& memory() const { return memory_; }

  struct Outcome {
    double error = 0.0;    // relative, of outputs sampled; NaN if there was one among them
    bool repeats = false;  // two runs gave the same bits
    bool right = false;    // it repeats, and its error is within what the arithmetic allows
  };
  /// What two runs leave. `queue` puts one on the GPU's stream, on memory().
  Outcome check(const std::function<void()>& queue) const;

 private:
  const Pass pass_;
  const Conv2dValues values_;
  const Conv2dSamples samples_;
  const DType output_type_;
  Buffer x_, w_, b_, y_, workspace_;
  const Conv2dMemory memory_;
};

}  // namespace duet
