// conv2d by WgmmaConvolution or HaloConvolution, as implementations of the list have it.
#pragma once

#include "device/side_stream.h"
#include "layers/conv2d/conv2d_moments.h"
#include "layers/conv2d/wgmma/wgmma_convolution.cuh"

namespace duet {

template <class T, class Convolution>
class Conv2dStaged : public Conv2dImpl {
 public:
  Conv2dStaged(const Conv2dProblem& problem, const Context& context)
      : Conv2dImpl(problem), convolution_(problem, context.workspace_limit()) {}

  size_t workspace_bytes(Pass pass) const override { return convolution_.workspace_bytes(pass); }
  std::string detail(Pass pass) const override { return convolution_.text(pass); }
  /// Staged x and dy have their channels last, and w is a matrix [k][(r,s,c)] in the type of x, all
  /// with channels padded by zeros to whole 16 bytes.
  std::vector<PortUse> ports(Pass pass, bool inference) const override {
    using Access = PortUse::Access;
    if (inference) return {};
    std::vector<PortUse> ports;
    const auto add = [&](Port port, Access access, size_t bytes) {
      if (bytes > 0) ports.push_back({port, access, opaque(bytes)});
    };
    const size_t x = convolution_.staged_x_bytes(), dy = convolution_.staged_dy_bytes();
    const size_t w = convolution_.staged_w_bytes();
    if (pass == Pass::kForward) {
      ports = y_moments_of(convolution_.moment_parts(), problem_.k);
      add(&Ports::staged_x, Access::kLeaves, x);
      add(&Ports::staged_w, Access::kLeaves, w);
    } else if (pass == Pass::kBackwardFilter && Convolution::kStagesFilter) {
      add(&Ports::staged_x, Access::kTakes, x);
      add(&Ports::staged_dy, Access::kLeaves, dy);
    } else if (pass == Pass::kBackwardData) {
      add(&Ports::staged_dy, Access::kTakes, dy);
      if (!convolution_.turns_weights()) add(&Ports::staged_w, Access::kTakes, w);
    }
    return ports;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    convolution_.forward(run, x, w, b.data<float>(), y, ChannelMoments::at(run.ports.y_moments),
                         shared(run));
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    convolution_.backward_data(run, dy, nullptr, w, dx, shared(run));
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    const SharedImages<T> images = shared(run);
    if (images.dy) convolution_.stage_dy(run, dy, nullptr, images.dy);
    convolution_.backward_filter(aside(run), x, dy, nullptr, dw.data<float>(), db.data<float>(),
                                 images);
  }

 private:
  static SharedImages<T> shared(const Run& run) {
    const Ports& ports = run.ports;
    return {ports.staged_x.data<T>(), ports.staged_dy.data<T>(), ports.staged_w.data<T>()};
  }

  const Convolution convolution_;
};

template <class T, bool kSplit>
using Conv2dWgmma = Conv2dStaged<T, WgmmaConvolution<T, kSplit>>;

}  // namespace duet
