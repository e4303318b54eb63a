// backward_data of a 3x3 convolution of stride 1 of float32 planes, pooled by 2x2 windows, in tf32 as a product by wgmma of images eight
// side by side, of dy and the places of the maxima (kernels/wgmma_windows.cuh). Only weights are staged.
#pragma once

#include <string>

#include "kernels/block_units.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

namespace duet {

/// REQUIRES: the problem's rows and columns of outputs are whole windows, and its groups 1.
class WindowsBackwardData {
 public:
  WindowsBackwardData(const Conv2dProblem& d, int multiprocessors);

  /// Whether it can do the problem, and is faster than HaloConvolution: not in less than a round of whole tiles (on an H200
  /// 64x64x13x13 -> 128 takes 19.1 us in place of 16.4, 1024 of them 86 in place of 97).
  bool preferred() const;
  std::string text() const { return "tile 384x64 of eight images, wgmma tf32"; }
  size_t workspace_bytes() const;
  void run(const Run& run, const Tensor& dy, const Tensor& state, const Tensor& w,
           const Tensor& dx) const;

 private:
  const Conv2dProblem problem_;
  const int above_, left_;  // of the first unit that lie outside dx
  const BlockUnits units_;
};

}  // namespace duet
