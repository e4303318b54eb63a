// linear custom_mma: tensor cores by the warp-wide mma.sync; tf32 or bf16. The product is that of
//           kernels/product.cuh, its operands gathered from plain matrices.
// Mapping:  block = 128 (or 64) rows x 128 (or 64, or 32) columns, warp = 64x32 (or 32x32, or 32x16)
//           sums in pieces of 16x8 (kernels/mma_tile.cuh). Where tiles are too few a sum is split,
//           and a second kernel adds up. Up to 16 rows have no tiles (kernels/few_rows.cuh).
// Traffic:  an operand is read once for each tile along the other, x and dy by 16 bytes and weights
//           too where their lines start on 16 bytes. Operands are rounded on their way to shared
//           memory.
// Limits:   math tf32 or bf16, 32-bit element numbers; compute capability 8.0.
#include <algorithm>

#include "core/arena.h"
#include "kernels/convert.h"
#include "kernels/few_rows.cuh"
#include "kernels/matrix_gathers.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/products.cuh"
#include "layers/linear/linear_epilogue.cuh"

namespace duet {
namespace {

template <class T>
class LinearCustomMma : public LinearImpl {
 public:
  using Tiles = MmaTiles<std::conditional_t<std::is_same_v<T, bfloat16>, MmaBf16, MmaTf32>>;

  LinearCustomMma(const LinearProblem& problem, const Context& context) : LinearImpl(problem) {
    require_mma();
    const int multiprocessors = multiprocessor_count();
    const size_t limit =
        context.workspace_limit() - std::min(context.workspace_limit(), staged_bytes());
    forward_ = {problem.n, problem.out, problem.in, multiprocessors, limit};
    backward_data_ = {problem.n, problem.in, problem.out, multiprocessors, limit};
    backward_filter_ = {problem.out, problem.in, problem.n, multiprocessors};
  }

  size_t workspace_bytes(Pass pass) const override {
    if (has_few_rows()) return 0;
    if (pass == Pass::kBackwardFilter) return backward_filter_.workspace_bytes();
    return staged_bytes() + (pass == Pass::kForward ? forward_ : backward_data_).workspace_bytes();
  }
  std::string detail(Pass pass) const override {
    if (has_few_rows()) return pass == Pass::kBackwardFilter ? "few rows" : "few rows, mma tf32";
    if (pass == Pass::kBackwardFilter) return backward_filter_.text();
    return (pass == Pass::kForward ? forward_ : backward_data_).text();
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    const void* staged = run.ports.prepared_w.memory;
    if (!staged && stages_weights()) {
      stage_weights(run, w, run.workspace);
      staged = run.workspace;
    }
    forward(run, x, w, b, y, staged);
  }
  std::vector<PortUse> ports(Pass pass, bool inference) const override {
    return prepared_for(pass, inference,
                        [this] { return prepares_weights() ? rounded_bytes() : size_t{0}; });
  }
  void prepare_weights(const Run& run, const LayerTensors& t) override {
    stage_weights(run, t.w[0], run.ports.prepared_w.memory);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    if (has_few_rows()) {
      return launch_few_rows_backward_data<false>(problem_.n, problem_.in, problem_.out,
                                                  dy.data<T>(), w.data<float>(), dx.data<T>(),
                                                  run.stream());
    }
    const bool whole = problem_.in % kWide == 0 && problem_.out % kWide == 0;
    if (whole && stages_weights()) stage_weights(run, w, run.workspace);
    const auto by = [&]<int vec_dy, int vec_w, class W>(Lanes<vec_dy, vec_w>, const W* weights) {
      launch_image_product<Layout::kNHWC>(
          backward_data_, MatrixByDepth<vec_dy, T>{{dy.data<T>()}, problem_.n, problem_.out},
          MatrixByRow<vec_w, W>{{weights}, problem_.in}, 1, nullptr, dx.data<T>(), rest(run),
          run.stream());
    };
    by_weights(run.workspace, w, whole, by);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    if (has_few_rows()) {
      return launch_few_rows_backward_filter(problem_.n, problem_.in, problem_.out, x.data<T>(),
                                             dy.data<T>(), dw.data<float>(), db.data<float>(),
                                             run.stream());
    }
    const auto by = [&]<int vec_dy, int vec_x>(Lanes<vec_dy, vec_x>) {
      launch_weight_product(backward_filter_, MatrixByRow<vec_dy, T>{{dy.data<T>()}, problem_.out},
                            MatrixByRow<vec_x, T>{{x.data<T>()}, problem_.in}, dw.data<float>(),
                            db.data<float>(), run.workspace, run.stream());
    };
    problem_.in % kWide == 0 && problem_.out % kWide == 0 ? by(Lanes<kWide, kWide>{})
                                                          : by(Lanes<1, 1>{});
  }

 private:
  // Values of the two operands that are fetched at once.
  template <int vec_a, int vec_b>
  struct Lanes {};
  static constexpr int kWide = kWidest<T>;

  /// Up to here a product without tiles is faster in every pass (kernels/few_rows.cuh).
  bool has_few_rows() const { return problem_.n <= kRowsAtOnce; }
  /// In bf16 with many rows, which read the weights as often as there are tiles of them, the weights
  /// are rounded once, at the beginning of the workspace.
  bool stages_weights() const { return can_round() && problem_.n > 128; }
  /// Weights at rest also with few rows, which read half as much then.
  bool prepares_weights() const { return stages_weights() || (can_round() && has_few_rows()); }
  bool can_round() const { return std::is_same_v<T, bfloat16> && problem_.in % kWide == 0; }
  size_t rounded_bytes() const { return align_up(sizeof(T) * problem_.in * size_t(problem_.out)); }
  size_t staged_bytes() const { return stages_weights() ? rounded_bytes() : 0; }
  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const void* staged) const {
    if (has_few_rows()) {
      const auto by = [&](const auto* weights) {
        with_epilogue(problem_, [&](auto function) {
          launch_few_rows_forward<false>(problem_.n, problem_.in, problem_.out, x.data<T>(),
                                         weights, b.data<float>(), y.data<T>(), run.stream(),
                                         function);
        });
      };
      if constexpr (std::is_same_v<T, bfloat16>) {
        if (staged != nullptr && can_round()) return by(static_cast<const T*>(staged));
      }
      return by(w.data<float>());
    }
    const auto by = [&]<int vec_x, int vec_w, class W>(Lanes<vec_x, vec_w>, const W* weights) {
      with_epilogue(problem_, [&](auto function) {
        launch_image_product<Layout::kNHWC>(
            forward_, MatrixByDepth<vec_x, T>{{x.data<T>()}, problem_.n, problem_.in},
            MatrixByDepth<vec_w, W>{{weights}, problem_.out, problem_.in}, 1, b.data<float>(),
            y.data<T>(), rest(run), run.stream(), function);
      });
    };
    by_weights(staged, w, problem_.in % kWide == 0, by);
  }
  void* rest(const Run& run) const { return static_cast<char*>(run.workspace) + staged_bytes(); }

  void stage_weights(const Run& run, const Tensor& w, void* to) const {
    queue_conversion(w.data<float>(), static_cast<bfloat16*>(to), w.elements(), run.stream());
  }
  /// Calls by(Lanes, weights) with the weights as they are taken, `staged` where they are.
  template <class By>
  void by_weights(const void* staged, const Tensor& w, bool whole, By by) const {
    const float* const from = w.data<float>();
    if (!whole) return by(Lanes<1, 1>{}, from);
    if constexpr (std::is_same_v<T, bfloat16>) {
      if (stages_weights()) return by(Lanes<kWide, kWide>{}, static_cast<const T*>(staged));
    }
    by(Lanes<kWide, 4>{}, from);
  }

  ImageProduct<Tiles> forward_, backward_data_;
  WeightProduct<Tiles> backward_filter_;
};

std::optional<std::string> unsupported(const LinearProblem& problem, Pass pass) {
  // Row numbers are rounded up to whole tiles, hence the margin.
  constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
  for (const TensorDesc& t : {problem.x_desc(), problem.w_desc(), problem.y_desc()}) {
    if (t.elements() > kMost) return "numbers elements in 32 bits; use a smaller batch";
  }
  constexpr int64_t kMostLines = 32 * 65535;  // 65535 is the end of a grid's second dimension
  if (problem.in > kMostLines || problem.out > kMostLines) {
    return "has tiles for up to " + std::to_string(kMostLines) + " features";
  }
  return tensor_cores_only(problem, pass);
}

/// In tf32, while a batch is less than a tile of custom_wgmma's, which turns operands first (3200 -> 256
/// at 64 on an H200, three passes: 5.9, 5.5 and 6.2 us for 6.5, 7.0 and 9.1); and of few rows, which take no tiles.
bool preferred(const LinearProblem& problem, Pass pass, size_t) {
  const int most = problem.math == Math::kTF32 ? 127 : kRowsAtOnce;
  const bool dots =
      linear_is_small(problem) && (pass == Pass::kForward || problem.math == Math::kTF32);
  return problem.math != Math::kFP32 && problem.n <= most && !dots;
}

}  // namespace

ImplEntry<LinearProblem> linear_custom_mma() {
  auto entry = gpu_entry<LinearCustomMma>("custom_mma", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
