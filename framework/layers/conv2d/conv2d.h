// conv2d: 2-D cross-correlation, as torch.nn.Conv2d.
//
//   y[n,k,p,q] = b[k] + sum over c,r,s of
//                x[n, g*C/G + c, p*stride_h + r*dilation_h - pad_h, q*stride_w + ...] * w[k,c,r,s]
//
// with g = k / (K/G) the group of filter k; x outside the image counts as 0.
// Sizes: P = (H + 2*pad_h - dilation_h*(R-1) - 1) / stride_h + 1 (rounded down), Q likewise.
// Keys: out_channels (required), kernel (required; k or [r, s]), stride 1, padding 0, dilation 1,
// groups 1, bias true, init default.
#pragma once

#include "layers/layer.h"

namespace duet {

struct Conv2dParams {
  int64_t out_channels = 1;
  std::pair<int64_t, int64_t> kernel = {1, 1};  // {R, S}
  std::pair<int64_t, int64_t> stride = {1, 1};  // {height, width}
  std::pair<int64_t, int64_t> padding = {0, 0};
  std::pair<int64_t, int64_t> dilation = {1, 1};
  int64_t groups = 1;
  bool bias = true;
  Init init = Init::kDefault;

  static Conv2dParams read(ConfigReader& reader);
  static constexpr size_t kOptions = 6;
  /// As Layer::change_option(), of kOptions.
  bool change_option(size_t number);
};

/// All sizes of one convolution. Tensors: x N,C,H,W; w K,C/groups,R,S; b K; y N,K,P,Q, each in
/// `layout` (w: KCRS for NCHW, KRSC for NHWC).
struct Conv2dProblem {
  int n = 1, c = 1, h = 1, w = 1;
  int k = 1, r = 1, s = 1;
  int p = 1, q = 1;
  int stride_h = 1, stride_w = 1;
  int pad_h = 0, pad_w = 0;
  int dilation_h = 1, dilation_w = 1;
  int groups = 1;
  bool bias = true;
  Layout layout = Layout::kNCHW;
  Math math = Math::kFP32;
  DType dtype = DType::kFloat32;

  int channels_per_group() const { return c / groups; }
  /// Multiply-adds of a pass, those with padding counted too.
  int64_t products() const {
    return saturated_product_of({n, k, p, q, channels_per_group(), r, s});
  }
  TensorDesc x_desc() const { return {{n, c, h, w}, dtype, layout}; }
  TensorDesc w_desc() const {
    return {{k, channels_per_group(), r, s}, accumulator_of(dtype), layout};
  }
  TensorDesc b_desc() const { return {{k}, accumulator_of(dtype)}; }
  TensorDesc y_desc() const { return {{n, k, p, q}, dtype, layout}; }
  std::string to_string() const;
};

/// The shape rule alone, for layers that contain a convolution. Throws ShapeError.
Conv2dProblem conv2d_problem(const Conv2dParams& params, const TensorDesc& x,
                             const LayerOptions& options);
/// weight (and bias) of a convolution.
std::vector<ParameterSpec> conv2d_parameters(const Conv2dProblem& problem, Init init);
/// cuDNN's letters for the keys of a convolution.
std::vector<ShapeWord> conv2d_shape_words();

class Conv2dLayer : public LayerOf<Conv2dLayer, Conv2dProblem> {
 public:
  explicit Conv2dLayer(ConfigReader& reader);

  double flops(Pass) const override { return 2.0 * static_cast<double>(problem().products()); }
  bool change_option(size_t number) override { return params_.change_option(number); }

 protected:
  Conv2dProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions& options) override;

 private:
  Conv2dParams params_;
};

const LayerType& conv2d_type();

/// backward_data: dx = dy convolved with w transposed; backward_filter: dw[k,c,r,s] = sum over n,p,q
/// of dy[n,k,p,q] * x[n,c,...], db[k] = sum over n,p,q of dy.
using Conv2dImpl = WeightedImpl<Conv2dProblem>;

ImplEntry<Conv2dProblem> conv2d_cpu_reference();

/// The entry of two class templates, each for a layout and of the C++ type that it stores.
template <template <class> class Nchw, template <class> class Nhwc>
ImplEntry<Conv2dProblem> layouts_entry(std::string_view id,
                                       Unsupported<Conv2dProblem> unsupported) {
  auto entry = gpu_entry<Nchw>(id, unsupported);
  entry.make = [](const Conv2dProblem& problem, Context& context) {
    const auto entry = problem.layout == Layout::kNCHW ? gpu_entry<Nchw>("") : gpu_entry<Nhwc>("");
    return entry.make(problem, context);
  };
  return entry;
}

/// The reference in double on a GPU; in no list (layers/gpu_reference.h).
std::unique_ptr<Implementation> make_conv2d_gpu_reference(const Conv2dProblem& problem);

std::vector<ImplEntry<Conv2dProblem>>& conv2d_impls();

}  // namespace duet
