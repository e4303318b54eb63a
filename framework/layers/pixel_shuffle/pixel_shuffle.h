// pixel_shuffle: images of C*r*r channels and H x W pixels become images of C channels and H*r x
// W*r pixels, as torch.nn.PixelShuffle(r); r is the key `scale` (Shi et al. 2016, sub-pixel
// convolution):
//   y[n, c, h*r + i, w*r + j] = x[n, (c*r + i)*r + j, h, w]        0 <= i, j < r
// Values are only moved; backward moves dy back: dx[n, (c*r + i)*r + j, h, w] = dy[n, c, h*r + i,
// w*r + j]. x and y have one layout, and fewer than 2^31 elements.
// Keys: scale (required; 1 or more). The channels of x are a multiple of scale * scale.
#pragma once

#include "layers/layer.h"

namespace duet {

struct PixelShuffleProblem {
  TensorDesc x;  // dx has the same
  TensorDesc y;  // dy has the same
  int64_t scale = 1;
  DType dtype = DType::kFloat32;

  std::string to_string() const { return "x=" + x.to_string() + " scale=" + std::to_string(scale); }
};

const LayerType& pixel_shuffle_type();

/// Tensors as the problem has them.
class PixelShuffleImpl : public ImplementationOf<PixelShuffleProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  virtual void shuffle(const Run& run, const Tensor& x, const Tensor& y) = 0;
  /// Called only where dx is wanted.
  virtual void unshuffle(const Run& run, const Tensor& dy, const Tensor& dx) = 0;

  SavedTensors reads(Pass) const final { return {}; }
  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      shuffle(run, t.x[0], t.y[0]);
    } else if (t.dx[0]) {
      unshuffle(run, t.dy[0], t.dx[0]);
    }
  }
};

std::vector<ImplEntry<PixelShuffleProblem>>& pixel_shuffle_impls();

}  // namespace duet
