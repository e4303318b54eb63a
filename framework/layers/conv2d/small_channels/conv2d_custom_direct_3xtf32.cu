// conv2d custom_direct_3xtf32: custom_direct's products on tensor cores for fp32, each as three of tf32
//           (StoredMma3xTf32 of kernels/mma_tile.cuh).
// Mapping:  as direct_forward_product.cuh, direct_input_product.cuh and direct_filter_product.cuh have it.
// Traffic:  as there.
// Limits:   math fp32, nchw, up to 4 channels and 200 weights a filter, rows of y of whole 16 bytes; compute
//           capability 8.0.
// Measured: H200, 128x3x64x64 -> 64, 7x7 with stride 2: forward 69 us (cuDNN 129).
#include "layers/conv2d/conv2d_moments.h"
#include "layers/conv2d/small_channels/direct_products.cuh"

namespace duet {
namespace {

class Conv2dCustomDirect3xTf32 : public Conv2dImpl {
 public:
  explicit Conv2dCustomDirect3xTf32(const Conv2dProblem& problem)
      : Conv2dImpl(problem), products_(problem) {}

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kBackwardFilter ? products_.backward_filter->workspace_bytes() : 0;
  }
  std::string detail(Pass pass) const override { return products_.text(pass); }

  std::vector<PortUse> ports(Pass pass, bool inference) const override {
    if (pass != Pass::kForward || inference) return {};
    return y_moments_of(products_.forward->moment_parts(), problem_.k);
  }
  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    products_.forward->run(x.data<float>(), w.data<float>(), b.data<float>(), y.data<float>(),
                           run.stream(), ChannelMoments::at(run.ports.y_moments));
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    products_.backward_data->run(dy.data<float>(), w.data<float>(), dx.data<float>(), run.stream());
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    products_.backward_filter->run(x.data<float>(), dy.data<float>(), dw.data<float>(),
                                   db.data<float>(), run.workspace, run.stream());
  }

 private:
  const DirectProducts<StoredMma3xTf32, float> products_;
};

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass pass) {
  if (auto reason = fp32_only(problem, pass)) return reason;
  if (direct_product_possible(problem, pass)) return {};
  return no_direct_product(pass);
}

/// The float32 units of custom_direct take no longer where they have few products to make.
bool preferred(const Conv2dProblem& d, Pass pass, size_t) {
  if (pass == Pass::kForward) return direct_unsupported(d, pass).has_value();
  return pass == Pass::kBackwardData || filter_product_pays(d);
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_direct_3xtf32() {
  auto entry = impl_entry<Conv2dCustomDirect3xTf32>("custom_direct_3xtf32", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
