// ssim custom_tiled: windows of a tile by two passes in shared memory, over rows and over columns.
// Mapping:  block = tiles of 32 x 16 windows of one plane, 256 threads; a thread has the moments of
//           every 256th row of a window, and then two windows. The last block adds up the tiles.
// Traffic:  x and targets once, but for the rows and columns that neighbouring tiles share (a factor
//           of 2.1 for windows of 11 x 11, most of it in L2).
// Limits:   fp32 or bf16, computed in double; fewer than 2^31 values of an image, and windows.
#include <algorithm>

#include "device/launch.h"
#include "kernels/grid_sum.cuh"
#include "layers/loss_rows.cuh"
#include "layers/ssim/ssim.h"

namespace duet {
namespace {

constexpr int kTileWidth = 32, kTileHeight = 16;  // in windows
constexpr int64_t kMostBlocks = 4096;

// Images as tiles, and where their values lie.
struct Tiles {
  int64_t image;  // values of one
  int first, channel, row, column;
  int height, width;  // of a plane, in windows
  int down, across;   // tiles of a plane
  int of_image;       // tiles
  int count;          // of all images

  Tiles(const SsimProblem& problem, int taps) {
    const InnerPixels pixels(problem);
    image = problem.x.elements() / problem.images();
    first = static_cast<int>(pixels.first);
    channel = static_cast<int>(pixels.channel);
    row = static_cast<int>(pixels.row);
    column = static_cast<int>(pixels.column);
    height = static_cast<int>(problem.height()) - taps + 1;
    width = static_cast<int>(problem.width()) - taps + 1;
    down = (height + kTileHeight - 1) / kTileHeight;
    across = (width + kTileWidth - 1) / kTileWidth;
    of_image = static_cast<int>(problem.channels()) * down * across;
    count = static_cast<int>(problem.images()) * of_image;
  }
};

template <int kTaps>
struct TileMemory {
  static constexpr int kRows = kTileHeight + kTaps - 1, kColumns = kTileWidth + kTaps - 1;
  float x[kRows][kColumns], y[kRows][kColumns];
  SsimMoments of_rows[kRows][kTileWidth];  // of the kTaps values from there on
};

// The sum of this thread's windows of a tile, whose first is (top, left) of the plane.
template <int kTaps, class T>
__device__ double tile_sum(const SsimFormula& formula, const Tiles& tiles, int top, int left,
                           const T* x, const T* y, TileMemory<kTaps>& memory) {
  using Memory = TileMemory<kTaps>;
  __syncthreads();  // `memory` may still be read from the tile before
  for (int i = threadIdx.x; i < Memory::kRows * Memory::kColumns; i += kCombineThreads) {
    const int row = i / Memory::kColumns, column = i % Memory::kColumns;
    const bool inside =
        top + row < tiles.height + kTaps - 1 && left + column < tiles.width + kTaps - 1;
    const int at = inside ? (top + row) * tiles.row + (left + column) * tiles.column : 0;
    memory.x[row][column] = inside ? float(x[at]) : 0.0f;
    memory.y[row][column] = inside ? float(y[at]) : 0.0f;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < Memory::kRows * kTileWidth; i += kCombineThreads) {
    const int row = i / kTileWidth, column = i % kTileWidth;
    SsimMoments moments;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      moments.add(formula.weights[k], double{memory.x[row][column + k]},
                  double{memory.y[row][column + k]});
    }
    memory.of_rows[row][column] = moments;
  }
  __syncthreads();
  double sum = 0.0;
  for (int i = threadIdx.x; i < kTileHeight * kTileWidth; i += kCombineThreads) {
    const int row = i / kTileWidth, column = i % kTileWidth;
    if (top + row >= tiles.height || left + column >= tiles.width) continue;
    SsimMoments moments;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      moments.add(formula.weights[k], memory.of_rows[row + k][column]);
    }
    sum += formula.similarity(moments);
  }
  return sum;
}

template <int kTaps, class T>
__global__ void __launch_bounds__(kCombineThreads)
    ssim_kernel(const __grid_constant__ SsimFormula formula, const __grid_constant__ Tiles tiles,
                double windows, const T* x, const T* targets, const int* rows, CountedSum* parts,
                unsigned* ticket, float* totals) {
  wait_for_primary();
  __shared__ TileMemory<kTaps> memory;
  CountedSum mine;
  for (int tile = blockIdx.x; tile < tiles.count; tile += gridDim.x) {
    const int image = tile / tiles.of_image, of_image = tile % tiles.of_image;
    if (rows[image] < 0) continue;  // the same in the whole block
    const int of_plane = of_image % (tiles.down * tiles.across);
    const int plane = of_image / (tiles.down * tiles.across);
    const int64_t first = image * tiles.image + tiles.first + plane * tiles.channel;
    mine.sum +=
        tile_sum<kTaps>(formula, tiles, of_plane / tiles.across * kTileHeight,
                        of_plane % tiles.across * kTileWidth, x + first, targets + first, memory);
    if (of_image == 0 && threadIdx.x == 0) mine.count += 1.0;
  }
  CountedSum total;
  if (!grid_sum(mine, parts, ticket, &total) || threadIdx.x > 0) return;
  totals[0] = float(total.sum / windows);
  totals[1] = float(total.count);
}

template <class T>
class SsimCustomTiled : public SsimImpl {
 public:
  explicit SsimCustomTiled(const SsimProblem& problem)
      : SsimImpl(problem),
        formula_(problem.formula()),
        tiles_(problem, formula_.taps),
        blocks_(static_cast<unsigned>(std::min(int64_t{tiles_.count}, kMostBlocks))) {}

  size_t workspace_bytes(Pass) const override { return blocks_ * sizeof(CountedSum); }
  std::string detail(Pass) const override {
    return std::to_string(tiles_.count) + (tiles_.count == 1 ? " tile" : " tiles");
  }

  void forward(const Run& run, const Tensor& x, const Tensor& targets, const Tensor& rows,
               const Tensor& totals) override {
    const auto launch = [&](auto* kernel) {
      launch_following({blocks_, kCombineThreads, 0, run.stream()}, kernel, formula_, tiles_,
                       static_cast<double>(problem_.windows()), x.data<T>(), targets.data<T>(),
                       rows.data<int>(), static_cast<CountedSum*>(run.workspace), ticket_.get(),
                       totals.data<float>());
    };
    if (problem_.window == SsimWindow::kGaussian11) return launch(ssim_kernel<11, T>);
    launch(ssim_kernel<7, T>);
  }

 private:
  const SsimFormula formula_;
  const Tiles tiles_;
  const unsigned blocks_;
  const loss_rows::Ticket ticket_;
};

// Each tile has a window, so that there are fewer tiles than windows.
std::optional<std::string> unsupported(const SsimProblem& problem, Pass) {
  if (problem.x.elements() / problem.images() <= ConfigReader::kMaxInteger &&
      problem.images() * problem.windows() <= ConfigReader::kMaxInteger) {
    return {};
  }
  return "takes fewer than 2^31 values of an image, and fewer than 2^31 windows";
}

}  // namespace

ImplEntry<SsimProblem> ssim_custom_tiled() {
  auto entry = gpu_entry<SsimCustomTiled>("custom_tiled", unsupported);
  entry.shared = true;
  return entry;
}

}  // namespace duet
