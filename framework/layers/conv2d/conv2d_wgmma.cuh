// conv2d by WgmmaConvolution, as implementations of the list have it.
#pragma once

#include "layers/conv2d/conv2d_moments.h"
#include "layers/conv2d/wgmma_convolution.cuh"

namespace duet {

template <class T, bool kSplit>
class Conv2dWgmma : public Conv2dWithMoments {
 public:
  Conv2dWgmma(const Conv2dProblem& problem, const Context& context)
      : Conv2dWithMoments(problem), convolution_(problem, context.workspace_limit()) {}

  size_t workspace_bytes(Pass pass) const override { return convolution_.workspace_bytes(pass); }
  std::string detail(Pass pass) const override { return convolution_.text(pass); }

  int moment_parts() const override { return convolution_.moment_parts(); }
  void convolve(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
                const ChannelMoments& moments) override {
    convolution_.forward(run, x, w, b.data<float>(), y, moments);
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    convolution_.backward_data(run, dy, nullptr, w, dx);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    convolution_.backward_filter(run, x, dy, nullptr, dw.data<float>(), db.data<float>());
  }

 private:
  const WgmmaConvolution<T, kSplit> convolution_;
};

}  // namespace duet
