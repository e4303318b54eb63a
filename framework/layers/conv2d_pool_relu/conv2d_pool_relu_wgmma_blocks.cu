// How the products of conv2d_pool_relu_wgmma_blocks.h are launched.
#include "layers/conv2d_pool_relu/conv2d_pool_relu_wgmma_blocks.h"

#include "kernels/wgmma_windows.cuh"
#include "layers/conv2d/mma_staging.cuh"
#include "layers/conv2d/packed_argmax.cuh"

namespace duet {
namespace {

/// Weights KCRS of 3x3 filters as wgmma_blocks.cuh multiplies them, by tiles of so many output channels: in steps of eight terms
/// [tile][step][tap][octet of output channels][four terms][output channel][term]. Output channels are filters and terms channels,
/// or for backward_data the other way round and taps from the last on. In fp32 they are staged as they are and, behind those of a
/// step, their rests (wgmma_split.cuh).
struct BlockWeightPart {
  const float* from;
  bool turned, split;
  int outputs, terms, channels;
  float* to;
  FastDivisor by_octets, by_steps;
  int total, blocks;

  BlockWeightPart(const float* w, const Conv2dProblem& d, bool turned_, int tile, float* to_)
      : from(w),
        turned(turned_),
        split(d.math == Math::kFP32),
        outputs(turned ? d.c : d.k),
        terms(turned ? d.k : d.c),
        channels(d.c),
        to(to_),
        by_octets(tile / 8),
        by_steps(ceil_div(terms, 8)),
        total(elements(d, turned, tile)),
        blocks(ceil_div(total, kStagingThreads)) {}
  static int elements(const Conv2dProblem& d, bool turned, int tile) {
    return round_up(turned ? d.c : d.k, tile) * kTaps * round_up(turned ? d.k : d.c, 8) *
           (d.math == Math::kFP32 ? 2 : 1);
  }

  __device__ __forceinline__ void stage(int block) const {
    const int i = block * kStagingThreads + threadIdx.x;
    if (i >= total) return;
    int rest, octet, tile, step;
    by_octets.divmod(i / 64, rest, octet);
    const int tap = rest % kTaps, parts = split ? 2 : 1;
    const bool is_rest = rest / kTaps % parts > 0;
    by_steps.divmod(rest / kTaps / parts, tile, step);
    const int output = (tile * int(by_octets.divisor) + octet) * 8 + i / 4 % 8;
    const int term = step * 8 + i / 32 % 2 * 4 + i % 4;
    const int k = turned ? term : output, c = turned ? output : term;
    const bool inside = output < outputs && term < terms;
    const float value =
        inside ? from[(size_t(k) * channels + c) * kTaps + (turned ? kTaps - 1 - tap : tap)] : 0.f;
    const float cut = value - __uint_as_float(__float_as_uint(value) & 0xffffe000u);
    to[i] = is_rest ? tf32_rounded(cut) : split ? value : tf32_rounded(value);
  }

 private:
  static constexpr int kTaps = 9;
};

struct NothingStaged {
  static constexpr int blocks = 0;
  __device__ __forceinline__ void stage(int) const {}
};

/// A result of wgmma_blocks.cuh that pools, in registers: planes, and argmax as packed_argmax.cuh has it.
struct PooledUnits {
  static constexpr int kWarps = 4, kFilters = 128, kImages = ImageBlocks::kImages;
  static constexpr int kPitch = kFilters * kWarps + 1;  // of an image's values, [filter][window]
  static constexpr int kBytes = round_up(kImages * kPitch * int(sizeof(float)), 16);
  float* y;
  uint32_t* argmax;
  const float* bias;
  int images, filters, pool_h, pool_w;

  template <class Tile>
  __device__ __forceinline__ void store(const float (&d)[Tile::kRows][Tile::kN / 2],
                                        const BlockUnits& units, int mine, int here, int group,
                                        int filter0, float* values) const {
    static_assert(Tile::kN <= kFilters && Tile::kRows % 2 == 0);
    const int member = threadIdx.x % 128, lane = member % 32, warp = member / 32;
    const int all = pool_h * pool_w;
    const BlockUnits::Place own = units.place(mine + min(warp, here - 1));
    const int own_image = own.group * kImages + lane / 4;
    // A thread stores the windows of unit member % 4.
    const int unit = member % kWarps;
    const BlockUnits::Place to = units.place(mine + min(unit, here - 1));
    const int image_count = min(kImages, images - to.group * kImages);
#pragma unroll
    for (int v = 0; v < Tile::kRows / 2; ++v) {
      const int own_row = own.strip * (Tile::kRows / 2) + v;
      const bool places = warp < here && own_image < images && own_row < pool_h;
      uint32_t* const words = argmax +
                              (size_t(own_image) * argmax_groups(filters) + filter0 / 8) * all +
                              own_row * pool_w + own.pair;
      Tile::wait_group(group);
#pragma unroll
      for (int j = 0; j < Tile::kN / 8; ++j) {
        uint32_t word = 0;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int filter = 8 * j + lane % 4 * 2 + e, k = filter0 + filter;
          const float b = bias != nullptr && k < filters ? __ldg(bias + k) : 0.f;
          const PooledValue pooled =
              pool_window(d[2 * v][4 * j + e] + b, d[2 * v][4 * j + 2 + e] + b,
                          d[2 * v + 1][4 * j + e] + b, d[2 * v + 1][4 * j + 2 + e] + b);
          values[lane / 4 * kPitch + filter * kWarps + warp] = pooled.value;
          word |= pooled.code << (4 * e + 8 * (lane % 4));
        }
        word |= __shfl_xor_sync(~0u, word, 1);
        word |= __shfl_xor_sync(~0u, word, 2);
        if (places && lane % 4 == j % 4 && filter0 + 8 * j < filters) words[j * all] = word;
      }
      Tile::wait_group(group);
      const int row = to.strip * (Tile::kRows / 2) + v;
      if (unit >= here || row >= pool_h) continue;
      float* const first =
          y + (size_t(to.group) * kImages * filters + filter0) * all + row * pool_w + to.pair;
      constexpr int kStep = 128 / kWarps, kRun = Tile::kN / kStep;
      const float* const of_member = values + member;
      float* const of_first = first + (member / kWarps) * all;
      const int count = min(kRun, (filters - filter0 - member / kWarps + kStep - 1) / kStep);
#pragma unroll 2
      for (int image = 0; image < image_count; ++image) {
        float run[kRun];
#pragma unroll
        for (int i = 0; i < kRun; ++i) run[i] = of_member[image * kPitch + i * 128];
#pragma unroll
        for (int i = 0; i < kRun; ++i)
          if (i < count) of_first[(image * filters + i * kStep) * all] = run[i];
      }
    }
  }
};

using Wide = BlockTile<128, 2>;
using Narrow = BlockTile<64, 4>;
using Split = BlockTile<64, 2, true>;
static_assert(Wide::kUnits == Narrow::kUnits && Wide::kUnits == Split::kUnits);

template <class F>
auto with_forward_tile(const Conv2dProblem& d, F f) {
  if (d.math == Math::kFP32) return f(Split{});
  return d.k > kPanel ? f(Wide{}) : f(Narrow{});
}
template <class F>
auto with_data_tile(const Conv2dProblem& d, F f) {
  return d.math == Math::kFP32 ? f(WindowTile<true>{}) : f(WindowTile<false>{});
}

template <class Tile>
std::string text_of(Tile) {
  return "tile " + std::to_string(Tile::kUnits * Tile::kRows * 2 * ImageBlocks::kImages) + "x" +
         std::to_string(Tile::kN) + " of eight images, wgmma " +
         (Tile::kParts == 2 ? "3xtf32" : "tf32");
}

/// Units of a tile that has so many channels at once of `channels`.
template <class Tile>
BlockUnits units_of(Tile, int images, int height, int width, int channels, int multiprocessors) {
  return {images,      height,       width,
          Tile::kRows, Tile::kUnits, std::max(1, multiprocessors / ceil_div(channels, Tile::kN))};
}
/// Whether `wanted` results of a channel are most of what units compute.
template <class Tile>
bool mostly_wanted(Tile, const BlockUnits& units, double wanted, int channels) {
  const double all = double(units.all) * ImageBlocks::kImages * 2 * Tile::kRows;
  return units.wide() && wanted * channels >= 0.7 * all * round_up(channels, Tile::kN);
}

}  // namespace

std::optional<std::string> block_product_unsupported(const Conv2dProblem& d) {
  if (auto reason = ungrouped_unsupported(d)) return reason;
  if (d.layout != Layout::kNCHW) return "takes nchw";
  if (d.r != 3 || d.s != 3) return "takes 3x3 filters";
  if (d.stride_h != 1 || d.stride_w != 1 || d.dilation_h != 1 || d.dilation_w != 1) {
    return "takes strides and dilations of 1";
  }
  if (d.pad_h > 2 || d.pad_w > 2) return "takes a padding of 2 at most";
  return {};
}

BlockForward::BlockForward(const Conv2dProblem& d, int multiprocessors)
    : problem_(d), units_(with_forward_tile(d, [&](auto tile) {
        return units_of(tile, d.n, d.p, d.q, d.k, multiprocessors);
      })) {}

bool BlockForward::worthwhile() const {
  const Conv2dProblem& d = problem_;
  return with_forward_tile(
      d, [&](auto tile) { return mostly_wanted(tile, units_, double(d.n) * d.p * d.q, d.k); });
}

std::string BlockForward::text() const {
  return with_forward_tile(problem_, [](auto tile) { return text_of(tile); });
}

size_t BlockForward::workspace_bytes() const {
  return with_forward_tile(problem_, [&]<class Tile>(Tile) {
    return sizeof(float) * BlockWeightPart::elements(problem_, false, Tile::kN);
  });
}

void BlockForward::run(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor& y, const Tensor& state) const {
  const Conv2dProblem& d = problem_;
  auto* const weights = static_cast<float*>(run.workspace);
  const PlanarPatches patches{x.data<float>(), d.n, d.c, d.h, d.w, d.pad_h, d.pad_w};
  const PooledUnits result{.y = y.data<float>(),
                           .argmax = state.data<uint32_t>(),
                           .bias = b.data<float>(),
                           .images = d.n,
                           .filters = d.k,
                           .pool_h = d.p / 2,
                           .pool_w = d.q / 2};
  with_forward_tile(d, [&]<class Tile>(Tile) {
    launch_staging(BlockWeightPart(w.data<float>(), d, false, Tile::kN, weights), NothingStaged{},
                   run.stream());
    launch_wgmma_blocks<Tile>(patches, weights, units_, d.k, result, run.stream());
  });
}

BlockBackwardData::BlockBackwardData(const Conv2dProblem& d, int multiprocessors)
    : problem_(d),
      above_(d.pad_h % 2),
      left_(d.pad_w % 2),
      units_(with_data_tile(d, [&](auto tile) {
        return units_of(tile, d.n, above_ + std::min(d.h, d.p + 2 - d.pad_h),
                        left_ + std::min(d.w, d.q + 2 - d.pad_w), d.c, multiprocessors);
      })) {}

bool BlockBackwardData::worthwhile() const {
  const Conv2dProblem& d = problem_;
  return with_data_tile(
      d, [&](auto tile) { return mostly_wanted(tile, units_, double(d.n) * d.h * d.w, d.c); });
}

std::string BlockBackwardData::text() const {
  return with_data_tile(problem_, [](auto tile) { return text_of(tile); });
}

size_t BlockBackwardData::workspace_bytes() const {
  return with_data_tile(problem_, [&]<class Tile>(Tile) {
    return sizeof(float) * BlockWeightPart::elements(problem_, true, Tile::kN);
  });
}

void BlockBackwardData::run(const Run& run, const Tensor& dy, const Tensor& state, const Tensor& w,
                            const Tensor& dx) const {
  const Conv2dProblem& d = problem_;
  auto* const weights = static_cast<float*>(run.workspace);
  const PooledPatches patches{dy.data<float>(), state.data<uint32_t>(), d.n, d.k, d.p / 2, d.q / 2,
                              d.pad_h / 2 - 1,  d.pad_w / 2 - 1};
  const PlaneGradients to{dx.data<float>(), d.n, d.c, d.h, d.w, above_, left_};
  with_data_tile(d, [&]<class Tile>(Tile) {
    launch_staging(BlockWeightPart(w.data<float>(), d, true, Tile::kN, weights), NothingStaged{},
                   run.stream());
    launch_wgmma_windows<Tile>(patches, weights, units_, to, run.stream());
  });
}

}  // namespace duet
