// conv2d custom_im2col: the convolution as a product of matrices: what each tap reads at each output
//           is written to memory, and the product knows nothing of convolutions.
// Mapping:  as custom_implicit_gemm, whose tiles multiply here too; the operands are matrices.
// Traffic:  the matrix, R*S times the size of x, is written once and read once a tile of filters;
//           backward_data writes the product, as large, and sums it into dx.
// Limits:   fp32 or bf16 (products and sums in fp32 alike), groups = 1, 32-bit element numbers, and
//           what workspace_limit_mib leaves for the matrix.
#include "core/arena.h"
#include "kernels/fma_tile.cuh"
#include "kernels/products.cuh"
#include "layers/conv2d/ladder/conv2d_gathers.cuh"
#include "layers/conv2d/ladder/conv2d_im2col.h"

namespace duet {
namespace {

// dy in NCHW: rows are output positions, k are filters.
template <class T>
struct GradByPosition : OffsetGather<1, true, T> {
  using Col = typename OffsetGather<1, true, T>::Col;
  ConvGeometry g;
  int positions;
  __device__ __forceinline__ int row(int m) const {
    if (m >= positions) return -1;
    int n, pixel;
    g.by_pixels_out.divmod(m, n, pixel);
    return n * g.d.k * g.pixels_out + pixel;
  }
  __device__ __forceinline__ Col col(int k) const { return {k < 0 ? -1 : k * g.pixels_out, 0}; }
};

template <Layout kLayout, class T>
class Conv2dCustomIm2col : public Conv2dImpl {
 public:
  Conv2dCustomIm2col(const Conv2dProblem& problem, const Context& context)
      : Conv2dImpl(problem), geometry_(problem) {
    const int multiprocessors = multiprocessor_count();
    const size_t limit = context.workspace_limit();
    forward_ = {positions_, problem.k, taps_, multiprocessors, limit};
    backward_data_ = {kNchw ? taps_ : positions_, kNchw ? positions_ : taps_, problem.k,
                      multiprocessors, limit};
    backward_filter_ = {problem.k, taps_, positions_, multiprocessors};
  }

  void prepare(Pass pass, Context& context) override {
    check_im2col_workspace(context, "custom_im2col", workspace_bytes(pass));
  }
  size_t workspace_bytes(Pass pass) const override {
    return columns_bytes(pass) + (pass == Pass::kForward ? forward_.workspace_bytes()
                                  : pass == Pass::kBackwardData
                                      ? backward_data_.workspace_bytes()
                                      : backward_filter_.workspace_bytes());
  }
  std::string detail(Pass pass) const override {
    return (pass == Pass::kForward        ? forward_.text()
            : pass == Pass::kBackwardData ? backward_data_.text()
                                          : backward_filter_.text()) +
           ", " + std::to_string((columns_bytes(pass) >> 20) + 1) + " MiB of columns";
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    queue_im2col(problem_, x, run.workspace, run);
    with_vectors([&]<int vec>() {
      const MatrixByDepth<vec> weights{w.data<float>(), problem_.k, taps_};
      launch_image_product<kLayout>(forward_, columns_by_position<vec>(run), weights,
                                    geometry_.pixels_out, b.data<float>(), y.data<T>(),
                                    rest(run, Pass::kForward), run.stream());
    });
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    auto* columns = static_cast<float*>(run.workspace);
    const auto multiply = [&](const auto& a, const auto& b) {  // row-major, whatever the layout
      launch_image_product<Layout::kNHWC>(backward_data_, a, b, 1, nullptr, columns,
                                          rest(run, Pass::kBackwardData), run.stream());
    };
    with_vectors([&]<int vec>() {
      const MatrixByRow<vec> weights{w.data<float>(), taps_};
      if constexpr (kNchw) {
        multiply(weights, GradByPosition<T>{dy.data<T>(), geometry_, positions_});
      } else {
        multiply(MatrixByDepth<1, T>{dy.data<T>(), positions_, problem_.k}, weights);
      }
    });
    queue_col2im(problem_, columns, dx, run);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    queue_im2col(problem_, x, run.workspace, run);
    with_vectors([&]<int vec>() {
      launch_weight_product(backward_filter_, GradByFilter<kLayout, 1, T>{dy.data<T>(), geometry_},
                            columns_by_tap<vec>(run), dw.data<float>(), db.data<float>(),
                            rest(run, Pass::kBackwardFilter), run.stream());
    });
  }

 private:
  static constexpr bool kNchw = kLayout == Layout::kNCHW;

  /// Of the im2col matrix, or its gradient, which is in float32.
  size_t columns_bytes(Pass pass) const {
    const size_t element = pass == Pass::kBackwardData ? sizeof(float) : sizeof(T);
    return align_up(static_cast<size_t>(im2col_elements(problem_)) * element);
  }
  /// What the workspace has behind that.
  void* rest(const Run& run, Pass pass) const {
    return static_cast<char*>(run.workspace) + columns_bytes(pass);
  }
  /// Calls visit<vec>(): 4 where rows of the columns and of w start at multiples of it.
  template <class Visit>
  void with_vectors(Visit&& visit) const {
    const bool columns = (kNchw ? positions_ : taps_) % 4 == 0, weights = taps_ % 4 == 0;
    if (columns && weights) return visit.template operator()<4>();
    visit.template operator()<1>();
  }
  template <int vec>
  auto columns_by_position(const Run& run) const {
    const T* columns = static_cast<const T*>(run.workspace);
    if constexpr (kNchw) {
      return MatrixByRow<vec, T>{columns, positions_};
    } else {
      return MatrixByDepth<vec, T>{columns, positions_, taps_};
    }
  }
  template <int vec>
  auto columns_by_tap(const Run& run) const {
    const T* columns = static_cast<const T*>(run.workspace);
    if constexpr (kNchw) {
      return MatrixByDepth<vec, T>{columns, taps_, positions_};
    } else {
      return MatrixByRow<vec, T>{columns, taps_};
    }
  }

  const ConvGeometry geometry_;
  const int positions_ = im2col_positions(problem_), taps_ = im2col_taps(problem_);
  ImageProduct<FmaTiles> forward_, backward_data_;
  WeightProduct<FmaTiles> backward_filter_;
};

template <class T>
using Nchw = Conv2dCustomIm2col<Layout::kNCHW, T>;
template <class T>
using Nhwc = Conv2dCustomIm2col<Layout::kNHWC, T>;

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass) {
  return im2col_unsupported(problem);
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_im2col() {
  return layouts_entry<Nchw, Nhwc>("custom_im2col", unsupported);
}

}  // namespace duet
