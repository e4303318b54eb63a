// The gradient of a convolution's bias by NVIDIA's libraries. Include only in files that are
// compiled with CUDA.
#pragma once

#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "device/cudnn_descriptors.h"
#include "layers/conv2d/conv2d.h"

namespace duet {

/// db[k] = sum over n,p,q of dy[n,k,p,q], summed in fp32 and repeatable bit for bit.
class Conv2dBiasGradient {
 public:
  /// REQUIRES: problem.bias.
  explicit Conv2dBiasGradient(const Conv2dProblem& problem);

  /// Times the ways (conv2d_bias_gradient_cudnn.cpp) and keeps the fastest; this process, and a
  /// file in the user's cache folder, remember it. May allocate and synchronise.
  void prepare(Context& context);
  size_t workspace_bytes() const { return workspace_bytes(way_); }
  /// "bias gradient by cuBLAS, over images first"
  std::string detail() const;
  /// The functions of the libraries that run() calls.
  std::vector<std::string> calls() const;

  /// `workspace` has workspace_bytes().
  void run(Context& context, const void* dy, float* db, void* workspace) const {
    run(way_, context, dy, db, workspace);
  }

 private:
  enum class Way { kBackwardBias, kPixelsFirst, kImagesFirst };
  static constexpr Way kWays[] = {Way::kBackwardBias, Way::kPixelsFirst, Way::kImagesFirst};

  bool narrow() const { return problem_.dtype == DType::kBFloat16; }
  size_t workspace_bytes(Way way) const;
  void run(Way way, Context& context, const void* dy, float* db, void* workspace) const;
  Way fastest(Context& context) const;

  const Conv2dProblem problem_;
  const gpu::TensorDescriptor dy_, db_;
  Buffer ones_;
  size_t ones_count_ = 0;  // in float32; as many in bfloat16 behind them where dy is
  Way way_ = Way::kBackwardBias;
};

}  // namespace duet
