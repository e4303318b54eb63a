// Tiles of images on their way between planes (NCHW) and channels last (NHWC), through shared memory: on both sides memory is
// moved by 16 bytes, where planes begin at multiples of them, and shared memory has no bank conflicts.
#pragma once

#include <algorithm>

#include "kernels/integers.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/vector.cuh"

namespace duet {

inline constexpr int kPlaneThreads = 256;

/// Of a block: 128 bytes of channels of neighbouring pixels, in eight pieces of 16 bytes of a pixel. A piece is the planes of so
/// many channels, one behind the other.
template <class T>
struct PlaneTile {
  static constexpr int kVec = kWidest<T>, kPieces = 8, kChannels = kPieces * kVec, kMost = 176;
  alignas(16) T values[kPieces * kVec * (kMost + 1)];

  __device__ __forceinline__ static PlaneTile& of_block() {
    __shared__ PlaneTile tile;
    return tile;
  }
};

/// How images in planes are cut into PlaneTiles.
template <class T>
struct PlaneTiles {
  using Tile = PlaneTile<T>;
  static constexpr int kVec = Tile::kVec;
  int channels, pixels;  // of an image; more channels are zeros
  int run, blocks;       // pixels of a block
  bool whole, words;     // a run is a plane; planes are read by 16 bytes
  FastDivisor by_runs, by_channels, by_line;
  PlaneTiles() = default;
  PlaneTiles(int images, int channels_, int padded, int pixels_)
      : channels(channels_), pixels(pixels_) {
    // Shorter runs where images are few.
    constexpr int kWantedBlocks = 512, kShortest = 32;
    by_channels = FastDivisor(ceil_div(padded, Tile::kChannels));
    const int wanted = ceil_div(kWantedBlocks, images * int(by_channels.divisor));
    const int runs =
        std::max(ceil_div(pixels, Tile::kMost), std::min(wanted, ceil_div(pixels, kShortest)));
    run = round_up(ceil_div(pixels, runs), pixels % kVec == 0 ? kVec : 1);
    by_runs = FastDivisor(ceil_div(pixels, run));
    blocks = images * int(by_channels.divisor) * int(by_runs.divisor);
    whole = run == pixels;
    words = channels % kVec == 0 && (whole || run % kVec == 0 && pixels % kVec == 0);
    by_line = FastDivisor(whole ? run : std::max(run / kVec, 1));
  }
  __device__ __forceinline__ void start(int block, int& image, int& channel, int& pixel) const {
    int rest;
    by_runs.divmod(block, rest, pixel);
    by_channels.divmod(rest, image, channel);
    pixel *= run, channel *= Tile::kChannels;
  }

  /// Elements from a piece to the next. An odd number of 16 bytes: the lanes of a store, eight pieces of four pixels, meet
  /// different banks.
  __device__ __forceinline__ int pitch() const { return kVec * (run | 1); }
  __device__ __forceinline__ T& at(Tile& tile, int channel, int pixel) const {
    return tile.values[channel / kVec * pitch() + channel % kVec * run + pixel];
  }
  /// Planes from `channel0` on as they lie; `from` is its plane's pixel `pixel0`. By the threads of a block, who then wait.
  __device__ __forceinline__ void load(Tile& tile, const T* from, int channel0, int pixel0) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (words) {
      // A warp brings a piece: its planes are one line, or each has a line of its own.
      static_assert(kPlaneThreads / 32 == Tile::kPieces);
      from += size_t(warp) * kVec * pixels;
      T* const to = &at(tile, warp * kVec, 0);
      const bool there = channel0 + warp * kVec < channels;
#pragma unroll 4
      for (int i = lane; i < run; i += 32) {
        int line = 0, word = i;
        if (!whole) by_line.divmod(i, line, word);
        Packed<T, kVec> values;
        if (there && (whole || pixel0 + word * kVec < pixels))
          values = Packed<T, kVec>::load(from + line * pixels + word * kVec);
        values.store(to + i * kVec);
      }
    } else {
      const int count = min(run, pixels - pixel0);
#pragma unroll 1
      for (int pixel = lane; pixel < count; pixel += 32) {
#pragma unroll
        for (int i = 0; i < Tile::kChannels / (kPlaneThreads / 32); ++i) {
          const int channel = warp + i * (kPlaneThreads / 32);
          at(tile, channel, pixel) =
              channel0 + channel < channels ? from[size_t(channel) * pixels + pixel] : T(0.f);
        }
      }
    }
  }

  /// The other way round, a whole number of pieces: from the tile to planes. By the threads of a block.
  __device__ __forceinline__ void store(const Tile& tile, T* to, int channel0, int pixel0) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (channel0 + warp * kVec >= channels) return;
    to += size_t(warp) * kVec * pixels;
    const T* const from = tile.values + warp * pitch();
    if (words) {
#pragma unroll 4
      for (int i = lane; i < run; i += 32) {
        int line = 0, word = i;
        if (!whole) by_line.divmod(i, line, word);
        Packed<T, kVec> values;
        values.word = *reinterpret_cast<const float4*>(from + i * kVec);
        if (whole || pixel0 + word * kVec < pixels) values.store(to + line * pixels + word * kVec);
      }
    } else {
      const int count = min(run, pixels - pixel0);
      for (int pixel = lane; pixel < count; pixel += 32) {
#pragma unroll
        for (int e = 0; e < kVec; ++e) to[size_t(e) * pixels + pixel] = from[e * run + pixel];
      }
    }
  }

  // Of channels last a thread has the same piece of every 32nd pixel.
  static constexpr int kStep = kPlaneThreads / Tile::kPieces;
  __device__ __forceinline__ static int own_piece() { return threadIdx.x % Tile::kPieces; }
  __device__ __forceinline__ static int first_pixel() { return threadIdx.x / Tile::kPieces; }
  __device__ __forceinline__ Vector<T, kVec> piece(const Tile& tile, int pixel) const {
    const T* const from = tile.values + own_piece() * pitch();
    Vector<T, kVec> values;
#pragma unroll
    for (int e = 0; e < kVec; ++e) values.v[e] = from[e * run + pixel];
    return values;
  }
  __device__ __forceinline__ void put(Tile& tile, int pixel, const Vector<T, kVec>& values) const {
    T* const to = tile.values + own_piece() * pitch();
#pragma unroll
    for (int e = 0; e < kVec; ++e) to[e * run + pixel] = values.v[e];
  }
};

/// Planes of bfloat16 to channels last, where both are whole 16 bytes: ldmatrix turns 8 x 8 values at a time, of four groups
/// of channels at once. A block has a tile of kChannels x kPixels.
struct TurnedPlanes {
  static constexpr int kChannels = 32, kPixels = 128, kVec = kWidest<bfloat16>;
  static constexpr int kEach = kChannels * kPixels / kVec / kPlaneThreads;  // 16 bytes of a thread
  static_assert(kChannels == 4 * kVec);
  int channels = 0, pixels = 0;  // of an image
  int blocks = 0;
  FastDivisor by_runs, by_groups;

  TurnedPlanes() = default;
  TurnedPlanes(int images, int channels_, int pixels_)
      : channels(channels_),
        pixels(pixels_),
        by_runs(ceil_div(pixels, kPixels)),
        by_groups(ceil_div(channels, kChannels)) {
    blocks = images * int(by_runs.divisor * by_groups.divisor);
  }
  static bool possible(int channels, int pixels) {
    return channels % kVec == 0 && pixels % kVec == 0;
  }

  /// By the threads of a block; `memory` is shared and has room for a tile.
  __device__ __forceinline__ void turn(const bfloat16* planes, bfloat16* rows, void* memory,
                                       int block) const {
    constexpr int kPieces = kPixels / kVec;
    auto* const tile = static_cast<uint4*>(memory);
    // The eight rows of a matrix lie in different banks.
    const auto place = [](int channel, int piece) {
      return channel * kPieces + (piece ^ (channel / 8 * 2 + channel % 2));
    };
    int rest, run, group, n;
    by_runs.divmod(block, rest, run);
    by_groups.divmod(rest, n, group);
    const int channel0 = group * kChannels, pixel0 = run * kPixels;
    planes += (size_t(n) * channels + channel0) * pixels + pixel0;
    uint4 values[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = i * kPlaneThreads + threadIdx.x;
      const int channel = at / kPieces, pixel = at % kPieces * kVec;
      const bool inside = channel0 + channel < channels && pixel0 + pixel < pixels;
      values[i] =
          inside ? *reinterpret_cast<const uint4*>(planes + channel * pixels + pixel) : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = i * kPlaneThreads + threadIdx.x;
      tile[place(at / kPieces, at % kPieces)] = values[i];
    }
    __syncthreads();
    rows += (size_t(n) * pixels + pixel0) * channels + channel0;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      // Of four matrices, whose rows are channels such that a lane's words of all are eight neighbours.
      const int piece = warp * kEach + i, matrix = lane / 8, row = lane % 8;
      uint32_t words[4];
      load_matrices<true>(words, &tile[place(row / 2 * 8 + matrix * 2 + row % 2, piece)]);
      const int pixel = piece * kVec + lane / 4, channel = lane % 4 * kVec;
      if (pixel0 + pixel < pixels && channel0 + channel < channels)
        *reinterpret_cast<uint4*>(rows + pixel * channels + channel) = {words[0], words[1],
                                                                        words[2], words[3]};
    }
  }
};

}  // namespace duet
