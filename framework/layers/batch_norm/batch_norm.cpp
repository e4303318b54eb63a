#include "layers/batch_norm/batch_norm.h"

#include <charconv>

#include "layers/composed_block.h"

namespace duet {

// Each in the file of its name.
ImplEntry<BatchNormProblem> batch_norm_cpu_reference();
ImplEntry<BatchNormProblem> batch_norm_custom_cluster();
ImplEntry<BatchNormProblem> batch_norm_custom_two_pass();
ImplEntry<BatchNormProblem> batch_norm_custom_welford();
ImplEntry<BatchNormProblem> batch_norm_cudnn();
ImplEntry<BatchNormProblem> batch_norm_cudnn_graph();
ImplEntry<BatchNormProblem> batch_norm_cudnn_persistent();
// In layers/batch_norm_relu/batch_norm_relu_composed.cpp.
ImplEntry<BatchNormProblem> batch_norm_relu_cpu_reference();
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn();
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn_persistent();
ImplEntry<BatchNormProblem> batch_norm_relu_custom_composed();

std::vector<ImplEntry<BatchNormProblem>>& batch_norm_impls() {
  static std::vector<ImplEntry<BatchNormProblem>> list = {
    batch_norm_cpu_reference(),
#if DUET_WITH_CUDA
    batch_norm_custom_welford(),
    batch_norm_custom_cluster(),
    batch_norm_custom_two_pass(),
    batch_norm_cudnn(),
    batch_norm_cudnn_persistent(),
    batch_norm_cudnn_graph(),
#endif
  };
  return list;
}

std::vector<ImplEntry<BatchNormProblem>>& batch_norm_relu_impls() {
  static std::vector<ImplEntry<BatchNormProblem>> list = {
    batch_norm_relu_cpu_reference(),
#if DUET_WITH_CUDA
    batch_norm_custom_welford(),
    batch_norm_custom_cluster(),
    batch_norm_custom_two_pass(),
    batch_norm_relu_custom_composed(),
    batch_norm_relu_cudnn(),
    batch_norm_relu_cudnn_persistent(),
    batch_norm_cudnn_graph(),
#endif
  };
  return list;
}

namespace {

// The shortest text that is read as the same number.
std::string exact_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

BatchNormParams BatchNormParams::read(ConfigReader& reader) {
  BatchNormParams params;
  params.eps = reader.number("eps", params.eps, 0.0, 1e6);
  if (static_cast<float>(params.eps) == 0.0f) reader.error("eps", "must be above 0");
  params.momentum = reader.number("momentum", params.momentum, 0.0, 1.0);
  params.affine = reader.flag("affine", params.affine);
  return params;
}

bool BatchNormParams::change_option(size_t number) {
  if (number == 0) eps *= 100;  // less of it would not show
  if (number == 1) affine = !affine;
  if (number == 2) momentum = 1 - momentum;
  return number < kOptions;
}

int64_t BatchNormProblem::inner() const {
  if (channels() == 1) return count();
  return x.shape.rank() == 4 && x.layout == Layout::kNCHW ? x.shape[2] * x.shape[3] : 1;
}

std::string BatchNormProblem::to_string() const {
  const Shape& s = x.shape;
  const bool image = s.rank() == 4;
  std::string text = "n=" + std::to_string(s[0]) + (image ? " c=" : " in=") + std::to_string(s[1]);
  if (image) text += " h=" + std::to_string(s[2]) + " w=" + std::to_string(s[3]);
  text += " eps=" + exact_text(eps) + " momentum=" + exact_text(momentum) +
          " affine=" + (affine ? "true" : "false");
  if (image) text += " " + std::string(duet::to_string(x.layout));
  return text + " " + std::string(duet::to_string(dtype));
}

std::optional<std::string> BatchNormProblem::untrainable() const {
  if (count() > 1) return {};
  return "has 1 value a channel (" + x.shape.to_string() +
         "), and training needs 2 for a variance; use a larger batch";
}

BatchNormProblem batch_norm_problem(const BatchNormParams& params, const TensorDesc& x, bool relu,
                                    const LayerOptions& options) {
  return {.x = x,
          .eps = params.eps,
          .momentum = params.momentum,
          .affine = params.affine,
          .relu = relu,
          .dtype = x.dtype,
          .evaluated = options.evaluated};
}

std::optional<std::string> backward_needs_training(const BatchNormProblem& problem, Pass pass) {
  if (pass == Pass::kForward || !problem.evaluated) return {};
  return kNoBackwardInEvaluation;
}

std::vector<ParameterSpec> batch_norm_parameters(const BatchNormProblem& problem) {
  std::vector<ParameterSpec> parameters;
  const auto add = [&](const char* name, Init init, ParameterSpec::Role role) {
    parameters.push_back(
        {.name = name, .desc = problem.channel_desc(), .init = init, .role = role});
  };
  using Role = ParameterSpec::Role;
  if (problem.affine) {
    add("weight", Init::kOnes, Role::kTrained);
    add("bias", Init::kZeros, Role::kTrained);
  }
  add("running_mean", Init::kZeros, Role::kBuffer);
  add("running_var", Init::kOnes, Role::kBuffer);
  return parameters;
}

BatchNormLayer::BatchNormLayer(ConfigReader& reader, int rank, bool relu)
    : LayerOf(relu ? (rank == 4 ? "batch_norm2d_relu" : "batch_norm1d_relu")
                   : (rank == 4 ? "batch_norm2d" : "batch_norm1d"),
              relu ? batch_norm_relu_impls() : batch_norm_impls()),
      rank_(rank),
      relu_(relu),
      params_(BatchNormParams::read(reader)) {}

BatchNormProblem BatchNormLayer::infer(const std::vector<TensorDesc>& inputs,
                                       const LayerOptions& options) {
  const TensorDesc& x = inputs[0];
  if (x.shape.rank() != rank_) {
    throw ShapeError(rank_ == 4 ? "takes images (N x C x H x W), not " + x.shape.to_string() +
                                      "; of features, batch_norm1d"
                                : "takes features (N x F), not " + x.shape.to_string() +
                                      "; of images, batch_norm2d");
  }
  const BatchNormProblem problem = batch_norm_problem(params_, x, relu_, options);
  outputs_ = {x};
  parameters_ = batch_norm_parameters(problem);
  return problem;
}

bool BatchNormLayer::shares_state(std::string_view a, std::string_view b) const {
  if (!relu_) return LayerOf::shares_state(a, b);
  const auto keeps_statistics_alone = [](std::string_view id) { return id == "cudnn_graph"; };
  return family_of(a) == family_of(b) && is_composed(a) == is_composed(b) &&
         keeps_statistics_alone(a) == keeps_statistics_alone(b);
}

std::optional<std::string> BatchNormLayer::untrainable() const { return problem().untrainable(); }

const LayerType& batch_norm1d_type() {
  static const LayerType type = layer_type<BatchNormLayer, batch_norm_impls, 2, false>(
      "batch_norm1d", "normalises each feature over the batch");
  return type;
}
const LayerType& batch_norm2d_type() {
  static const LayerType type = layer_type<BatchNormLayer, batch_norm_impls, 4, false>(
      "batch_norm2d", "normalises each channel over the batch");
  return type;
}
const LayerType& batch_norm1d_relu_type() {
  static const LayerType type = layer_type<BatchNormLayer, batch_norm_relu_impls, 2, true>(
      "batch_norm1d_relu", "batch_norm1d and relu in one", {}, {{{"batch_norm1d"}, {"relu"}}});
  return type;
}
const LayerType& batch_norm2d_relu_type() {
  static const LayerType type = layer_type<BatchNormLayer, batch_norm_relu_impls, 4, true>(
      "batch_norm2d_relu", "batch_norm2d and relu in one", {}, {{{"batch_norm2d"}, {"relu"}}});
  return type;
}

}  // namespace duet
