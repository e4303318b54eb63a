// Forward and backward_data of 3x3 convolutions of stride 1 of float32 planes, pooled by 2x2 windows, in tf32 or fp32, as products by
// wgmma of images eight side by side (kernels/wgmma_blocks.cuh, kernels/wgmma_windows.cuh). Only weights are staged.
#pragma once

#include <optional>
#include <string>

#include "kernels/block_units.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

namespace duet {

/// Of an odd last row or column nothing is pooled, and no gradient comes from there.
inline Conv2dProblem pooled_part(Conv2dProblem d) {
  d.p = d.p / 2 * 2;
  d.q = d.q / 2 * 2;
  return d;
}

/// Of problems in what follows REQUIRES: they are pooled_part()'s, and this has no reason.
std::optional<std::string> block_product_unsupported(const Conv2dProblem& d);

class BlockForward {
 public:
  BlockForward(const Conv2dProblem& d, int multiprocessors);

  /// Whether a row has windows enough.
  bool possible() const { return units_.wide(); }
  /// And little of what is computed is not wanted.
  bool worthwhile() const;
  std::string text() const;
  size_t workspace_bytes() const;
  void run(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
           const Tensor& state) const;

 private:
  const Conv2dProblem problem_;
  const BlockUnits units_;
};

/// The same of backward_data.
class BlockBackwardData {
 public:
  BlockBackwardData(const Conv2dProblem& d, int multiprocessors);

  bool possible() const { return units_.wide(); }
  bool worthwhile() const;
  std::string text() const;
  size_t workspace_bytes() const;
  void run(const Run& run, const Tensor& dy, const Tensor& state, const Tensor& w,
           const Tensor& dx) const;

 private:
  const Conv2dProblem problem_;
  const int above_, left_;  // of the first unit that lie outside dx
  const BlockUnits units_;
};

}  // namespace duet
