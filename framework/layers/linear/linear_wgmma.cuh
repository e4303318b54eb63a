// linear by wgmma (kernels/wgmma_product.cuh), for custom_wgmma and custom_wgmma_3xtf32: products of matrices by their rows, or
// turned by their columns.
#pragma once

#include "core/arena.h"
#include "kernels/convert.h"
#include "kernels/wgmma_product.cuh"
#include "layers/linear/linear_epilogue.cuh"

namespace duet {

/// x, y and their gradients are stored as T; of float tf32 is multiplied, or with kSplit fp32 in 3xTF32.
template <class T, bool kSplit>
class LinearWgmma : public LinearImpl {
 public:
  using Plan = WgmmaPlan<kSplit>;

  LinearWgmma(const LinearProblem& problem, const Context& context)
      : LinearWgmma(problem, context.workspace_limit()) {}
  LinearWgmma(const LinearProblem& problem, size_t limit) : LinearImpl(problem) {
    const int multiprocessors = likely_multiprocessor_count();
    const int row_tiles = ceil_div(problem.n, kTileRows);
    const auto [n, in, out] = std::tuple(problem.n, problem.in, problem.out);
    const auto left = [&](Pass pass) {
      return limit > staged_bytes(pass) ? limit - staged_bytes(pass) : 0;
    };
    forward_ = {row_tiles,
                out,
                ceil_div(in, kDepth),
                int64_t(stride(Pass::kForward)),
                left(Pass::kForward),
                multiprocessors};
    backward_data_ = {row_tiles,
                      in,
                      ceil_div(out, kDepth),
                      int64_t(stride(Pass::kBackwardData)),
                      left(Pass::kBackwardData),
                      multiprocessors,
                      kDataTurned};
    backward_filter_ = {ceil_div(out, kTileRows),
                        in,
                        ceil_div(n, kDepth),
                        static_cast<int64_t>(partial_stride(out, in)),
                        left(Pass::kBackwardFilter),
                        multiprocessors,
                        kFilterTurned};
  }

  size_t workspace_bytes(Pass pass) const override {
    const Plan& plan = plan_of(pass);
    const size_t parts = plan.splits > 1 ? sizeof(float) * plan.splits * stride(pass) : 0;
    return staged_bytes(pass) + parts;
  }
  /// An estimate.
  double microseconds(Pass pass) const { return plan_of(pass).microseconds(staged_bytes(pass)); }
  std::string detail(Pass pass) const override { return plan_of(pass).template text<T>(); }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    forward_by(run, x, weights(run, w), b, y);
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    backward_data_by(run, dy, weights(run, w), dx);
  }
  std::vector<PortUse> ports(Pass pass, bool) const override {
    if (kFloat || pass == Pass::kBackwardFilter) return {};
    TensorDesc rounded = problem_.w_desc();
    rounded.dtype = dtype_of<T>;
    return {{&Ports::prepared_w, PortUse::Access::kTakes, rounded}};
  }
  void prepare_weights(const Run& run, const LayerTensors& t) override {
    if constexpr (!kFloat) round(run, t.w[0], run.ports.prepared_w.data<T>());
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    const Plan& plan = backward_filter_;
    const size_t stride = this->stride(Pass::kBackwardFilter);
    const bool whole = plan.splits == 1;
    const int weights = problem_.out * problem_.in;
    float* const from = parts(run, Pass::kBackwardFilter);
    float* const to = whole ? dw.data<float>() : from;
    float* const sums = whole ? db.data<float>() : from + weights;
    plan.template with_tile<kFilterTurned>([&]<class Tile>(Tile) {
      launch_wgmma_product<Tile>(
          plan, by_column(dy, problem_.out), by_column(x, problem_.in),
          WgmmaResult<Layout::kNHWC, float>{to, nullptr, problem_.in, 1, stride, sums},
          run.stream());
    });
    if (whole) return;
    launch_reduce_splits(from, plan.splits, stride, weights + problem_.out, weights,
                         dw.data<float>(), db.data<float>(), run.stream());
  }

 private:
  static constexpr int kTileRows = 128, kDepth = kStepDepth<T>;
  static constexpr bool kFloat = std::is_same_v<T, float>;
  static constexpr TurnedFloats kDataTurned{.b = kFloat}, kFilterTurned{.a = kFloat, .b = kFloat};

  const Plan& plan_of(Pass pass) const {
    return pass == Pass::kForward        ? forward_
           : pass == Pass::kBackwardData ? backward_data_
                                         : backward_filter_;
  }
  /// Weights that are rounded first.
  size_t staged_bytes(Pass pass) const {
    if (kFloat || pass == Pass::kBackwardFilter) return 0;
    return align_up(sizeof(T) * problem_.in * size_t(problem_.out));
  }
  float* parts(const Run& run, Pass pass) const {
    return reinterpret_cast<float*>(static_cast<char*>(run.workspace) + staged_bytes(pass));
  }
  /// Floats between two parts.
  size_t stride(Pass pass) const {
    if (pass == Pass::kBackwardFilter) return partial_stride(problem_.out, problem_.in);
    return (size_t(problem_.n) * (pass == Pass::kForward ? problem_.out : problem_.in) + 3) / 4 * 4;
  }
  /// As they are multiplied.
  static const T* weights(const Run& run, const Tensor& w) {
    if constexpr (kFloat) {
      return w.data<float>();
    } else {
      if (run.ports.prepared_w) return run.ports.prepared_w.data<T>();
      auto* const rounded = static_cast<T*>(run.workspace);
      round(run, w, rounded);
      return rounded;
    }
  }
  static void round(const Run& run, const Tensor& w, T* to) {
    queue_conversion(w.data<float>(), to, w.elements(), run.stream());
  }
  void forward_by(const Run& run, const Tensor& x, const T* weights, const Tensor& b,
                  const Tensor& y) const {
    const MatrixRows<T> a = by_row(x, problem_.in);
    with_epilogue(problem_, [&](auto function) {
      forward_.with_tile([&]<class Tile>(Tile) {
        launch_rows<Tile>(run, Pass::kForward, a,
                          MatrixRows<T>(weights, problem_.out, problem_.in, Tile::kN),
                          b.data<float>(), y, function);
      });
    });
  }
  void backward_data_by(const Run& run, const Tensor& dy, const T* weights,
                        const Tensor& dx) const {
    const MatrixColumns<T> b(weights, problem_.out, problem_.in);
    backward_data_.template with_tile<kDataTurned>([&]<class Tile>(Tile) {
      launch_rows<Tile>(run, Pass::kBackwardData, by_row(dy, problem_.out), b, nullptr, dx);
    });
  }
  MatrixRows<T> by_row(const Tensor& matrix, int features) const {
    return {matrix.data<T>(), problem_.n, features, kTileRows};
  }
  MatrixColumns<T> by_column(const Tensor& matrix, int features) const {
    return {matrix.data<T>(), problem_.n, features};
  }
  template <class Tile, class B, class Function = std::identity>
  void launch_rows(const Run& run, Pass pass, const MatrixRows<T>& a, const B& b, const float* bias,
                   const Tensor& out, Function function = {}) const {
    const Plan& plan = plan_of(pass);
    if (plan.splits == 1) {
      launch_wgmma_product<Tile>(
          plan, a, b, WgmmaResult<Layout::kNHWC, T, Function>{out.data<T>(), bias, plan.columns, 1},
          run.stream());
      return;
    }
    float* const to = parts(run, pass);
    launch_wgmma_product<Tile>(
        plan, a, b, WgmmaResult<Layout::kNHWC, float>{to, nullptr, plan.columns, 1, stride(pass)},
        run.stream());
    launch_sum_images<Layout::kNHWC>(to, plan.splits, stride(pass),
                                     static_cast<int>(out.elements()), plan.columns, 1, bias,
                                     out.data<T>(), run.stream(), function);
  }

  Plan forward_, backward_data_, backward_filter_;
};

/// What LinearWgmma cannot do, whatever the math.
inline std::optional<std::string> wgmma_shape_unsupported(const LinearProblem& problem) {
  const int whole = problem.math == Math::kBF16 ? kWidest<bfloat16> : kWidest<float>;
  if (problem.in % whole != 0 || problem.out % whole != 0) {
    return "takes features in multiples of " + std::to_string(whole) + ", whole 16 bytes";
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

}  // namespace duet
