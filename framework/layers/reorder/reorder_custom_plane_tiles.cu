// reorder custom_plane_tiles: a tile of 128 bytes of channels by up to 176 pixels is turned in shared memory and moved by 16
//           bytes on both sides (kernels/plane_tiles.cuh).
// Mapping:  block = a tile of one image, 256 threads. In planes a warp has the planes of 16 bytes of channels, one run of
//           memory where the tile has whole planes; in channels last eight lanes have a pixel.
// Traffic:  x once, y once. Where pixels are no multiple of 16 bytes and planes not whole, theirs by single values.
// Limits:   fp32 or bf16, channels in whole 16 bytes, fewer than 2^31 elements.
#include "device/check.h"
#include "device/launch.h"
#include "kernels/plane_tiles.cuh"
#include "layers/reorder/reorder.h"

namespace duet {
namespace {

// region turn
template <bool to_planes, class T>
__global__ void __launch_bounds__(kPlaneThreads)
    reorder_plane_tiles_kernel(const __grid_constant__ PlaneTiles<T> tiles,
                               const T* __restrict__ from, T* __restrict__ to) {
  wait_for_primary();
  using Tiles = PlaneTiles<T>;
  PlaneTile<T>& tile = PlaneTile<T>::of_block();
  int n, channel0, pixel0;
  tiles.start(blockIdx.x, n, channel0, pixel0);
  const int count = min(tiles.run, tiles.pixels - pixel0);
  const size_t in_planes = (size_t(n) * tiles.channels + channel0) * tiles.pixels + pixel0;
  const int own = channel0 + Tiles::own_piece() * Tiles::kVec;
  const size_t last = (size_t(n) * tiles.pixels + pixel0) * tiles.channels + own;

  if constexpr (!to_planes) {
    tiles.load(tile, from + in_planes, channel0, pixel0);
    __syncthreads();
  }
  if (own < tiles.channels) {
#pragma unroll 4
    for (int pixel = Tiles::first_pixel(); pixel < count; pixel += Tiles::kStep) {
      const size_t at = last + size_t(pixel) * tiles.channels;
      if constexpr (to_planes) {
        tiles.put(tile, pixel, Packed<T, Tiles::kVec>::load(from + at).values());
      } else {
        Packed<T, Tiles::kVec>(tiles.piece(tile, pixel)).store(to + at);
      }
    }
  }
  if constexpr (to_planes) {
    __syncthreads();
    tiles.store(tile, to + in_planes, channel0, pixel0);
  }
}
// end turn

template <class T>
PlaneTiles<T> tiles_of(const TensorDesc& x) {
  const auto size = [&](int axis) { return static_cast<int>(x.shape[axis]); };
  return {size(0), size(1), size(1), size(2) * size(3)};
}

template <class T>
class ReorderCustomPlaneTiles : public ReorderImpl {
 public:
  using ReorderImpl::ReorderImpl;

  void reorder(const Run& run, const Tensor& from, const Tensor& to) override {
    const bool to_planes = from.desc.layout == Layout::kNHWC;
    const PlaneTiles<T> tiles = tiles_of<T>(from.desc);
    const auto kernel =
        to_planes ? reorder_plane_tiles_kernel<true, T> : reorder_plane_tiles_kernel<false, T>;
    launch_following({static_cast<unsigned>(tiles.blocks), kPlaneThreads, 0, run.stream()}, kernel,
                     tiles, from.data<T>(), to.data<T>());
  }
};

std::optional<std::string> unsupported(const ReorderProblem& problem, Pass) {
  if (problem.x.layout == problem.y.layout) return "turns images, and these are in their layout";
  const int unit = 16 / static_cast<int>(size_of(problem.dtype));
  if (problem.x.shape[1] % unit != 0) {
    return "takes channels in multiples of " + std::to_string(unit) + ", whole 16 bytes";
  }
  return {};
}

/// Where tiles have whole planes (1024x128x5x5 in bf16 on an H100: 4.3 us for 12.2 of custom_tiled_transpose).
bool preferred(const ReorderProblem& problem, Pass pass, size_t) {
  if (unsupported(problem, pass)) return false;
  return problem.dtype == DType::kBFloat16 ? tiles_of<bfloat16>(problem.x).whole
                                           : tiles_of<float>(problem.x).whole;
}

}  // namespace

ImplEntry<ReorderProblem> reorder_custom_plane_tiles() {
  auto entry = gpu_entry<ReorderCustomPlaneTiles>("custom_plane_tiles", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
