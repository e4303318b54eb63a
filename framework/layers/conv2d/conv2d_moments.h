// conv2d that leaves the moments of y, for a batch normalisation behind it.
#pragma once

#include "layers/conv2d/conv2d.h"
#include "layers/handed_moments.h"

namespace duet {

class Conv2dWithMoments : public Conv2dImpl, public LeavesMoments {
 public:
  using Conv2dImpl::Conv2dImpl;

  /// Forward; `moments` of y where it has parts.
  virtual void convolve(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                        const Tensor& y, const ChannelMoments& moments) = 0;

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) final {
    convolve(run, x, w, b, y, {});
  }
  void forward_with_moments(const Run& run, const LayerTensors& t,
                            const ChannelMoments& moments) final {
    convolve(run, t.x[0], t.w[0], problem_.bias ? t.w[1] : Tensor{}, t.y[0], moments);
  }
};

}  // namespace duet
