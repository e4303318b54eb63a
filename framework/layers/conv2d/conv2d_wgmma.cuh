// conv2d by WgmmaConvolution or HaloConvolution, as implementations of the list have it.
#pragma once

#include "device/side_stream.h"
#include "layers/conv2d/conv2d_moments.h"
#include "layers/conv2d/wgmma_convolution.cuh"
#include "layers/staged_tensors.h"

namespace duet {

template <class T, class Convolution>
class Conv2dStaged : public Conv2dWithMoments, public SharesStaged {
 public:
  Conv2dStaged(const Conv2dProblem& problem, const Context& context)
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

  StagedBytes staged_bytes(Pass pass) const override {
    const size_t x = convolution_.staged_x_bytes(), dy = convolution_.staged_dy_bytes();
    const size_t w = convolution_.staged_w_bytes();
    if (pass == Pass::kForward) return {.x = x, .w = w};
    if (pass == Pass::kBackwardFilter) {
      return Convolution::kStagesFilter ? StagedBytes{.x = x, .dy = dy} : StagedBytes{};
    }
    return {.dy = dy, .w = convolution_.turns_weights() ? 0 : w};
  }
  void run_sharing(Pass pass, const Run& run, const LayerTensors& t, const StagedTensors& staged,
                   const ChannelMoments& moments) override {
    const SharedImages<T> shared{staged.x.data<T>(), staged.dy.data<T>(), staged.w.data<T>()};
    const bool bias = problem_.bias;
    if (pass == Pass::kForward) {
      convolution_.forward(run, t.x[0], t.w[0], bias ? t.w[1].data<float>() : nullptr, t.y[0],
                           moments, shared);
    } else if (pass == Pass::kBackwardFilter) {
      if (shared.dy) convolution_.stage_dy(run, t.dy[0], nullptr, shared.dy);
      convolution_.backward_filter(aside(run), t.x[0], t.dy[0], nullptr, t.dw[0].data<float>(),
                                   bias ? t.dw[1].data<float>() : nullptr, shared);
    } else if (t.dx[0]) {
      convolution_.backward_data(run, t.dy[0], nullptr, t.w[0], t.dx[0], shared);
    }
  }

 private:
  const Convolution convolution_;
};

template <class T, bool kSplit>
using Conv2dWgmma = Conv2dStaged<T, WgmmaConvolution<T, kSplit>>;

}  // namespace duet
