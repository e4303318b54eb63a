// Trials.
#include "layers/conv2d/pointwise_product.cuh"

namespace duet {
namespace {

template <class Mma, class Tile>
struct OneTile {
  using Large = Tile;
  using Medium = Tile;
  using Small = Tile;
  using Narrow = Tile;
  static constexpr const char* kText = Mma::kText;
  static constexpr double kSliceUs[3] = {0.6, 0.6, 0.6};
};

template <class T, class Mma, class Tile>
class Trial : public Conv2dImpl {
 public:
  using Tiles = OneTile<Mma, Tile>;
  Trial(const Conv2dProblem& d, const Context&)
      : Conv2dImpl(d), plan_(d.c, d.n * d.h * d.w, d.k, d.h * d.w % 4 == 0) {}
  size_t workspace_bytes(Pass) const override { return 0; }
  std::string detail(Pass) const override { return plan_.text(); }
  void forward(const Run&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) override {}
  void backward_filter(const Run&, const Tensor&, const Tensor&, const Tensor&,
                       const Tensor&) override {}
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    const Conv2dProblem& d = problem_;
    const int pixels = d.h * d.w;
    const FastDivisor by_pixels(pixels);
    const auto go = [&]<int vec>(std::integral_constant<int, vec>) {
      const PlaneByPosition<vec, T> b{{dy.data<T>()}, d.k, pixels, d.n * pixels, by_pixels};
      launch_pointwise<false>(plan_, MatrixByRow<4>{{w.data<float>()}, d.c}, b,
                              PlaneProduct<T>{.m = plan_.rows,
                                              .n = plan_.columns,
                                              .k = plan_.depth,
                                              .pixels = pixels,
                                              .by_pixels = by_pixels,
                                              .bias = nullptr,
                                              .c = dx.data<T>(),
                                              .row_sums = nullptr},
                              0, run.stream());
    };
    if constexpr (sizeof(T) == 2) {
      if (pixels % 8 == 0) return go(std::integral_constant<int, 8>{});
    }
    pixels % 4 == 0 ? go(std::integral_constant<int, 4>{}) : go(std::integral_constant<int, 1>{});
  }

 private:
  const PointwisePlan<Tiles> plan_;
};

std::optional<std::string> unsupported(const Conv2dProblem& d, Pass pass) {
  if (pass != Pass::kBackwardData || !is_pointwise(d)) return "trial";
  if (auto r = tensor_cores_only(d, pass)) return r;
  return gathers_unsupported(d, pass);
}

using B = StoredMmaBf16;
using F = StoredMmaTf32;
// Block rows, columns, warps, stages, blocks on a multiprocessor, depth.
template <class Mma, int n>
struct TileOf;
#define TILE(Mma, n, ...)                   \
  template <>                               \
  struct TileOf<Mma, n> {                   \
    using Tile = MmaTile<Mma, __VA_ARGS__>; \
  };
TILE(B, 0, 64, 64, 2, 2, 3, 5, 32)
TILE(B, 1, 64, 64, 2, 2, 4, 4, 32)
TILE(B, 2, 64, 64, 2, 2, 5, 3, 32)
TILE(B, 3, 64, 128, 2, 4, 4, 3, 32)
TILE(B, 4, 64, 128, 2, 2, 4, 3, 32)
TILE(B, 5, 32, 64, 1, 4, 4, 5, 32)
TILE(F, 0, 64, 64, 2, 2, 3, 4, 32)
TILE(F, 1, 64, 64, 2, 2, 2, 5, 32)
TILE(F, 2, 64, 64, 2, 2, 4, 5, 16)
TILE(F, 3, 64, 64, 2, 2, 6, 4, 16)
TILE(F, 4, 64, 128, 2, 4, 4, 3, 16)
TILE(F, 5, 32, 64, 1, 4, 4, 5, 32)

template <int n>
struct Of {
  template <class T>
  using Impl = std::conditional_t<sizeof(T) == 2, Trial<T, B, typename TileOf<B, n>::Tile>,
                                  Trial<T, F, typename TileOf<F, n>::Tile>>;
};

}  // namespace

#define ENTRY(n)                                                         \
  ImplEntry<Conv2dProblem> conv2d_custom_pw##n() {                       \
    return gpu_entry<Of<n>::template Impl>("custom_pw" #n, unsupported); \
  }
ENTRY(0)
ENTRY(1)
ENTRY(2)
ENTRY(3)
ENTRY(4)
ENTRY(5)

}  // namespace duet
