// conv2d_pool_relu custom_wgmma_3xtf32: forward and backward_data of custom_wgmma's images eight side by side for fp32, each product as
//           three of tf32 (conv2d_pool_relu_wgmma_blocks.h).
// Mapping:  block = tiles of 8 units of 2x2 outputs of eight images x 64 filters (backward_data: 64 channels), a unit a warp.
// Traffic:  weights once a tile, x 2.6 times, dy about twice.
// Limits:   fp32, 3x3, strides and dilations of 1, no groups, padding of 2 at most, nchw; pooling 2x2 with stride 2; four windows a row
//           or more; Hopper; no backward_filter.
#include "device/likely_multiprocessors.h"
#include "kernels/wgmma_product.cuh"
#include "layers/conv2d/packed_argmax.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_wgmma_blocks.h"

namespace duet {
namespace {

class Conv2dPoolReluCustomWgmma3xtf32 : public Conv2dPoolReluImpl {
 public:
  explicit Conv2dPoolReluCustomWgmma3xtf32(const Conv2dPoolReluProblem& problem)
      : Conv2dPoolReluImpl(problem),
        forward_(pooled_part(problem.conv), likely_multiprocessor_count()),
        backward_data_(pooled_part(problem.conv), likely_multiprocessor_count()) {}

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? forward_.workspace_bytes() : backward_data_.workspace_bytes();
  }
  size_t state_bytes() const override { return packed_argmax_bytes(problem_.conv); }
  std::string detail(Pass pass) const override {
    return pass == Pass::kForward ? forward_.text() : backward_data_.text();
  }
  bool possible(Pass pass) const {
    return pass == Pass::kForward ? forward_.possible() : backward_data_.possible();
  }
  bool worthwhile(Pass pass) const {
    return pass == Pass::kForward ? forward_.worthwhile() : backward_data_.worthwhile();
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    forward_.run(run, x, w, b, y, state);
  }
  void backward_data(const Run& run, const Tensor&, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    backward_data_.run(run, dy, state, w, dx);
  }
  void backward_filter(const Run&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                       const Tensor&, const Tensor&) override {}  // unsupported

 private:
  const BlockForward forward_;
  const BlockBackwardData backward_data_;
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = fp32_only(problem.conv, pass)) return reason;
  if (auto reason = window_unsupported(problem)) return reason;
  if (pass == Pass::kBackwardFilter) return "has no backward_filter";
  if (auto reason = block_product_unsupported(problem.conv)) return reason;
  if (!Conv2dPoolReluCustomWgmma3xtf32(problem).possible(pass)) {
    return "takes four windows a row or more";
  }
  return wgmma_unsupported();
}

bool preferred(const Conv2dPoolReluProblem& problem, Pass pass, size_t) {
  return problem.conv.c >= 64 && problem.conv.k >= 64 &&
         Conv2dPoolReluCustomWgmma3xtf32(problem).worthwhile(pass);
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_wgmma_3xtf32() {
  auto entry = impl_entry<Conv2dPoolReluCustomWgmma3xtf32>("custom_wgmma_3xtf32", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
