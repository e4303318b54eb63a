// linear custom_wgmma: Hopper's tensor cores by wgmma and the copy engine; bf16. The product is that of
//           kernels/wgmma_product.cuh; matrices are images of one pixel.
// Mapping:  block = 128 rows x 256, 128 or 64 columns; one thread starts copies, two warpgroups
//           multiply. Where tiles are too few a sum is split, and a second kernel adds up.
// Traffic:  the weights are rounded to bf16 once, in the workspace; an operand is read once for each
//           tile along the other.
// Limits:   math bf16, features in whole 16 bytes (multiples of 8), 32-bit element numbers; compute
//           capability 9.0.
#include "core/arena.h"
#include "kernels/convert.h"
#include "kernels/wgmma_product.cuh"
#include "layers/linear/linear_epilogue.cuh"

namespace duet {
namespace {

class LinearCustomWgmma : public LinearImpl {
 public:
  LinearCustomWgmma(const LinearProblem& problem, const Context& context)
      : LinearImpl(problem),
        rows_(problem.n, 1, 1, kTileRows, false),
        terms_(problem.n, 1, 1, kStepDepth, true) {
    const int multiprocessors = multiprocessor_count();
    const auto [n, in, out] = std::tuple(problem.n, problem.in, problem.out);
    const size_t staged = weights_bytes(), limit = context.workspace_limit();
    const size_t left = limit > staged ? limit - staged : 0;
    forward_ = {
        rows_.count(),  out, ceil_div(in, kStepDepth), int64_t(stride(Pass::kForward)), left,
        multiprocessors};
    backward_data_ = {
        rows_.count(),  in, ceil_div(out, kStepDepth), int64_t(stride(Pass::kBackwardData)), left,
        multiprocessors};
    backward_filter_ = {ceil_div(out, kTileRows),
                        in,
                        terms_.count(),
                        static_cast<int64_t>(partial_stride(out, in)),
                        limit,
                        multiprocessors};
  }

  size_t workspace_bytes(Pass pass) const override {
    const WgmmaPlan& plan = plan_of(pass);
    const size_t parts = plan.splits > 1 ? sizeof(float) * plan.splits * stride(pass) : 0;
    return pass == Pass::kBackwardFilter ? parts : weights_bytes() + parts;
  }
  std::string detail(Pass pass) const override { return plan_of(pass).text(); }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    const bfloat16* const weights = stage(run, w);
    const ImageByPosition a = by_row(x, problem_.in);
    with_epilogue(problem_, [&](auto function) {
      forward_.with_tile([&]<class Tile>(Tile) {
        launch_rows<Tile>(run, Pass::kForward, a,
                          WeightByRow(weights, problem_.out, 1, problem_.in, Tile::kN),
                          b.data<float>(), y, function);
      });
    });
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    const WeightByChannel b(stage(run, w), problem_.out, 1, problem_.in);
    const ImageByPosition a = by_row(dy, problem_.out);
    backward_data_.with_tile(
        [&]<class Tile>(Tile) { launch_rows<Tile>(run, Pass::kBackwardData, a, b, nullptr, dx); });
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    const WgmmaPlan& plan = backward_filter_;
    const ImageByTap a{image(dy, problem_.out, terms_), terms_, problem_.out};
    const ImageByTap b{image(x, problem_.in, terms_), terms_, problem_.in};
    const bool whole = plan.splits == 1;
    const int weights = problem_.out * problem_.in;
    float* const parts = static_cast<float*>(run.workspace);
    float* const to = whole ? dw.data<float>() : parts;
    float* const sums = whole ? db.data<float>() : parts + weights;
    plan.with_tile([&]<class Tile>(Tile) {
      launch_wgmma_product<Tile>(
          plan, a, b,
          WgmmaResult<Layout::kNHWC, float>{to, nullptr, problem_.in, 1,
                                            stride(Pass::kBackwardFilter), sums},
          run.stream());
    });
    if (whole) return;
    launch_reduce_splits(parts, plan.splits, stride(Pass::kBackwardFilter), weights + problem_.out,
                         weights, dw.data<float>(), db.data<float>(), run.stream());
  }

 private:
  static constexpr int kTileRows = 128;

  const WgmmaPlan& plan_of(Pass pass) const {
    return pass == Pass::kForward        ? forward_
           : pass == Pass::kBackwardData ? backward_data_
                                         : backward_filter_;
  }
  size_t weights_bytes() const {
    return align_up(sizeof(bfloat16) * problem_.in * size_t(problem_.out));
  }
  /// Floats between two parts.
  size_t stride(Pass pass) const {
    if (pass == Pass::kBackwardFilter) return partial_stride(problem_.out, problem_.in);
    return (size_t(problem_.n) * (pass == Pass::kForward ? problem_.out : problem_.in) + 3) / 4 * 4;
  }
  const bfloat16* stage(const Run& run, const Tensor& w) const {
    auto* const staged = static_cast<bfloat16*>(run.workspace);
    queue_conversion(w.data<float>(), staged, w.elements(), run.stream());
    return staged;
  }
  TapImage image(const Tensor& matrix, int features, const PositionBoxes& boxes) const {
    return {matrix.data<bfloat16>(), problem_.n, 1, 1, features, {}, {}, boxes};
  }
  ImageByPosition by_row(const Tensor& matrix, int features) const {
    return {image(matrix, features, rows_), rows_};
  }
  template <class Tile, class B, class Function = std::identity>
  void launch_rows(const Run& run, Pass pass, const ImageByPosition& a, const B& b,
                   const float* bias, const Tensor& out, Function function = {}) const {
    const WgmmaPlan& plan = plan_of(pass);
    if (plan.splits == 1) {
      launch_wgmma_product<Tile>(plan, a, b,
                                 WgmmaResult<Layout::kNHWC, bfloat16, Function>{
                                     out.data<bfloat16>(), bias, plan.columns, 1},
                                 run.stream());
      return;
    }
    auto* const parts =
        reinterpret_cast<float*>(static_cast<char*>(run.workspace) + weights_bytes());
    launch_wgmma_product<Tile>(
        plan, a, b,
        WgmmaResult<Layout::kNHWC, float>{parts, nullptr, plan.columns, 1, stride(pass)},
        run.stream());
    launch_sum_images<Layout::kNHWC>(parts, plan.splits, stride(pass),
                                     static_cast<int>(out.elements()), plan.columns, 1, bias,
                                     out.data<bfloat16>(), run.stream(), function);
  }

  const PositionBoxes rows_, terms_;
  WgmmaPlan forward_, backward_data_, backward_filter_;
};

std::optional<std::string> unsupported(const LinearProblem& problem, Pass) {
  if (problem.math != Math::kBF16) {
    return "multiplies in bf16, and 'math' is " + std::string(to_string(problem.math));
  }
  if (problem.in % 8 != 0 || problem.out % 8 != 0) {
    return "takes features in multiples of 8, whole 16 bytes";
  }
  constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
  for (const TensorDesc& t : {problem.x_desc(), problem.w_desc(), problem.y_desc()}) {
    if (t.elements() > kMost) return "numbers elements in 32 bits; use a smaller batch";
  }
  constexpr int kMostLines = 64 * 65535;  // 65535 is the end of a grid's second dimension
  if (problem.in > kMostLines || problem.out > kMostLines) {
    return "has tiles for up to " + std::to_string(kMostLines) + " features";
  }
  return wgmma_unsupported();
}

}  // namespace

ImplEntry<LinearProblem> linear_custom_wgmma() {
  return impl_entry<LinearCustomWgmma>("custom_wgmma", unsupported, {DType::kBFloat16});
}

}  // namespace duet
