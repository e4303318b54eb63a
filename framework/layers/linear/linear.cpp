#include "layers/linear/linear.h"

namespace duet {

// Each in the file of its name.
ImplEntry<LinearProblem> linear_cpu_blas();
ImplEntry<LinearProblem> linear_custom_coalesced();
ImplEntry<LinearProblem> linear_custom_large_tile();
ImplEntry<LinearProblem> linear_custom_mma();
ImplEntry<LinearProblem> linear_custom_naive();
ImplEntry<LinearProblem> linear_custom_register_tiled();
ImplEntry<LinearProblem> linear_custom_split_k();
ImplEntry<LinearProblem> linear_custom_thread_tiled();
ImplEntry<LinearProblem> linear_custom_tiled();
ImplEntry<LinearProblem> linear_custom_vectorised();
ImplEntry<LinearProblem> linear_custom_wgmma();
ImplEntry<LinearProblem> linear_custom_wgmma_3xtf32();
ImplEntry<LinearProblem> linear_cudnn_cublas();

std::optional<std::string> linear_tiles_unsupported(const LinearProblem& problem, Pass pass) {
  constexpr int kMostRows = 32 * 65535;  // 65535 is the end of a grid's second dimension
  const int rows = pass == Pass::kBackwardFilter ? problem.out : problem.n;
  if (rows > kMostRows) return "has tiles for up to " + std::to_string(kMostRows) + " rows";
  return {};
}

std::vector<ImplEntry<LinearProblem>>& linear_impls() {
  static std::vector<ImplEntry<LinearProblem>> list = {
    linear_cpu_blas(),
    linear_cpu_reference(),
#if DUET_WITH_CUDA
    linear_custom_wgmma(),
    linear_custom_mma(),
    linear_custom_register_tiled(),
    linear_custom_wgmma_3xtf32(),
    linear_custom_large_tile(),
    linear_custom_split_k(),
    linear_custom_vectorised(),
    linear_custom_thread_tiled(),
    linear_custom_tiled(),
    linear_custom_coalesced(),
    linear_custom_naive(),
    linear_cudnn_cublas(),
#endif
  };
  return list;
}

LinearParams LinearParams::read(ConfigReader& reader) {
  LinearParams params;
  params.out_features = reader.integer("out_features");
  params.bias = reader.flag("bias", true);
  params.init = read_init(reader);
  return params;
}

bool LinearParams::change_option(size_t number) {
  if (number == 0) ++out_features;  // no multiple of a tile
  if (number == 1) bias = !bias;
  return number < 2;
}

std::string LinearProblem::to_string() const {
  return "n=" + std::to_string(n) + " in=" + std::to_string(in) + " out=" + std::to_string(out) +
         " bias=" + (bias ? "true" : "false") + " " + std::string(duet::to_string(math)) + " " +
         std::string(duet::to_string(dtype));
}

LinearProblem linear_problem(const LinearParams& params, const TensorDesc& x,
                             const LayerOptions& options) {
  if (x.shape.rank() != 2) {
    throw ShapeError("linear takes features (N x F), but its input is " + x.shape.to_string() +
                     (x.shape.rank() > 2 ? "; put a flatten layer before it" : ""));
  }
  if (x.shape[0] > ConfigReader::kMaxInteger || x.shape[1] > ConfigReader::kMaxInteger) {
    throw ShapeError("linear takes up to 2^31-1 rows and features, but its input is " +
                     x.shape.to_string());
  }
  return {.n = static_cast<int>(x.shape[0]),
          .in = static_cast<int>(x.shape[1]),
          .out = static_cast<int>(params.out_features),
          .bias = params.bias,
          .math = options.math,
          .dtype = x.dtype};
}

std::vector<ParameterSpec> linear_parameters(const LinearProblem& problem, Init init) {
  std::vector<ParameterSpec> parameters = {{.name = "weight",
                                            .desc = problem.w_desc(),
                                            .init = init,
                                            .fan_in = problem.in,
                                            .fan_out = problem.out}};
  if (problem.bias) {
    parameters.push_back({.name = "bias",
                          .desc = problem.b_desc(),
                          .init = init == Init::kDefault ? Init::kDefault : Init::kZeros,
                          .fan_in = problem.in,
                          .fan_out = problem.out});
  }
  return parameters;
}

LinearLayer::LinearLayer(ConfigReader& reader)
    : LayerOf("linear", linear_impls(), three_passes()), params_(LinearParams::read(reader)) {}

LinearProblem LinearLayer::infer(const std::vector<TensorDesc>& inputs,
                                 const LayerOptions& options) {
  const LinearProblem problem = linear_problem(params_, inputs[0], options);
  outputs_ = {problem.y_desc()};
  parameters_ = linear_parameters(problem, params_.init);
  return problem;
}

const LayerType& linear_type() {
  static const LayerType type = layer_type<LinearLayer, linear_impls>(
      "linear", "y = x w^T + b over the features", {{"out", "out_features"}});
  return type;
}

}  // namespace duet
