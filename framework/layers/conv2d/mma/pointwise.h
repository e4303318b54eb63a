// Convolutions with filters of 1x1 and stride 1 in NCHW, which pointwise_product.cuh multiplies where tensors
// lie. Include only in files that are compiled with CUDA.
#pragma once

#include "device/device.h"
#include "device/launch.h"
#include "layers/conv2d/conv2d.h"

namespace duet {

/// Whether images are few and of one pixel, which kernels/few_rows.cuh multiplies.
inline bool is_few_pixels(const Conv2dProblem& d) { return d.h * d.w == 1 && d.n <= 64; }

/// Whether PointwiseConvolution computes it, on this GPU or, where there is none, in this build for one.
inline bool is_pointwise(const Conv2dProblem& d) {
  if (gpu_available() && gpu_attribute(cudaDevAttrComputeCapabilityMajor) < 9) return false;
  return built_for_clusters() && d.layout == Layout::kNCHW && d.r * d.s == 1 && d.stride_h == 1 &&
         d.stride_w == 1 && d.pad_h == 0 && d.pad_w == 0 && (d.c % 4 == 0 || is_few_pixels(d));
}

/// Whether PointwiseConvolution computes it and is faster than what rewrites its operands first, which pays where they are
/// multiplied often, and earlier for planes that are copied value by value.
inline bool pointwise_preferred(const Conv2dProblem& d) {
  return is_pointwise(d) && double(d.products()) <= (d.h * d.w % 4 == 0 ? 1e9 : 3e8);
}

}  // namespace duet
