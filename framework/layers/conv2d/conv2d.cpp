#include "layers/conv2d/conv2d.h"

#include <limits>

namespace duet {

// Each in the file of its name.
ImplEntry<Conv2dProblem> conv2d_cpu_blas();
ImplEntry<Conv2dProblem> conv2d_custom_depthwise();
ImplEntry<Conv2dProblem> conv2d_custom_direct();
ImplEntry<Conv2dProblem> conv2d_custom_direct_3xtf32();
ImplEntry<Conv2dProblem> conv2d_custom_im2col();
ImplEntry<Conv2dProblem> conv2d_custom_implicit_gemm();
ImplEntry<Conv2dProblem> conv2d_custom_implicit_gemm_double_buffered();
ImplEntry<Conv2dProblem> conv2d_custom_implicit_gemm_register_tiled();
ImplEntry<Conv2dProblem> conv2d_custom_implicit_gemm_tiled();
ImplEntry<Conv2dProblem> conv2d_custom_mma();
ImplEntry<Conv2dProblem> conv2d_custom_mma_3xtf32();
ImplEntry<Conv2dProblem> conv2d_custom_naive();
ImplEntry<Conv2dProblem> conv2d_custom_wgmma();
ImplEntry<Conv2dProblem> conv2d_custom_wgmma_3xtf32();
ImplEntry<Conv2dProblem> conv2d_custom_wgmma_halo();
ImplEntry<Conv2dProblem> conv2d_custom_winograd();
ImplEntry<Conv2dProblem> conv2d_custom_winograd_3xtf32();
ImplEntry<Conv2dProblem> conv2d_cudnn();
ImplEntry<Conv2dProblem> conv2d_cudnn_cufft();
ImplEntry<Conv2dProblem> conv2d_cudnn_graph();
ImplEntry<Conv2dProblem> conv2d_cudnn_im2col_cublas();

std::vector<ImplEntry<Conv2dProblem>>& conv2d_impls() {
  static std::vector<ImplEntry<Conv2dProblem>> list = {
    conv2d_cpu_blas(),
    conv2d_cpu_reference(),
#if DUET_WITH_CUDA
    conv2d_custom_direct(),
    conv2d_custom_direct_3xtf32(),
    conv2d_custom_winograd(),
    conv2d_custom_wgmma(),
    conv2d_custom_wgmma_halo(),
    conv2d_custom_mma(),
    conv2d_custom_mma_3xtf32(),
    conv2d_custom_implicit_gemm(),
    conv2d_custom_winograd_3xtf32(),
    conv2d_custom_wgmma_3xtf32(),
    conv2d_custom_depthwise(),
    conv2d_custom_implicit_gemm_double_buffered(),
    conv2d_custom_implicit_gemm_register_tiled(),
    conv2d_custom_implicit_gemm_tiled(),
    conv2d_custom_im2col(),
    conv2d_custom_naive(),
    conv2d_cudnn(),
    conv2d_cudnn_graph(),
    conv2d_cudnn_im2col_cublas(),
    conv2d_cudnn_cufft(),
#endif
  };
  return list;
}

namespace {

std::string by(int64_t a, int64_t b) { return std::to_string(a) + "x" + std::to_string(b); }

int to_int(int64_t size, const char* name) {
  if (size < 1 || size > std::numeric_limits<int>::max()) {
    throw ShapeError(std::string(name) + " is " + std::to_string(size) +
                     "; it must be 1 to 2^31-1");
  }
  return static_cast<int>(size);
}

/// Outputs along one axis, or 0 if the kernel does not fit.
int64_t outputs_along(int64_t input, int64_t kernel, int64_t stride, int64_t padding,
                      int64_t dilation) {
  const int64_t room = input + 2 * padding - (dilation * (kernel - 1) + 1);
  return room < 0 ? 0 : room / stride + 1;
}

}  // namespace

Conv2dParams Conv2dParams::read(ConfigReader& reader) {
  Conv2dParams params;
  params.out_channels = reader.integer("out_channels");
  params.kernel = reader.integer_pair("kernel", {}, 1);
  params.stride = reader.integer_pair("stride", 1, 1);
  params.padding = reader.integer_pair("padding", 0, 0);
  params.dilation = reader.integer_pair("dilation", 1, 1);
  params.groups = reader.integer("groups", 1);
  params.bias = reader.flag("bias", true);
  params.init = read_init(reader);
  return params;
}

bool Conv2dParams::change_option(size_t number) {
  switch (number) {
    case 0:
      bias = !bias;
      return true;
    case 1:
      make_uneven(stride);
      return true;
    case 2:
      out_channels += groups;  // no multiple of a tile
      return true;
    case 3:
      make_uneven(kernel);
      return true;
    case 4:
      make_uneven(padding);
      return true;
    case 5:
      make_uneven(dilation);
      return true;
    default:
      return false;
  }
}

std::string Conv2dProblem::to_string() const {
  const auto field = [](const char* name, int value) {
    return std::string(name) + "=" + std::to_string(value) + " ";
  };
  return field("n", n) + field("c", c) + field("h", h) + field("w", w) + field("k", k) +
         field("r", r) + field("s", s) + field("p", p) + field("q", q) +
         "stride=" + by(stride_h, stride_w) + " pad=" + by(pad_h, pad_w) +
         " dilation=" + by(dilation_h, dilation_w) + " " + field("groups", groups) +
         "bias=" + (bias ? "true " : "false ") + std::string(duet::to_string(layout)) + " " +
         std::string(duet::to_string(math)) + " " + std::string(duet::to_string(dtype));
}

Conv2dProblem conv2d_problem(const Conv2dParams& params, const TensorDesc& x,
                             const LayerOptions& options) {
  if (x.shape.rank() != 4) {
    throw ShapeError("a convolution takes images (N x C x H x W), not " + x.shape.to_string());
  }
  const int64_t c = x.shape[1], h = x.shape[2], w = x.shape[3];
  const auto [kernel_h, kernel_w] = params.kernel;
  if (c % params.groups != 0) {
    throw ShapeError("the input's " + std::to_string(c) + " channels do not divide into " +
                     std::to_string(params.groups) + " groups");
  }
  if (params.out_channels % params.groups != 0) {
    throw ShapeError("out_channels " + std::to_string(params.out_channels) +
                     " do not divide into " + std::to_string(params.groups) + " groups");
  }
  const auto [pad_h, pad_w] = params.padding;
  if (h + 2 * pad_h > ConfigReader::kMaxInteger || w + 2 * pad_w > ConfigReader::kMaxInteger) {
    throw ShapeError("padding " + by(pad_h, pad_w) + " around an input of " + by(h, w) +
                     " makes more than 2^31-1 rows or columns");
  }
  const int64_t p =
      outputs_along(h, kernel_h, params.stride.first, params.padding.first, params.dilation.first);
  const int64_t q = outputs_along(w, kernel_w, params.stride.second, params.padding.second,
                                  params.dilation.second);
  if (p == 0 || q == 0) {
    std::string kernel = "kernel " + by(kernel_h, kernel_w);
    if (params.dilation != std::pair<int64_t, int64_t>{1, 1}) {
      kernel += " with dilation " + by(params.dilation.first, params.dilation.second) + " spans " +
                by(params.dilation.first * (kernel_h - 1) + 1,
                   params.dilation.second * (kernel_w - 1) + 1) +
                " and";
    }
    throw ShapeError(kernel + " is larger than the input of " + by(h, w) + " with padding " +
                     by(params.padding.first, params.padding.second));
  }
  const Conv2dProblem problem = {.n = to_int(x.shape[0], "the batch"),
                                 .c = to_int(c, "channels"),
                                 .h = to_int(h, "height"),
                                 .w = to_int(w, "width"),
                                 .k = to_int(params.out_channels, "out_channels"),
                                 .r = to_int(kernel_h, "kernel"),
                                 .s = to_int(kernel_w, "kernel"),
                                 .p = to_int(p, "the output's height"),
                                 .q = to_int(q, "the output's width"),
                                 .stride_h = to_int(params.stride.first, "stride"),
                                 .stride_w = to_int(params.stride.second, "stride"),
                                 .pad_h = static_cast<int>(params.padding.first),
                                 .pad_w = static_cast<int>(params.padding.second),
                                 .dilation_h = to_int(params.dilation.first, "dilation"),
                                 .dilation_w = to_int(params.dilation.second, "dilation"),
                                 .groups = to_int(params.groups, "groups"),
                                 .bias = params.bias,
                                 .layout = x.layout,
                                 .math = options.math,
                                 .dtype = x.dtype};
  for (const TensorDesc& t : {problem.w_desc(), problem.y_desc()}) t.elements();  // can be counted
  return problem;
}

std::vector<ParameterSpec> conv2d_parameters(const Conv2dProblem& problem, Init init) {
  // Fans as PyTorch counts them: groups reduce fan_in but not fan_out.
  const int64_t taps = int64_t{problem.r} * problem.s;
  const int64_t fan_in = problem.channels_per_group() * taps;
  const int64_t fan_out = problem.k * taps;
  std::vector<ParameterSpec> parameters = {{.name = "weight",
                                            .desc = problem.w_desc(),
                                            .init = init,
                                            .fan_in = fan_in,
                                            .fan_out = fan_out}};
  if (problem.bias) {
    parameters.push_back({.name = "bias",
                          .desc = problem.b_desc(),
                          .init = init == Init::kDefault ? Init::kDefault : Init::kZeros,
                          .fan_in = fan_in,
                          .fan_out = fan_out});
  }
  return parameters;
}

std::vector<ShapeWord> conv2d_shape_words() {
  return {{"k", "out_channels"},
          {"r", "kernel", 0},
          {"s", "kernel", 1},
          {"pad", "padding"},
          {"g", "groups"}};
}

Conv2dLayer::Conv2dLayer(ConfigReader& reader)
    : LayerOf("conv2d", conv2d_impls(), three_passes()), params_(Conv2dParams::read(reader)) {}

Conv2dProblem Conv2dLayer::infer(const std::vector<TensorDesc>& inputs,
                                 const LayerOptions& options) {
  const Conv2dProblem problem = conv2d_problem(params_, inputs[0], options);
  outputs_ = {problem.y_desc()};
  parameters_ = conv2d_parameters(problem, params_.init);
  return problem;
}

const LayerType& conv2d_type() {
  static const LayerType type = layer_type<Conv2dLayer, conv2d_impls>(
      "conv2d", "2-D convolution (cross-correlation) with optional bias", conv2d_shape_words());
  return type;
}

}  // namespace duet
