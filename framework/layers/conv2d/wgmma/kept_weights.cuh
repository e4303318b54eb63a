// A 3x3 convolution of stride 1 by Hopper's wgmma where the weights of 64 or 128 output channels fit in shared memory and stay
// there: input channels of 128 bytes at most, or of 64, of which rows in shared memory are then.
//
// Eight images lie side by side, as in kernels/wgmma_filter.cuh: a pixel in shared memory is eight images x 128 bytes of channels,
// positions of the product run over images first, and a tap is the same block some pixels further on. No position beside the
// image is computed, and what lies around a position is a thread's own: a window of a pooling in particular.
// Mapping: block = 64 or 128 output channels x a run of pairs of rows of results, of eight images. A warpgroup multiplies 64
// channels by two rows of kColumns positions: with 128 channels each its own, with 64 both, every second pair each. The four
// rows of the image that a pair meets come through a ring, two for each new pair. One thread of one more warp starts copies.
// Of 32 output channels the instruction's 64 rows are those of both rows of results: what a row of the image is multiplied by
// is tap r for the upper and tap r - 1 for the lower, and zeros where there is no such tap: 4 instructions in place of 6.
// Traffic: the weights once a block, the image once for each column of blocks and two rows more for each run; products of
// gathered operands (kernels/wgmma_product.cuh) read the image nine times, and the weights once a tile of 128 positions.
#pragma once

#include "kernels/moment_parts.cuh"
#include "kernels/wgmma_filter.cuh"

namespace duet {

/// Of so many output channels and columns, and of rows of so many bytes.
template <int channels, int columns, int row_bytes>
struct KeptTile {
  static_assert(channels == 32 || channels == 64 || channels == 128);
  static constexpr int kChannels = channels, kColumns = columns, kImages = ImageBlocks::kImages;
  static constexpr int kDepth = row_bytes / int(sizeof(bfloat16));  // input channels
  static constexpr bool kStacked = channels < kPanel;               // a pair's rows in a panel
  static constexpr bool kNarrow = kStacked || row_bytes < kRowBytes;
  static constexpr int kPanels = channels > kPanel ? 2 : 1, kRows = kPanels * kPanel;
  static constexpr int kN = kColumns * kImages, kSets = kStacked ? 1 : 2;  // of sums
  static constexpr int kTaps = 3, kGroups = 2, kMultipliers = kGroups * 128;
  static constexpr int kThreads = kMultipliers + 32;
  /// Rows of weights that are kept, of kTaps each.
  static constexpr int kTapRows = kTaps + 2 - kSets;
  /// Of a row in shared memory, of one of the image, and of the weights of a tap.
  static constexpr int kBytesOfRow = row_bytes;
  static constexpr int kRowOfImage = (kColumns + kTaps - 1) * kImages * kBytesOfRow;
  static constexpr int kTapBytes = kRows * kBytesOfRow;
  static constexpr int kMostSlots = 8;
  /// Results that a thread stores together, where the channels are planes.
  static constexpr int kRun = kColumns % 4 == 0 ? 4 : 2;
  /// Of a warpgroup's results: channels, and elements of a channel of an image and of an image, so that rows and four images lie
  /// in other banks.
  static constexpr int kResultChannels = kChannels / kPanels;
  static constexpr int kChannelPitch = kColumns + (kColumns == 16 ? 4 : 0);
  static constexpr int kImagePitch = kResultChannels * kChannelPitch + 8;
  template <class T>
  static constexpr int kResultBytes = kImages* kImagePitch* int(sizeof(T));
  static constexpr int kBeforeWeights = 1024;  // barriers
  template <class T>
  static constexpr int kBytesWithoutRing =
      1024 + kBeforeWeights + kTapRows* kTaps* kTapBytes + kGroups* kResultBytes<T>;
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
  CopyBarrier weights[12], full[8], empty[8];
};

/// Weights [channel][tap][input channel] of nine taps.
template <class Tile>
struct KeptWeights {
  CUtensorMap map;
  TapNumbers numbers;
  KeptWeights(const bfloat16* weights, int rows, int channels, const TapNumbers& numbers_)
      : map(tensor_map(weights, {{{channels, 1, Tile::kDepth},
                                  {kCount, channels},
                                  {rows, int64_t{kCount} * channels, Tile::kChannels},
                                  kNoAxis}})),
        numbers(numbers_) {}
  /// What is kept as number `kept`, from `channel` on.
  __device__ __forceinline__ void copy(int channel, int kept, char* shared,
                                       const CopyBarrier& barrier) const {
#pragma unroll
    for (int half = 0; half < (Tile::kStacked ? 2 : 1); ++half) {
      const int number = kept - half * Tile::kTaps;
      const int tap = number >= 0 && number < kCount ? numbers.of(number) : kCount;  // of zeros
      copy_box(shared + half * Tile::kChannels * Tile::kBytesOfRow, map, 0, tap, channel, 0,
               barrier);
    }
  }

 private:
  static constexpr int kCount = Tile::kTaps * Tile::kTaps;
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

/// Parts of moments that a block leaves: its warpgroups have different pairs or channels, and halves of a panel
/// different rows.
template <class Tile>
inline constexpr int kKeptMomentParts = Tile::kStacked       ? 4
                                        : Tile::kPanels == 2 ? 1
                                                             : 2;

/// What a warpgroup stores: of channels from `channel` on, of the images from `image` on.
struct KeptPart {
  int group, image, segment, pair, channel;
};

/// Where results go: images of `channels`, height x width, in kLayout, + bias (or nullptr); and the moments of what is
/// stored, if those have parts.
template <Layout kLayout, class T>
struct RowPairResult {
  static constexpr bool kTakesNarrow = true;
  T* out;
  const float* bias;
  int images, channels, height, width;
  ChannelMoments moments = {};

  /// Adds to the moments of the thread's two channels what store() has of them.
  template <class Tile>
  __device__ __forceinline__ void add_to(SumsAboutFirst<2>& all,
                                         const float (&d)[Tile::kSets][Tile::kN / 2],
                                         const KeptPart& part) const {
    const int lane = threadIdx.x % 32, panel_row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    const int columns = min(Tile::kColumns, width - part.segment * Tile::kColumns);
    const int here = min(max(images - part.image - lane % 4 * 2, 0), 2);  // of two images
    const int h = 2 * part.pair + (Tile::kStacked ? panel_row / Tile::kResultChannels : 0);
    const int rows = min(max(height - h, 0), Tile::kSets);
    const int count = rows * columns * here;
    if (count == 0) return;
    float biases[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int channel = part.channel + panel_row % Tile::kResultChannels + 8 * i;
      biases[i] = bias != nullptr && channel < channels ? __ldg(bias + channel) : 0.f;
      all.begin(i, StoredPair<T>(d[0][2 * i] + biases[i], 0.f)[0]);
    }
    const auto add = [&](auto inside) {
#pragma unroll
      for (int a = 0; a < Tile::kSets; ++a)
#pragma unroll
        for (int j = 0; j < Tile::kColumns; ++j)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float* const of_images = d[a] + 4 * j + 2 * i;
            const StoredPair<T> pair(of_images[0] + biases[i], of_images[1] + biases[i]);
#pragma unroll
            for (int e = 0; e < 2; ++e)
              if (inside(a, j, e)) all.add(i, pair[e]);
          }
    };
    count == 2 * Tile::kSets* Tile::kColumns
        ? add([](int, int, int) { return true; })
        : add([&](int a, int j, int e) { return a < rows && j < columns && e < here; });
    all.count += float(count);
  }
  /// By a warpgroup, of all that its threads have added; `channel`: its first.
  template <class Tile>
  __device__ __forceinline__ void leave(const SumsAboutFirst<2>& sums, int group,
                                        int channel) const {
    constexpr int kParts = kKeptMomentParts<Tile>;
    const int lane = threadIdx.x % 32, panel_row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    int part = blockIdx.x * kParts;
    if constexpr (kParts > 1) part += group * (kParts / 2) + panel_row / Tile::kResultChannels;
    RowMoments<2> all = sums.moments();
    all.join_quad();
    if (lane % 4 != 0) return;
    channel += panel_row % Tile::kResultChannels;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (channel + 8 * i < channels)
        leave_moments(moments, channel + 8 * i, part, all.mean[i], all.squares[i]);
    if (channel == 0) moments.counts[part] = all.count;
  }

  /// d[a][4j + 2i + e]: row a, column j, channel 16 (warp) + lane/4 + 8i, image 2 (lane%4) + e; stacked, row 1 is that of
  /// channels from 32 on. By a warpgroup; `shared` has room for kResultBytes.
  template <class Tile>
  __device__ __forceinline__ void store(const float (&d)[Tile::kSets][Tile::kN / 2],
                                        const KeptPart& part, char* shared) const {
    constexpr int kVec = kWidest<T>, kColumns = Tile::kColumns, kRun = Tile::kRun;
    constexpr int kChannels = Tile::kResultChannels;
    constexpr int kPitch = Tile::kChannelPitch;
    struct alignas(kRun * sizeof(T)) Run {
      T values[kRun];
    };
    T* const values = reinterpret_cast<T*>(shared);
    const int member = threadIdx.x % 128, lane = member % 32,
              panel_row = member / 32 * 16 + lane / 4;
    const int row = panel_row % kChannels;
    const int count = min(kChannels, channels - part.channel);
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
      const float(&sums)[Tile::kN / 2] = d[Tile::kStacked ? 0 : a];
      if (!Tile::kStacked || panel_row / kChannels == a) {
        // In planes two columns are neighbours, which are rounded and written together.
        constexpr int kTogether = kLayout == Layout::kNCHW ? 2 : 1;
#pragma unroll
        for (int j = 0; j < kColumns; j += kTogether) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const int channel = row + 8 * i, image = lane % 4 * 2 + e;
              T* const to = values + image * Tile::kImagePitch;
              const float* const from = sums + 4 * j + 2 * i + e;
              if constexpr (kLayout == Layout::kNCHW) {
                *reinterpret_cast<StoredPair<T>*>(to + channel * kPitch + j) = {
                    from[0] + biases[i], from[4] + biases[i]};
              } else {
                to[j * kChannels + channel] = T(from[0] + biases[i]);
              }
            }
          }
        }
      }
      Tile::wait_group(part.group);
      const int h = 2 * part.pair + a;
      if (h < height) {
        if constexpr (kLayout == Layout::kNCHW) {
          constexpr int kRuns = kColumns / kRun, kEach = Tile::kImages * kChannels * kRuns / 128;
          constexpr int kTogether = kEach % 4 == 0 ? 4 : 2;
          static_assert(kEach % kTogether == 0);
          for (int first = 0; first < kEach; first += kTogether) {
            Run runs[kTogether];
#pragma unroll
            for (int n = 0; n < kTogether; ++n) {
              const int i = (first + n) * 128 + member, row_of = i / kRuns;
              runs[n] =
                  *reinterpret_cast<const Run*>(values + row_of / kChannels * Tile::kImagePitch +
                                                row_of % kChannels * kPitch + i % kRuns * kRun);
            }
#pragma unroll
            for (int n = 0; n < kTogether; ++n) {
              const int i = (first + n) * 128 + member, column = i % kRuns * kRun;
              const int channel = i / kRuns % kChannels, image = i / (kRuns * kChannels);
              if (column >= columns || channel >= count || image >= image_count) continue;
              T* const to =
                  out +
                  ((size_t(part.image + image) * channels + part.channel + channel) * height + h) *
                      width +
                  column0 + column;
              if (width % kRun == 0 && column0 % kRun == 0) {
                *reinterpret_cast<Run*>(to) = runs[n];
              } else {
#pragma unroll
                for (int e = 0; e < kRun; ++e)
                  if (column + e < columns) to[e] = runs[n].values[e];
              }
            }
          }
        } else {
          constexpr int kPieces = kChannels / kVec;
#pragma unroll 4
          for (int i = member; i < Tile::kImages * kColumns * kPieces; i += 128) {
            const int channel = i % kPieces * kVec, column = i / kPieces % kColumns;
            const int image = i / (kPieces * kColumns);
            if (column >= columns || channel >= count || image >= image_count) continue;
            T* const to =
                out +
                ((size_t(part.image + image) * height + h) * width + column0 + column) * channels +
                part.channel + channel;
            const T* const from = values + image * Tile::kImagePitch + column * kChannels + channel;
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

// blockIdx.x is a run of pairs of rows, y one of kChannels output channels.
template <class Tile, class T, class Result>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    kept_weights_kernel(const __grid_constant__ KeptWeights<Tile> weights,
                        const __grid_constant__ PixelRows<T> image,
                        const __grid_constant__ RowPairs pairs,
                        const __grid_constant__ Result result) {
#if DUET_HAS_WGMMA
  constexpr int kTaps = Tile::kTaps, kSlots = Tile::template kSlots<T>;
  constexpr int kBytesOfRow = Tile::kBytesOfRow, kKept = Tile::kTapRows * kTaps;
  // A pair's rows; with every second pair a warpgroup's, those of the other's that are not its own.
  static_assert(kSlots >= (Tile::kPanels == 2 ? 4 : 6));
  extern __shared__ char dynamic[];
  char* const aligned = dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023);
  auto& barriers = *reinterpret_cast<KeptBarriers*>(aligned);
  static_assert(sizeof(KeptBarriers) <= Tile::kBeforeWeights);
  char* const kept = aligned + Tile::kBeforeWeights;
  char* const ring = kept + kKept * Tile::kTapBytes;
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
    RingPlace at;
    int tap = 0;
    pairs.for_strips(blockIdx.x, [&](int images, int segment, int pair, int count) {
      for (int i = 0; i < 2 * count + kTaps - 1; ++i) {
        if (at.round > 0) barriers.empty[at.slot].wait(at.round - 1);
        barriers.full[at.slot].expect(Tile::kRowOfImage);
        image.copy(images, 0, 2 * pair + i, segment * Tile::kColumns, Tile::kRowOfImage,
                   ring + at.slot * Tile::kRowOfImage, barriers.full[at.slot]);
        at.next(kSlots);
        if (i < Tile::kSets - 1) continue;
        // The first products need so many rows, and the weights in their order.
        for (const int next = min(tap + kTaps, kKept); tap < next; ++tap) {
          barriers.weights[tap].expect(Tile::kTapBytes);
          weights.copy(blockIdx.y * Tile::kChannels, tap, kept + tap * Tile::kTapBytes,
                       barriers.weights[tap]);
        }
      }
    });
  } else {
    constexpr bool kOwn = Tile::kPanels == 2;  // channels, and all pairs
    constexpr int kStep = kOwn ? 1 : 2;
    const int panel = kOwn ? group : 0;
    const char* const mine = kept + panel * kPanel * kBytesOfRow;
    RingPlace come, gone;
    int known = 0;  // taps whose weights have come
    const int channel = int(blockIdx.y) * Tile::kChannels + panel * kPanel;
    [[maybe_unused]] SumsAboutFirst<2> moments;
    float d[Tile::kSets][Tile::kN / 2];
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
#pragma unroll 1
        for (int r = 0; r < Tile::kTapRows; ++r) {
          await_rows(2 * pair + r + Tile::kSets);
          RingPlace lower = upper;
          lower.next(kSlots);
          const char* const of_upper = ring + upper.slot * Tile::kRowOfImage;
          const char* const of_lower = ring + lower.slot * Tile::kRowOfImage;
#pragma unroll
          for (int s = 0; s < kTaps; ++s) {
            const int tap = r * kTaps + s;
            if (known == tap) barriers.weights[known++].wait(0);
            wgmma_begin();
            const char* const of_tap = mine + tap * Tile::kTapBytes;
            const int pixel = s * Tile::kImages * kBytesOfRow;
            const auto multiply = [&](float(&sums)[Tile::kN / 2], const char* row, int k) {
              Wgmma<T, Tile::kN, false, false>::multiply(
                  sums, matrix_descriptor<kBytesOfRow>(of_tap + k, 0),
                  matrix_descriptor<kBytesOfRow>(row + pixel + k, 0), tap > 0 || k > 0);
            };
#pragma unroll
            for (int k = 0; k < kBytesOfRow; k += 32) {
              multiply(d[0], of_upper, k);
              if constexpr (!Tile::kStacked) multiply(d[1], of_lower, k);
            }
          }
          upper = lower;
        }
        wgmma_begin();
        wgmma_commit();
        wgmma_wait<0>();
        for (auto& sums : d) wgmma_settle(sums);
        give_back(pair + kStep < count ? 2 * (pair + kStep) : 2 * count + kTaps - 1);
        const KeptPart part{group, images * Tile::kImages, segment, first + pair, channel};
        result.template store<Tile>(d, part, results + group * Tile::template kResultBytes<T>);
        if constexpr (requires { result.moments; })
          if (result.moments.parts > 0) result.template add_to<Tile>(moments, d, part);
      }
      give_back(2 * count + kTaps - 1);  // by a warpgroup without pairs
    });
    if constexpr (requires { result.moments; })
      if (result.moments.parts > 0) result.template leave<Tile>(moments, group, channel);
  }
#else
  __trap();
#endif
}

template <class Tile, class T, class Result>
void launch_kept_weights(const KeptWeights<Tile>& weights, const PixelRows<T>& image,
                         const RowPairs& pairs, int channels, const Result& result,
                         cudaStream_t stream) {
  const auto kernel = kept_weights_kernel<Tile, T, Result>;
  constexpr int kBytes = Tile::template kBytes<T>;
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  launch({.gridDim = dim3(pairs.blocks(), ceil_div(channels, Tile::kChannels)),
          .blockDim = Tile::kThreads,
          .dynamicSmemBytes = kBytes,
          .stream = stream},
         {overlaps_primary()}, kernel, weights, image, pairs, result);
}

/// A convolution as these kernels have it: images height x width with pad_h and pad_w zeros above and left become out_channels of
/// out_height x out_width.
struct KeptProblem {
  int images, height, width, channels, pad_h, pad_w, out_channels, out_height, out_width;

  /// Calls visit(tile) for the tile that takes the least time.
  template <class Visit>
  void with_tile(Visit visit) const {
    int best = 0;
    double least = 1e300;
    for_tiles([&]<class Tile>(Tile, int number) {
      if (channels > Tile::kDepth || cost<Tile>() >= least) return;
      best = number, least = cost<Tile>();
    });
    for_tiles([&]<class Tile>(Tile tile, int number) {
      if (number == best) visit(tile);
    });
  }
  /// Whether it is possible, little of what is computed is not wanted, and there is enough for all multiprocessors.
  bool worthwhile() const {
    if (channels > kStepDepth<bfloat16>) return false;
    bool is = false;
    with_tile([&]<class Tile>(Tile) {
      const double wanted = double(out_width) * out_channels * images;
      const double all = double(round_up(out_width, Tile::kColumns)) *
                         round_up(out_channels, Tile::kChannels) *
                         round_up(images, ImageBlocks::kImages);
      // A block has two pairs at least, and brings the weights for them.
      const int64_t pairs = int64_t{ceil_div(images, ImageBlocks::kImages)} *
                            ceil_div(out_width, Tile::kColumns) * ceil_div(out_height, 2) *
                            ceil_div(out_channels, Tile::kChannels);
      is = wanted >= 0.75 * all && pairs >= 256;
    });
    return is;
  }
  /// Of four columns, where results are planes.
  bool stores_runs() const {
    bool runs = false;
    with_tile([&]<class Tile>(Tile) { runs = Tile::kRun == 4 && out_width % Tile::kRun == 0; });
    return runs;
  }
  int moment_parts() const {
    int parts = 0;
    with_tile(
        [&]<class Tile>(Tile) { parts = row_pairs<Tile>().blocks() * kKeptMomentParts<Tile>; });
    return parts;
  }
  std::string text() const {
    std::string text;
    with_tile([&]<class Tile>(Tile) {
      text = "tile " + std::to_string(Tile::kResultChannels) + "x" + std::to_string(2 * Tile::kN) +
             ", weights kept, wgmma bf16";
    });
    return text;
  }

  /// `taps` begin at the upper left of a result.
  template <class Result>
  void run(const bfloat16* image, const bfloat16* weights, const TapNumbers& taps,
           const Result& result, cudaStream_t stream) const {
    with_tile([&]<class Tile>(Tile) {
      if constexpr (!Tile::kNarrow || Result::kTakesNarrow) {
        launch_kept_weights<Tile>(
            KeptWeights<Tile>(weights, out_channels, channels, taps),
            PixelRows<bfloat16>(image, images, height, width, channels, pad_h, pad_w,
                                Tile::kColumns + Tile::kTaps - 1, Tile::kBytesOfRow),
            row_pairs<Tile>(), out_channels, result, stream);
      } else {
        throw UnsupportedError("keeps weights of more than 32 channels only");
      }
    });
  }

 private:
  template <class Tile>
  RowPairs row_pairs() const {
    const int across = ceil_div(out_channels, Tile::kChannels);
    return {images, out_height, out_width, Tile::kColumns,
            std::max(1, likely_multiprocessor_count() / across)};
  }
  template <class Visit>
  static void for_tiles(Visit visit) {
    visit(KeptTile<128, 12, 128>{}, 0);
    visit(KeptTile<128, 10, 128>{}, 1);
    visit(KeptTile<64, 14, 128>{}, 2);
    visit(KeptTile<64, 12, 128>{}, 3);
    visit(KeptTile<64, 10, 128>{}, 4);
    visit(KeptTile<64, 16, 128>{}, 5);
    visit(KeptTile<64, 16, 64>{}, 6);
    visit(KeptTile<64, 14, 64>{}, 7);
    visit(KeptTile<32, 16, 128>{}, 8);
    visit(KeptTile<32, 14, 128>{}, 9);
    visit(KeptTile<32, 16, 64>{}, 10);
    visit(KeptTile<32, 14, 64>{}, 11);
  }
  /// In proportion to what is multiplied.
  template <class Tile>
  double cost() const {
    return double(round_up(out_width, Tile::kColumns)) * round_up(out_channels, Tile::kChannels) *
           Tile::kDepth * (Tile::kStacked ? 1.34 : 1.);
  }
};

}  // namespace duet
