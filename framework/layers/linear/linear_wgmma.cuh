// linear by wgmma (kernels/wgmma_product.cuh), for custom_wgmma and custom_wgmma_3xtf32: matrices by their rows, or where an
// operand is turned as images of one pixel.
#pragma once

#include "core/arena.h"
#include "kernels/convert.h"
#include "kernels/weight_update.cuh"
#include "kernels/wgmma_product.cuh"
#include "layers/inference_forward.h"
#include "layers/linear/linear_epilogue.cuh"
#include "layers/updates_weight.h"

namespace duet {

/// A result of wgmma_product_kernel: dw of `columns` that moves the weight at once. The tile goes through the operands' memory,
/// so that a warp reads and writes whole lines of the weight and its states.
struct WgmmaUpdate {
  static constexpr bool kTakesStages = true;
  WeightUpdate update;
  int columns;
  float* row_sums;
  const float* bias = nullptr;
  size_t stride = 0;

  template <class Tile, class A>
  __device__ __forceinline__ void store(const float (&d)[Tile::kN / 2], const A& a,
                                        const typename A::Start& start, const WgmmaPlace& place,
                                        const WgmmaTileMemory<Tile>& memory) const {
    constexpr int kPitch = Tile::kN + 8, kQuads = Tile::kN / 4;
    constexpr int kAtOnce = Tile::kN < 256 ? 4 : 2;  // without spilling
    static_assert(sizeof(float) * kPitch <= Tile::kStages * (1 + Tile::kN / Tile::kM) * kRowBytes);
    float* const tile = reinterpret_cast<float*>(memory.tile);
#pragma unroll
    for (int k = 0; k < Tile::kN / 2; k += 2) {
      const int column = k / 4 * 8 + int(threadIdx.x) % 4 * 2;
      *reinterpret_cast<float2*>(tile + my_row(k / 2 % 2) * kPitch + column) = {d[k], d[k + 1]};
    }
    const int n0 = place.column * Tile::kN;
    const auto quad_of = [&](int i) {
      const int column = n0 + i % kQuads * 4;
      int image, row;
      const bool inside = a.locate(start, i / kQuads, image, row) && column < columns;
      return inside ? (row * columns + column) / 4 : -1;
    };
    const auto gradient = [&](int i) {
      return *reinterpret_cast<const float4*>(tile + i / kQuads * kPitch + i % kQuads * 4);
    };
    update_quads<kAtOnce>(update, threadIdx.x, Tile::kMultipliers, Tile::kM * kQuads, quad_of,
                          gradient, [] { wait_multipliers<Tile>(); });
  }
};

/// x, y and their gradients are stored as T; of float tf32 is multiplied, or with kSplit fp32 in 3xTF32.
template <class T, bool kSplit>
class LinearWgmma : public LinearImpl, public InferenceForward, public UpdatesWeight {
 public:
  using Plan = WgmmaPlan<kSplit>;

  LinearWgmma(const LinearProblem& problem, const Context& context)
      : LinearWgmma(problem, context.workspace_limit()) {}
  LinearWgmma(const LinearProblem& problem, size_t limit)
      : LinearImpl(problem), terms_(problem.n, 1, 1, kDepth, true) {
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
                      multiprocessors};
    backward_filter_ = {ceil_div(out, kTileRows),
                        in,
                        kRasters ? ceil_div(n, kDepth) : terms_.count(),
                        static_cast<int64_t>(partial_stride(out, in)),
                        left(Pass::kBackwardFilter),
                        multiprocessors};
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
    if constexpr (kRasters) {
      forward_by(run, x, w.data<float>(), b, y);
    } else {
      forward_by(run, x, rounded(run, w, run.workspace), b, y);
    }
  }
  size_t prepared_bytes() const override { return staged_bytes(Pass::kForward); }
  void prepare_weights(const Run& run, const LayerTensors& t, void* prepared) override {
    if constexpr (!kRasters) rounded(run, t.w[0], prepared);
  }
  void infer(const Run& run, const LayerTensors& t, const void* prepared) override {
    const void* const weights = kRasters ? t.w[0].memory : prepared;
    forward_by(run, t.x[0], static_cast<const T*>(weights), problem_.bias ? t.w[1] : Tensor{},
               t.y[0]);
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    if constexpr (kRasters) {
      const MatrixByRow<T> a = by_row(dy, problem_.out);
      const auto [source, target] = turned(run, w, problem_.out, problem_.in, 0);
      write_rasters(source, target, run.stream());
      backward_data_.with_tile([&, from = target.to]<class Tile>(Tile) {
        const MatrixByRow<T> b(from, problem_.in, problem_.out, Tile::kN);
        launch_rows<Tile>(run, Pass::kBackwardData, a, b, nullptr, dx);
      });
    } else {
      backward_data_by(run, dy, rounded(run, w, run.workspace), dx);
    }
  }
  bool serves_training() const override { return !kRasters; }
  void backward_data_of_prepared(const Run& run, const LayerTensors& t,
                                 const void* prepared) override {
    if constexpr (!kRasters) {
      backward_data_by(run, t.dy[0], static_cast<const T*>(prepared), t.dx[0]);
    }
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    with_filter_operands(run, x, dy,
                         [&](const auto& a, const auto& b) { launch_filters(run, a, b, dw, db); });
  }
  bool can_update() const override { return backward_filter_.splits == 1; }
  void backward_filter_with_update(const Run& run, const LayerTensors& t,
                                   const WeightUpdate& update) override {
    const Tensor db = problem_.bias ? t.dw[1] : Tensor{};
    with_filter_operands(run, t.x[0], t.dy[0], [&](const auto& a, const auto& b) {
      backward_filter_.with_tile([&]<class Tile>(Tile) {
        // One block a multiprocessor: an update wants registers.
        using Alone = WgmmaTile<Tile::kN, Tile::kStages, 1, kSplit>;
        launch_wgmma_product<Alone>(backward_filter_, a, b,
                                    WgmmaUpdate{update, problem_.in, db.data<float>()},
                                    run.stream());
      });
    });
  }

 private:
  static constexpr int kTileRows = 128, kDepth = kStepDepth<T>;
  static constexpr bool kRasters = std::is_same_v<T, float>;

  const Plan& plan_of(Pass pass) const {
    return pass == Pass::kForward        ? forward_
           : pass == Pass::kBackwardData ? backward_data_
                                         : backward_filter_;
  }
  /// Matrices of so many rows as rasters of their columns.
  static Rasters columns_of(int rows, int columns) { return {1, columns, 1, rows}; }
  size_t staged_bytes(Pass pass) const {
    const auto [n, in, out] = std::tuple(problem_.n, problem_.in, problem_.out);
    if (pass == Pass::kBackwardFilter) {
      return kRasters ? align_up(columns_of(n, out).bytes()) + align_up(columns_of(n, in).bytes())
                      : 0;
    }
    if (kRasters) return pass == Pass::kForward ? 0 : align_up(columns_of(out, in).bytes());
    return align_up(sizeof(T) * in * size_t(out));
  }
  float* parts(const Run& run, Pass pass) const {
    return reinterpret_cast<float*>(static_cast<char*>(run.workspace) + staged_bytes(pass));
  }
  /// Floats between two parts.
  size_t stride(Pass pass) const {
    if (pass == Pass::kBackwardFilter) return partial_stride(problem_.out, problem_.in);
    return (size_t(problem_.n) * (pass == Pass::kForward ? problem_.out : problem_.in) + 3) / 4 * 4;
  }
  static const T* rounded(const Run& run, const Tensor& w, void* to) {
    auto* const staged = static_cast<T*>(to);
    queue_conversion(w.data<float>(), staged, w.elements(), run.stream());
    return staged;
  }
  void forward_by(const Run& run, const Tensor& x, const T* weights, const Tensor& b,
                  const Tensor& y) const {
    const MatrixByRow<T> a = by_row(x, problem_.in);
    with_epilogue(problem_, [&](auto function) {
      forward_.with_tile([&]<class Tile>(Tile) {
        launch_rows<Tile>(run, Pass::kForward, a,
                          MatrixByRow<T>(weights, problem_.out, problem_.in, Tile::kN),
                          b.data<float>(), y, function);
      });
    });
  }
  void backward_data_by(const Run& run, const Tensor& dy, const T* weights,
                        const Tensor& dx) const {
    const WeightByChannel b(weights, problem_.out, 1, problem_.in);
    backward_data_.with_tile([&]<class Tile>(Tile) {
      launch_rows<Tile>(run, Pass::kBackwardData, by_row(dy, problem_.out), b, nullptr, dx);
    });
  }
  /// What turns a matrix into rasters `offset` bytes into the workspace.
  static std::pair<RasterSource<Layout::kNHWC>, RasterTarget> turned(const Run& run,
                                                                     const Tensor& matrix, int rows,
                                                                     int columns, size_t offset) {
    char* const to = static_cast<char*>(run.workspace) + offset;
    return {{matrix.data<float>(), columns, 1, rows},
            {columns_of(rows, columns), reinterpret_cast<float*>(to), !kSplit}};
  }
  TapImage<T> image(const Tensor& matrix, int features, const PositionBoxes& boxes) const {
    return {matrix.data<T>(), problem_.n, 1, 1, features, {}, {}, boxes};
  }
  MatrixByRow<T> by_row(const Tensor& matrix, int features) const {
    return {matrix.data<T>(), problem_.n, features, kTileRows};
  }
  template <class Tile, class B, class Function = std::identity>
  void launch_rows(const Run& run, Pass pass, const MatrixByRow<T>& a, const B& b,
                   const float* bias, const Tensor& out, Function function = {}) const {
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
  /// Calls visit(a, b) with what backward_filter multiplies.
  template <class Visit>
  void with_filter_operands(const Run& run, const Tensor& x, const Tensor& dy, Visit visit) const {
    const auto [n, in, out] = std::tuple(problem_.n, problem_.in, problem_.out);
    if constexpr (kRasters) {
      const auto [from_dy, to_dy] = turned(run, dy, n, out, 0);
      const auto [from_x, to_x] = turned(run, x, n, in, align_up(to_dy.rasters.bytes()));
      write_rasters(from_dy, to_dy, from_x, to_x, run.stream());
      visit(RasterByTap(to_dy.to, to_dy.rasters, n, out, {}, {}),
            RasterByTap(to_x.to, to_x.rasters, n, in, {}, {}));
    } else {
      visit(ImageByTap{image(dy, out, terms_), terms_, out},
            ImageByTap{image(x, in, terms_), terms_, in});
    }
  }
  template <class A, class B>
  void launch_filters(const Run& run, const A& a, const B& b, const Tensor& dw,
                      const Tensor& db) const {
    const Plan& plan = backward_filter_;
    const size_t stride = this->stride(Pass::kBackwardFilter);
    const bool whole = plan.splits == 1;
    const int weights = problem_.out * problem_.in;
    float* const from = parts(run, Pass::kBackwardFilter);
    float* const to = whole ? dw.data<float>() : from;
    float* const sums = whole ? db.data<float>() : from + weights;
    plan.with_tile([&]<class Tile>(Tile) {
      launch_wgmma_product<Tile>(
          plan, a, b, WgmmaResult<Layout::kNHWC, float>{to, nullptr, problem_.in, 1, stride, sums},
          run.stream());
    });
    if (whole) return;
    launch_reduce_splits(from, plan.splits, stride, weights + problem_.out, weights,
                         dw.data<float>(), db.data<float>(), run.stream());
  }

  const PositionBoxes terms_;
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
