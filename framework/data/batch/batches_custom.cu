// batches custom gather: finds the samples of the step, turns their bytes into normalised values.
// Mapping:  block = 1 row (or a part of a large one); thread 0 finds the sample (and draws how it is
//           augmented; with mixup thread 1 does so for the other image), then thread = 4 pixels, or
//           1 of an augmented image in all its channels (4, where each value is one byte, whose bytes are then
//           on their way at once), and the last thread brings the label. A row has no
//           more blocks than all find room for at once: each waits for its thread 0, about 2 us. Of a step that rests
//           the first pixels come while the kernel before still runs.
// Traffic:  each byte once (4-byte loads), each value once (16-byte stores, 8 in bf16); NHWC of
//           several channels, pixels not a multiple of 4, numbers and augmented images: single
//           accesses, bytes of a row several times through L1.
//           Records have a kernel of their own: block = 1 row, thread = every 128th word; and so have boxes: thread =
//           every 128th box.
// Limits:   a sample under 2^31 values, at most 2^31 samples.
// Measured: H200, 128 images of 3x64x64 to bf16, cropped and flipped: 6.3 us; 11.8 where a byte is fetched when the one before
//           has been stored.
#include <algorithm>

#include "data/batch/batches_gather.h"
#include "device/check.h"
#include "device/launch.h"
#include "kernels/integers.cuh"
#include "kernels/vector.cuh"

namespace duet {
namespace {

constexpr unsigned kMostThreads = 256;
constexpr unsigned kBlocksPerMultiprocessor = 4;

// The row's sample in every thread of the block.
__device__ GatherRow find_row(const GatherProblem& p) {
  __shared__ GatherRow found;
  if (threadIdx.x == 0) found = gather_row(p, *p.step, blockIdx.x);
  __syncthreads();
  return found;
}

// By the last thread of the row's first block, whose warp has no pixels where there are few: nobody waits for the label.
__device__ bool brings_label() { return blockIdx.y == 0 && threadIdx.x == blockDim.x - 1; }
__device__ MixedLabel find_label(const GatherProblem& p, const GatherRow& row) {
  return brings_label() ? label_of(p, *p.step, blockIdx.x, row.place.sample) : MixedLabel{};
}
__device__ void store_label(const GatherProblem& p, const MixedLabel& label) {
  if (brings_label()) write_label(p, blockIdx.x, label);
}

struct DrawnRow {
  GatherRow row;
  AugmentDraw draw;

  __device__ float value(const GatherProblem& p, uint32_t c, int32_t y, int32_t x) const {
    if (!row.bytes) return row.blank;
    if (is_in_hole(p.augment, draw, y, x)) return 0.0f;
    const float byte = static_cast<float>(drawn_pixel(p, draw, row, c, y, x)) * 0x1p-16f;
    return fmaf(byte, p.scale[c], p.shift[c]);
  }
};

// NCHW (or one channel), pixels % 4 == 0, so that four neighbours share their channel and a row
// begins at a multiple of four.
template <class T>
__global__ void gather_vector_kernel(GatherProblem p) {
  if (!p.step_rests) wait_for_primary();
  const GatherRow row = find_row(p);
  const MixedLabel label = find_label(p, row);
  const uint32_t quads_a_channel = p.pixels / 4;
  const uint32_t quads = p.channels * quads_a_channel;
  const uchar4* image = reinterpret_cast<const uchar4*>(row.bytes);
  T* x = static_cast<T*>(p.x) + size_t{blockIdx.x} * quads * 4;
  const uint32_t first = blockIdx.y * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.x;
  uchar4 next = {};
  if (image && first < quads) next = image[first];
  if (p.step_rests) wait_for_primary();
  let_secondary_start();
  store_label(p, label);
  for (uint32_t i = first; i < quads; i += step) {
    const uchar4 bytes = next;
    if (image && i + step < quads) next = image[i + step];
    Vector<float, 4> value = {row.blank, row.blank, row.blank, row.blank};
    if (image) {
      const uint32_t c = p.channels == 1 ? 0 : i / quads_a_channel;
      const float scale = p.scale[c], shift = p.shift[c];
      value = {fmaf(bytes.x, scale, shift), fmaf(bytes.y, scale, shift),
               fmaf(bytes.z, scale, shift), fmaf(bytes.w, scale, shift)};
    }
    store(x + size_t{i} * 4, value);
  }
}

// Source: uint8_t of images, float of numbers.
template <class T, class Source>
__global__ void gather_scalar_kernel(GatherProblem p, bool nhwc) {
  wait_for_primary();
  const GatherRow row = find_row(p);
  store_label(p, find_label(p, row));
  const uint32_t size = p.channels * p.pixels;
  const Source* image = reinterpret_cast<const Source*>(row.bytes);
  T* x = static_cast<T*>(p.x) + size_t{blockIdx.x} * size;
  for (uint32_t i = blockIdx.y * blockDim.x + threadIdx.x; i < size; i += gridDim.y * blockDim.x) {
    const uint32_t c = nhwc ? i % p.channels : i / p.pixels;
    const uint32_t pixel = nhwc ? i / p.channels : i % p.pixels;
    x[i] = T(image ? fmaf(image[c * p.pixels + pixel], p.scale[c], p.shift[c]) : row.blank);
  }
}

/// Of a row whose values are each one byte, or black.
template <class T>
__device__ void store_moved_pixels(const GatherProblem& p, const DrawnRow& own, T* batch,
                                   bool nhwc) {
  constexpr uint32_t kPixels = 4, kChannels = 3;  // of a thread, at once
  enum : int32_t { kBlack = -1, kHole = -2 };
  const auto width = static_cast<int32_t>(p.width);
  const auto height = static_cast<int32_t>(p.pixels) / width;
  const uint32_t step = gridDim.y * blockDim.x;
  for (uint32_t first = blockIdx.y * blockDim.x + threadIdx.x; first < p.pixels;
       first += kPixels * step) {
    int32_t place[kPixels];
#pragma unroll
    for (uint32_t i = 0; i < kPixels; ++i) {
      const auto pixel = static_cast<int32_t>(first + i * step);
      int32_t y = pixel / width, x = pixel % width;
      const bool hole = is_in_hole(p.augment, own.draw, y, x);
      const bool found = find_place(p.augment, own.draw, height, width, y, x);
      place[i] = hole ? kHole : found ? y * width + x : kBlack;
      if (first + i * step >= p.pixels) place[i] = kBlack;
    }
    for (uint32_t c0 = 0; c0 < p.channels; c0 += kChannels) {
      uint8_t bytes[kChannels][kPixels];
#pragma unroll
      for (uint32_t i = 0; i < kChannels * kPixels; ++i) {
        const uint32_t c = c0 + i / kPixels;
        const int32_t from = place[i % kPixels];
        bytes[i / kPixels][i % kPixels] =
            from >= 0 && c < p.channels ? __ldg(own.row.bytes + c * p.pixels + from) : 0;
      }
#pragma unroll
      for (uint32_t i = 0; i < kChannels * kPixels; ++i) {
        const uint32_t c = c0 + i / kPixels, pixel = first + i % kPixels * step;
        if (c >= p.channels || pixel >= p.pixels) continue;
        const auto byte = static_cast<float>(bytes[i / kPixels][i % kPixels]);
        const float value = place[i % kPixels] == kHole ? 0.0f : fmaf(byte, p.scale[c], p.shift[c]);
        batch[nhwc ? pixel * p.channels + c : c * p.pixels + pixel] = T(value);
      }
    }
  }
}

bool only_moves(const Augment& a) {
  return !a.resized_crop && !a.brightness && !a.contrast && !a.saturation && a.mixup == 0.0;
}

// kMoves: only_moves().
template <class T, bool kMoves>
__global__ void __launch_bounds__(kMostThreads, kBlocksPerMultiprocessor)
    gather_augmented_kernel(GatherProblem p, bool nhwc) {
  wait_for_primary();
  __shared__ DrawnRow rows[2];
  __shared__ uint32_t share;
  if (threadIdx.x < (p.shares ? 2 : 1)) {
    const uint64_t step = *p.step;
    const uint32_t number = threadIdx.x == 0 ? blockIdx.x : row_mixed_into(p, blockIdx.x);
    const GatherRow row = gather_row(p, step, number);
    rows[threadIdx.x].row = row;
    if (row.bytes) rows[threadIdx.x].draw = draw_of(p, row.place);
    if (threadIdx.x == 0) {
      share = own_share(p, step);
    }
  }
  __syncthreads();
  const DrawnRow own = rows[0];  // in registers: stores to x might change shared memory
  store_label(p, find_label(p, own.row));
  const bool mixes = share != kWholeShare && own.row.bytes;
  T* batch = static_cast<T*>(p.x) + size_t{blockIdx.x} * p.channels * p.pixels;
  if (kMoves && own.row.bytes) return store_moved_pixels(p, own, batch, nhwc);
  for (uint32_t pixel = blockIdx.y * blockDim.x + threadIdx.x; pixel < p.pixels;
       pixel += gridDim.y * blockDim.x) {
    const int32_t y = pixel / p.width, x = pixel % p.width;
    for (uint32_t c = 0; c < p.channels; ++c) {
      float value = own.value(p, c, y, x);
      if (mixes) value = mixed(share, value, rows[1].value(p, c, y, x));
      batch[nhwc ? pixel * p.channels + c : c * p.pixels + pixel] = T(value);
    }
  }
}

__global__ void gather_records_kernel(RecordsProblem p) {
  wait_for_primary();
  let_secondary_start();
  __shared__ uint32_t sample;
  const uint64_t step = *p.step;
  if (threadIdx.x == 0) sample = sample_of(p.order, step, blockIdx.x).sample;
  __syncthreads();
  for (uint32_t r = 0; r < p.count; ++r) {
    const GatherRecord& record = p.records[r];
    const RecordRow row = record_row(p, record, step, blockIdx.x, sample);
    for (uint32_t i = threadIdx.x; i < record.words; i += blockDim.x) {
      write_word(record, blockIdx.x, i, row);
    }
  }
}

constexpr unsigned kBoxThreads = 128;

// The boxes that are kept move up by how many there are before them: counted by ballots in a warp, and by
// shared memory among warps.
__global__ void gather_boxes_kernel(BoxesProblem p) {
  wait_for_primary();
  let_secondary_start();
  constexpr uint32_t kWarps = kBoxThreads / 32;
  __shared__ AugmentDraw draw;
  __shared__ SampleOfEpoch place;
  __shared__ uint32_t kept_by_warp[kWarps];
  const uint64_t step = *p.record.step;
  if (threadIdx.x == 0) {
    place = sample_of(p.record.order, step, blockIdx.x);
    draw = boxes_draw(p, place);
  }
  __syncthreads();
  const RecordRow row = record_row(p.record, p.record.records[0], step, blockIdx.x, place.sample);
  const uint32_t most = most_boxes(p), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t count = 0;
  for (uint32_t first = 0; first < most; first += kBoxThreads) {
    const uint32_t i = first + threadIdx.x;
    Box box;
    const bool kept = i < most && find_box(p, draw, row, i, box);
    const unsigned votes = __ballot_sync(~0u, kept);
    if (lane == 0) kept_by_warp[warp] = static_cast<uint32_t>(__popc(votes));
    __syncthreads();
    uint32_t to = count + static_cast<uint32_t>(__popc(votes & ((1u << lane) - 1)));
    for (uint32_t w = 0; w < kWarps; ++w) {
      if (w < warp) to += kept_by_warp[w];
      count += kept_by_warp[w];
    }
    if (kept) write_box(p, blockIdx.x, to, box);
    __syncthreads();
  }
  if (threadIdx.x == 0) write_count(p, blockIdx.x, row, count);
  for (uint32_t i = count + threadIdx.x; i < most; i += kBoxThreads) {
    write_no_box(p, blockIdx.x, i, row);
  }
}

}  // namespace

void gather_boxes_on_gpu(const BoxesProblem& p, CUstream_st* stream) {
  launch_following({p.record.order.batch, kBoxThreads, 0, stream}, gather_boxes_kernel, p);
}

void gather_records_on_gpu(const RecordsProblem& p, CUstream_st* stream) {
  constexpr unsigned kThreads = 128;
  launch_following({p.order.batch, kThreads, 0, stream}, gather_records_kernel, p);
}

void gather_on_gpu(const GatherProblem& p, DType dtype, Layout layout, CUstream_st* stream) {
  const bool nhwc = layout == Layout::kNHWC && p.channels > 1;
  const bool plain = !p.numbers && !p.augment.any();
  const bool vector =
      plain && !nhwc && p.pixels % 4 == 0 && reinterpret_cast<uintptr_t>(p.x) % sizeof(float4) == 0;
  const unsigned work = p.augment.any() ? p.pixels : p.channels * p.pixels / (vector ? 4 : 1);
  const unsigned threads = std::min((work + 31) / 32 * 32 + 32, kMostThreads);
  const unsigned room = kBlocksPerMultiprocessor * multiprocessor_count() / p.order.batch;
  const dim3 grid(p.order.batch, std::clamp(room, 1u, (work + threads - 1) / threads));
  visit_gpu_storage(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (vector) {
      launch_following({grid, threads, 0, stream}, gather_vector_kernel<T>, p);
    } else if (p.numbers) {
      launch_following({grid, threads, 0, stream}, gather_scalar_kernel<T, float>, p, nhwc);
    } else if (plain) {
      launch_following({grid, threads, 0, stream}, gather_scalar_kernel<T, uint8_t>, p, nhwc);
    } else if (only_moves(p.augment)) {
      launch_following({grid, threads, 0, stream}, gather_augmented_kernel<T, true>, p, nhwc);
    } else {
      launch_following({grid, threads, 0, stream}, gather_augmented_kernel<T, false>, p, nhwc);
    }
  });
}

}  // namespace duet
