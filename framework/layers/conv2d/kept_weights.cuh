// A 3x3 convolution of stride 1 by Hopper's wgmma where the weights of 64 or 128 output channels fit in shared memory and stay
// there: input channels of 128 bytes at most.
//
// Eight images lie side by side, as in kernels/wgmma_filter.cuh: a pixel in shared memory is eight images x 128 bytes of channels,
// positions of the product run over images first, and a tap is the same block some pixels further on. No position beside the
// image is computed, and what lies around a position is a thread's own: a window of a pooling in particular.
// Mapping: block = kPanels x 64 output channels x a run of pairs of rows of results, of eight images. A warpgroup multiplies 64
// channels by two rows of kColumns positions: with two panels each its own, with one both, every second pair each. The four
// rows of the image that a pair meets come through a ring, two for each new pair. One thread of one more warp starts copies.
// Traffic: the weights once a block, the image once for each column of blocks and two rows more for each run; products of
// gathered operands (kernels/wgmma_product.cuh) read the image nine times, and the weights once a tile of 128 positions.
#pragma once

#include "kernels/wgmma_filter.cuh"

namespace duet {

template <int panels, int columns>
struct KeptTile {
  static_assert(panels == 1 || panels == 2);
  static constexpr int kPanels = panels, kColumns = columns, kImages = ImageBlocks::kImages;
  static constexpr int kRows = kPanels * kPanel, kN = kColumns * kImages;
  static constexpr int kTaps = 3, kGroups = 2, kMultipliers = kGroups * 128;
  static constexpr int kThreads = kMultipliers + 32;
  /// Of a row of the image, and of the weights of a tap.
  static constexpr int kRowOfImage = (kColumns + kTaps - 1) * kImages * kRowBytes;
  static constexpr int kTapBytes = kRows * kRowBytes;
  static constexpr int kMostSlots = 8;
  /// Elements of a warpgroup's results, of an image: four images lie in other banks.
  static constexpr int kImagePitch = kPanel * kColumns + 8;
  template <class T>
  static constexpr int kResultBytes = kImages* kImagePitch* int(sizeof(T));
  static constexpr int kBeforeWeights = 1024;  // barriers
  template <class T>
  static constexpr int kBytesWithoutRing =
      1024 + kBeforeWeights + kTaps* kTaps* kTapBytes + kGroups* kResultBytes<T>;
  template <class T>
  static constexpr int kSlots = std::min(kMostSlots,
                                         (227 * 1024 - kBytesWithoutRing<T>) / kRowOfImage);
  /// Of shared memory, to begin at a multiple of 1024.
  template <class T>
  static constexpr int kBytes = kBytesWithoutRing<T> + kSlots<T>* kRowOfImage;

  /// By the threads of a warpgroup.
  __device__ static void wait_group(int group) {
    if (group == 0)
      asm volatile("bar.sync 1, 128;" ::: "memory");
    else
      asm volatile("bar.sync 2, 128;" ::: "memory");
  }
};

struct KeptBarriers {
  CopyBarrier weights[9], full[8], empty[8];
};

/// Pairs of rows of results of all images, of eight at a time and `columns` columns; a block has per_block of them.
struct RowPairs {
  int height, pairs, per_block;  // pairs of an image, and in all
  FastDivisor by_height, by_segments;
  RowPairs(int images, int out_height, int out_width, int columns, int blocks)
      : height(ceil_div(out_height, 2)),
        pairs(ceil_div(images, ImageBlocks::kImages) * ceil_div(out_width, columns) * height),
        per_block(ceil_div(pairs, blocks)),
        by_height(height),
        by_segments(ceil_div(out_width, columns)) {}
  int blocks() const { return ceil_div(pairs, per_block); }

  /// Calls visit(image group, segment, first pair, pairs) for the parts of a block, each of pairs below each other.
  template <class Visit>
  __device__ __forceinline__ void for_strips(int block, Visit visit) const {
    const int last = min(pairs, (block + 1) * per_block);
    for (int at = block * per_block; at < last;) {
      int strip, pair, group, segment;
      by_height.divmod(at, strip, pair);
      by_segments.divmod(strip, group, segment);
      const int count = min(height - pair, last - at);
      visit(group, segment, pair, count);
      at += count;
    }
  }
};

/// What a warpgroup stores: of channels from `channel` on, of the images from `image` on.
struct KeptPart {
  int group, image, segment, pair, channel;
};

/// Where results go: images of `channels`, height x width, in kLayout, + bias (or nullptr).
template <Layout kLayout, class T>
struct RowPairResult {
  T* out;
  const float* bias;
  int images, channels, height, width;

  /// d[a][4j + 2i + e]: row a, column j, channel 16 (warp) + lane/4 + 8i, image 2 (lane%4) + e. By a warpgroup; `shared` has
  /// room for kResultBytes.
  template <class Tile>
  __device__ __forceinline__ void store(const float (&d)[2][Tile::kN / 2], const KeptPart& part,
                                        char* shared) const {
    constexpr int kVec = kWidest<T>, kColumns = Tile::kColumns;
    T* const values = reinterpret_cast<T*>(shared);
    const int member = threadIdx.x % 128, lane = member % 32, row = member / 32 * 16 + lane / 4;
    const int count = min(kPanel, channels - part.channel);
    const int image_count = min(Tile::kImages, images - part.image);
    const int column0 = part.segment * kColumns, columns = min(kColumns, width - column0);
    float biases[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int channel = row + 8 * i;
      biases[i] = bias != nullptr && channel < count ? __ldg(bias + part.channel + channel) : 0.f;
    }
#pragma unroll
    for (int a = 0; a < 2; ++a) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int channel = row + 8 * i, image = lane % 4 * 2 + e;
            values[image * Tile::kImagePitch +
                   (kLayout == Layout::kNCHW ? channel * kColumns + j : j * kPanel + channel)] =
                T(d[a][4 * j + 2 * i + e] + biases[i]);
          }
        }
      }
      Tile::wait_group(part.group);
      const int h = 2 * part.pair + a;
      if (h < height) {
        if constexpr (kLayout == Layout::kNCHW) {
          for (int i = member; i < Tile::kImages * kPanel * kColumns; i += 128) {
            const int column = i % kColumns, channel = i / kColumns % kPanel;
            const int image = i / (kColumns * kPanel);
            if (column < columns && channel < count && image < image_count)
              out[((size_t(part.image + image) * channels + part.channel + channel) * height + h) *
                      width +
                  column0 + column] =
                  values[image * Tile::kImagePitch + channel * kColumns + column];
          }
        } else {
          constexpr int kPieces = kPanel / kVec;
          for (int i = member; i < Tile::kImages * kColumns * kPieces; i += 128) {
            const int channel = i % kPieces * kVec, column = i / kPieces % kColumns;
            const int image = i / (kPieces * kColumns);
            if (column >= columns || channel >= count || image >= image_count) continue;
            T* const to =
                out +
                ((size_t(part.image + image) * height + h) * width + column0 + column) * channels +
                part.channel + channel;
            const T* const from = values + image * Tile::kImagePitch + column * kPanel + channel;
            if (channels % kVec == 0) {
              *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
            } else {
#pragma unroll
              for (int e = 0; e < kVec; ++e)
                if (channel + e < count) to[e] = from[e];
            }
          }
        }
      }
      Tile::wait_group(part.group);
    }
  }
};

// blockIdx.x is a run of pairs of rows, y one of kRows output channels.
template <class Tile, class T, class Result>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    kept_weights_kernel(const __grid_constant__ WeightByRow<T> weights,
                        const __grid_constant__ PixelRows<T> image,
                        const __grid_constant__ RowPairs pairs,
                        const __grid_constant__ Result result) {
#if DUET_HAS_WGMMA
  constexpr int kTaps = Tile::kTaps, kSlots = Tile::template kSlots<T>;
  // A pair's rows; with every second pair a warpgroup's, those of the other's that are not its own.
  static_assert(kSlots >= (Tile::kPanels == 2 ? 4 : 6));
  extern __shared__ char dynamic[];
  char* const aligned = dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023);
  auto& barriers = *reinterpret_cast<KeptBarriers*>(aligned);
  static_assert(sizeof(KeptBarriers) <= Tile::kBeforeWeights);
  char* const kept = aligned + Tile::kBeforeWeights;
  char* const ring = kept + kTaps * kTaps * Tile::kTapBytes;
  char* const results = ring + kSlots * Tile::kRowOfImage;
  // Of which the compiler is to know that a warp's threads agree.
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const int tid = threadIdx.x;
  if (tid == 0) {
    for (CopyBarrier& barrier : barriers.weights) barrier.init();
    for (int i = 0; i < kSlots; ++i) {
      barriers.full[i].init();
      barriers.empty[i].init(Tile::kGroups);
    }
  }
  __syncthreads();
  if (group == Tile::kGroups) {
    if (tid != Tile::kMultipliers) return;
    wait_for_primary();
    const auto start = weights.template start<Tile::kRows>(blockIdx.y);
    RingPlace at;
    int tap = 0;
    pairs.for_strips(blockIdx.x, [&](int images, int segment, int pair, int count) {
      for (int i = 0; i < 2 * count + kTaps - 1; ++i) {
        if (at.round > 0) barriers.empty[at.slot].wait(at.round - 1);
        barriers.full[at.slot].expect(Tile::kRowOfImage);
        image.copy(images, 0, 2 * pair + i, segment * Tile::kColumns, Tile::kRowOfImage,
                   ring + at.slot * Tile::kRowOfImage, barriers.full[at.slot]);
        at.next(kSlots);
        if (i == 0) continue;
        // The first products need two rows, and the weights in their order.
        for (const int next = min(tap + kTaps, kTaps * kTaps); tap < next; ++tap) {
          barriers.weights[tap].expect(Tile::kTapBytes);
          weights.template copy<Tile::kRows>(start, tap, kept + tap * Tile::kTapBytes,
                                             barriers.weights[tap]);
        }
      }
    });
  } else {
    constexpr bool kOwn = Tile::kPanels == 2;  // channels, and all pairs
    constexpr int kStep = kOwn ? 1 : 2;
    const int panel = kOwn ? group : 0;
    const char* const mine = kept + panel * kPanel * kRowBytes;
    RingPlace come, gone;
    int known = 0;  // taps whose weights have come
    float d[2][Tile::kN / 2];
    pairs.for_strips(blockIdx.x, [&](int images, int segment, int first, int count) {
      // Of the strip's rows, how many have come, and how many this warpgroup has given back.
      int here = 0, returned = 0;
      const auto await_rows = [&](int up_to) {
        for (; here < up_to; ++here) {
          barriers.full[come.slot].wait(come.round);
          come.next(kSlots);
        }
      };
      const auto give_back = [&](int up_to) {
        await_rows(up_to);
        for (; returned < up_to; ++returned) {
          if (tid % 128 == 0) barriers.empty[gone.slot].arrive();
          gone.next(kSlots);
        }
      };
      for (int pair = kOwn ? 0 : group; pair < count; pair += kStep) {
        give_back(2 * pair);
        RingPlace upper = gone;
        wgmma_begin();
#pragma unroll 1
        for (int r = 0; r < kTaps; ++r) {
          await_rows(2 * pair + r + 2);
          RingPlace lower = upper;
          lower.next(kSlots);
          const char* const of_upper = ring + upper.slot * Tile::kRowOfImage;
          const char* const of_lower = ring + lower.slot * Tile::kRowOfImage;
#pragma unroll
          for (int s = 0; s < kTaps; ++s) {
            const int tap = r * kTaps + s;
            if (known == tap) barriers.weights[known++].wait(0);
            const char* const of_tap = mine + tap * Tile::kTapBytes;
            const int pixel = s * Tile::kImages * kRowBytes;
#pragma unroll
            for (int k = 0; k < kRowBytes; k += 32) {
              Wgmma<T, Tile::kN, false, false>::multiply(d[0], matrix_descriptor(of_tap + k, 0),
                                                         matrix_descriptor(of_upper + pixel + k, 0),
                                                         tap > 0 || k > 0);
              Wgmma<T, Tile::kN, false, false>::multiply(d[1], matrix_descriptor(of_tap + k, 0),
                                                         matrix_descriptor(of_lower + pixel + k, 0),
                                                         tap > 0 || k > 0);
            }
          }
          upper = lower;
        }
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(d[0]);
        wgmma_settle(d[1]);
        give_back(pair + kStep < count ? 2 * (pair + kStep) : 2 * count + kTaps - 1);
        result.template store<Tile>(d,
                                    {group, images * Tile::kImages, segment, first + pair,
                                     int(blockIdx.y) * Tile::kRows + panel * kPanel},
                                    results + group * Tile::template kResultBytes<T>);
      }
      give_back(2 * count + kTaps - 1);  // by a warpgroup without pairs
    });
  }
#else
  __trap();
#endif
}

template <class Tile, class T, class Result>
void launch_kept_weights(const WeightByRow<T>& weights, const PixelRows<T>& image,
                         const RowPairs& pairs, int channels, const Result& result,
                         cudaStream_t stream) {
  const auto kernel = kept_weights_kernel<Tile, T, Result>;
  constexpr int kBytes = Tile::template kBytes<T>;
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  launch({.gridDim = dim3(pairs.blocks(), ceil_div(channels, Tile::kRows)),
          .blockDim = Tile::kThreads,
          .dynamicSmemBytes = kBytes,
          .stream = stream},
         {overlaps_primary()}, kernel, weights, image, pairs, result);
}

/// A convolution as these kernels have it: images height x width with pad_h and pad_w zeros above and left become out_channels of
/// out_height x out_width.
struct KeptProblem {
  int images, height, width, channels, pad_h, pad_w, out_channels, out_height, out_width;

  /// Of a tile: 10 or 12 with two panels, and with one 14 too.
  int columns() const {
    const int most = out_channels > kPanel ? 12 : 14;
    int best = most;
    for (int columns = most - 2; columns >= 10; columns -= 2)
      if (round_up(out_width, columns) < round_up(out_width, best)) best = columns;
    return best;
  }
  /// Calls visit(tile).
  template <class Visit>
  void with_tile(Visit visit) const {
    const int wide = columns();
    if (out_channels > kPanel) {
      wide == 10 ? visit(KeptTile<2, 10>{}) : visit(KeptTile<2, 12>{});
    } else if (wide == 14) {
      visit(KeptTile<1, 14>{});
    } else {
      wide == 10 ? visit(KeptTile<1, 10>{}) : visit(KeptTile<1, 12>{});
    }
  }
  /// Whether little of what is computed is not wanted, and there is enough for all multiprocessors.
  bool worthwhile() const {
    const double wanted = double(out_width) * out_channels * images;
    const double all = double(round_up(out_width, columns())) *
                       round_up(out_channels, out_channels > kPanel ? 2 * kPanel : kPanel) *
                       round_up(images, ImageBlocks::kImages);
    // A block has two pairs at least, and brings the weights for them.
    const int64_t pairs = int64_t{ceil_div(images, ImageBlocks::kImages)} *
                          ceil_div(out_width, columns()) * ceil_div(out_height, 2);
    return channels <= kStepDepth<bfloat16> && wanted >= 0.75 * all && pairs >= 264;
  }
  std::string text() const {
    std::string text;
    with_tile([&]<class Tile>(Tile) {
      text = "tile " + std::to_string(kPanel) + "x" + std::to_string(2 * Tile::kN) +
             ", weights kept, wgmma bf16";
    });
    return text;
  }

  /// `taps` begin at the upper left of a result.
  template <class Result>
  void run(const bfloat16* image, const bfloat16* weights, const TapNumbers& taps,
           const Result& result, cudaStream_t stream) const {
    with_tile([&]<class Tile>(Tile) {
      const int across = ceil_div(out_channels, Tile::kRows);
      const RowPairs pairs(images, out_height, out_width, Tile::kColumns,
                           std::max(1, likely_multiprocessor_count() / across));
      launch_kept_weights<Tile>(
          WeightByRow<bfloat16>(weights, out_channels, 9, channels, Tile::kRows, taps),
          PixelRows<bfloat16>(image, images, height, width, channels, pad_h, pad_w,
                              Tile::kColumns + Tile::kTaps - 1),
          pairs, out_channels, result, stream);
    });
  }
};

}  // namespace duet
