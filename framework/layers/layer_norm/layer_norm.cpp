#include "layers/layer_norm/layer_norm.h"

#include "core/number_text.h"

namespace duet {

// Each in the file of its name.
ImplEntry<LayerNormProblem> layer_norm_cpu_reference();
ImplEntry<LayerNormProblem> layer_norm_custom_welford();
ImplEntry<LayerNormProblem> layer_norm_custom_two_pass();

// No cudnn entry: cuDNN has layer normalisation in its graphs alone, which are not used here. The
// cudnn family takes the shared entries.
std::vector<ImplEntry<LayerNormProblem>>& layer_norm_impls() {
  static std::vector<ImplEntry<LayerNormProblem>> list = {
    layer_norm_cpu_reference(),
#if DUET_WITH_CUDA
    layer_norm_custom_welford(),
    layer_norm_custom_two_pass(),
#endif
  };
  return list;
}

int64_t LayerNormProblem::columns() const {
  int64_t columns = 1;
  for (int i = x.shape.rank() - axes; i < x.shape.rank(); ++i) columns *= x.shape[i];
  return columns;
}

int64_t LayerNormProblem::offset(int64_t row, int64_t column) const {
  const int64_t i = row * columns() + column;
  const Shape& s = x.shape;
  if (s.rank() != 4 || x.layout == Layout::kNCHW) return i;
  return offset_of(x, i / s[3] / s[2] / s[1], i / s[3] / s[2] % s[1], i / s[3] % s[2], i % s[3]);
}

std::string LayerNormProblem::to_string() const {
  return "x=" + x.to_string() +
         printed(" axes=%d eps=%g affine=%s", axes, eps, affine ? "true" : "false");
}

LayerNormLayer::LayerNormLayer(ConfigReader& reader)
    : LayerOf("layer_norm", layer_norm_impls()),
      axes_(static_cast<int>(reader.integer("axes", 1, 1, Shape::kMaxRank - 1))),
      eps_(reader.number("eps", 1e-5, 0.0, 1e6)),
      affine_(reader.flag("affine", true)) {
  if (static_cast<float>(eps_) == 0.0f) reader.error("eps", "must be above 0");
}

LayerNormProblem LayerNormLayer::infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) {
  const TensorDesc& x = inputs[0];
  const int rank = x.shape.rank();
  if (rank <= axes_) {
    throw ShapeError("normalises the last " + std::to_string(axes_) +
                     (axes_ == 1 ? " axis" : " axes") + " and the batch before them, and " +
                     x.shape.to_string() + " has " + std::to_string(rank));
  }
  const LayerNormProblem problem = {
      .x = x, .axes = axes_, .eps = eps_, .affine = affine_, .dtype = x.dtype};
  constexpr int64_t kMost = int64_t{1} << 30;
  if (problem.rows() > kMost || problem.columns() > kMost) {
    throw ShapeError("takes at most 2^30 rows, of at most 2^30 values, not " + x.shape.to_string());
  }
  outputs_ = {x};
  if (affine_) {
    const Shape& s = x.shape;
    const Shape row = axes_ == 1   ? Shape{s[rank - 1]}
                      : axes_ == 2 ? Shape{s[rank - 2], s[rank - 1]}
                                   : Shape{s[rank - 3], s[rank - 2], s[rank - 1]};
    const TensorDesc desc = {row, accumulator_of(x.dtype)};
    parameters_ = {{.name = "weight", .desc = desc, .init = Init::kOnes},
                   {.name = "bias", .desc = desc, .init = Init::kZeros}};
  }
  return problem;
}

const LayerType& layer_norm_type() {
  static const LayerType type = layer_type<LayerNormLayer, layer_norm_impls>(
      "layer_norm", "normalises each row over its last axis, or its last few");
  return type;
}

}  // namespace duet
