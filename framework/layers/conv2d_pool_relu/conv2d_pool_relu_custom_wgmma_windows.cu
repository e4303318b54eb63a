// conv2d_pool_relu custom_wgmma_windows: small images by Hopper's wgmma, nothing staged in memory but the weights. The four outputs of
//           a window are four products, whose columns are windows: a thread has the four sums of its own. Backward is
//           custom_mma's.
// Mapping:  block = 64 filters x up to 32 windows of an image, and image after image. A warpgroup multiplies; another one
//           brings images, 16 channels at a time, to a ring of stages in shared memory.
// Traffic:  the weights of 64 filters once a block, in bf16 and in the order in which the instruction takes them from
//           registers; an image once for each 64 filters, in either layout.
// Limits:   bf16; 3x3, stride 1, no dilation, no groups; pooling 2x2 with stride 2, no pool padding; rows of fewer than 32
//           windows, and weights of 64 filters that fit in shared memory; compute capability 9.0.
#include <algorithm>

#include "device/launch.h"
#include "kernels/bulk_copy.cuh"
#include "kernels/integers.cuh"
#include "kernels/wgmma_product.cuh"
#include "layers/conv2d/packed_argmax.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"
#include "layers/inference_forward.h"

namespace duet {
namespace {

constexpr int kGroup = 128, kThreads = 2 * kGroup;  // of a warpgroup
constexpr int kFilters = 64, kColumns = 32;         // of a block; columns of its products
constexpr int kDepth = 16;                          // channels of a stage
constexpr int kSide = 3, kTaps = kSide * kSide;
constexpr int kMostStages = 8, kMostSteps = 32;
/// Of the weights of 64 filters, 16 channels and a tap.
constexpr int kTapWords = kGroup * 4, kStepWords = kTaps * kTapWords;

/// One problem. A stage has four phases of the image, by whether its rows and columns, from the padding on, are even: tap
/// (r, s) of output (a, b) of window (p, q) is pixel (p + (a+r)/2, q + (b+s)/2) of phase ((a+r)%2, (b+s)%2), and so what a tap
/// reads for all windows lies in one piece. A phase has two octets of channels, and an octet its pixels, 16 bytes each.
struct WindowGeometry {
  Conv2dProblem d;
  int pool_w, windows;
  int run_rows, runs;  // rows of windows of a run, runs of an image
  int pitch, pixels;   // of a phase
  int phase_pitch;     // in 16 bytes
  int stage_bytes, steps, groups;
  FastDivisor by_octet, by_row, by_pitch, by_runs;

  explicit WindowGeometry(const Conv2dProblem& problem)
      : d(problem),
        pool_w(d.q / 2),
        windows(d.p / 2 * pool_w),
        pitch(pool_w + 1),
        steps(ceil_div(d.c, kDepth)),
        groups(ceil_div(d.k, kFilters)) {
    const int most = std::max(1, (kColumns - pool_w) / pitch + 1);
    runs = ceil_div(d.p / 2, most);
    run_rows = ceil_div(d.p / 2, runs);
    pixels = (run_rows + 1) * pitch;
    // So that neighbours in a row, which lie in two phases, are stored to other banks.
    phase_pitch = round_up(2 * pixels, 8) + 4;
    stage_bytes = 4 * phase_pitch * 16;
    by_octet = FastDivisor(4 * pixels);
    by_row = FastDivisor(2 * pitch);
    by_pitch = FastDivisor(pitch);
    by_runs = FastDivisor(runs);
  }
  int parts() const { return d.n * runs; }
  bool planes() const { return d.layout == Layout::kNCHW; }
  size_t weight_bytes() const { return sizeof(uint32_t) * kStepWords * size_t(groups) * steps; }
  /// Share of the columns that are windows.
  double useful() const { return double(windows) / (runs * kColumns); }
};

struct WindowBarriers {
  CopyBarrier weights[kMostSteps], full[kMostStages], empty[kMostStages];
};
/// What a part's results go through on their way out.
struct WindowResults {
  bfloat16 values[kFilters * kColumns];
  alignas(8) uint8_t marks[kColumns][kFilters];  // of MarkedValue
};
/// Behind it the weights, then the stages, then what products of columns without a window read.
struct WindowSmem {
  WindowBarriers barriers;
  alignas(16) WindowResults results;
};
constexpr int kBeyondStages = 1024;

size_t bytes_without_stages(const WindowGeometry& g) {
  return sizeof(WindowSmem) + sizeof(uint32_t) * kStepWords * g.steps + kBeyondStages;
}
/// As many as leave room for two blocks on a multiprocessor, if that is enough of them.
int stage_count(const WindowGeometry& g) {
  constexpr int kOfOne = 227 * 1024, kOfTwo = 113 * 1024, kEnough = 4;
  const auto fitting = [&](int bytes) {
    const int left = bytes - int(bytes_without_stages(g));
    return std::min(kMostStages, left / g.stage_bytes);
  };
  return fitting(kOfTwo) >= kEnough ? fitting(kOfTwo) : fitting(kOfOne);
}

#if DUET_HAS_WGMMA
/// d += a * b (or =) for 64 rows, 32 columns and 16 terms. Of thread t of the warpgroup a[2i + j] is row 16 (t/32) + (t%32)/4 + 8j,
/// terms 2 (t%4) + 8i and the next.
__device__ __forceinline__ void multiply_columns(float (&d)[kColumns / 2], const uint4& a,
                                                 uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, "
      "%10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, adds, 1, 1, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(int(adds)));
}

__device__ __forceinline__ void wait_warpgroup() {
  asm volatile("bar.sync 1, %0;" ::"n"(kGroup) : "memory");
}

/// A place in the ring, by its stage and how often that was taken before.
struct WindowRing {
  int stage = 0, round = 0;
  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) stage = 0, ++round;
  }
};

/// What a thread brings of each stage of a part: pieces of 16 bytes, eight channels of a pixel.
template <bool kPlanes>
struct PieceLoader {
  static constexpr int kPieces = 4, kLoads = kPlanes ? 8 : 4;  // at most; of a piece
  struct Values {
    uint32_t of[kPieces][kLoads];
  };
  int from[kPieces], to[kPieces], octet[kPieces];  // -1: no pixel, no piece

  /// For parts of that run.
  __device__ __forceinline__ void place(const WindowGeometry& g, int member, int run) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      int rest, row, column;
      const int index = i * kGroup + member;
      g.by_octet.divmod(index, octet[i], rest);
      g.by_row.divmod(rest, row, column);
      const bool there = octet[i] < kDepth / 8;
      to[i] = there ? (row % 2 * 2 + column % 2) * g.phase_pitch + octet[i] * g.pixels +
                          row / 2 * g.pitch + column / 2
                    : -1;
      const int h = 2 * run * g.run_rows + row - g.d.pad_h, w = column - g.d.pad_w;
      const bool inside = there && uint32_t(h) < uint32_t(g.d.h) && uint32_t(w) < uint32_t(g.d.w);
      from[i] = inside ? h * g.d.w + w : -1;
    }
  }
  /// Of an image at x.
  __device__ __forceinline__ void load(const WindowGeometry& g, const bfloat16* x, int step,
                                       Values& values) const {
    const int channels = g.d.c, plane = g.d.h * g.d.w;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int channel = step * kDepth + octet[i] * 8;
      const int count = from[i] < 0 ? 0 : channels - channel;
      if constexpr (kPlanes) {
        const bfloat16* const at = x + channel * plane + from[i];
#pragma unroll
        for (int e = 0; e < 8; ++e) values.of[i][e] = e < count ? at[e * plane].bits : 0;
      } else {
        const bfloat16* const at = x + from[i] * channels + channel;
        if (channels % 8 == 0) {
          uint4 word = {};
          if (count > 0) word = *reinterpret_cast<const uint4*>(at);
          values.of[i][0] = word.x, values.of[i][1] = word.y;
          values.of[i][2] = word.z, values.of[i][3] = word.w;
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const uint32_t low = 2 * e < count ? at[2 * e].bits : 0;
            const uint32_t high = 2 * e + 1 < count ? at[2 * e + 1].bits : 0;
            values.of[i][e] = low | high << 16;
          }
        }
      }
    }
  }
  __device__ __forceinline__ void store(char* stage, const Values& values) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if (to[i] < 0) continue;
      const uint32_t(&v)[kLoads] = values.of[i];
      uint4& piece = reinterpret_cast<uint4*>(stage)[to[i]];
      if constexpr (kPlanes) {
        piece = {v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16};
      } else {
        piece = {v[0], v[1], v[2], v[3]};
      }
    }
  }
};

/// NaN if there is one.
__device__ __forceinline__ float largest(float a, float b) {
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}
/// relu, rounded.
__device__ __forceinline__ bfloat16 clipped(float value) {
  bfloat16 result;
  asm("cvt.rn.relu.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}

/// A part's y and, if it is kept, argmax, by the multiplying warpgroup.
template <bool kPlanes, bool kKeepsArgmax>
__device__ __forceinline__ void store_windows(const WindowGeometry& g,
                                              const float (&d)[4][kColumns / 2],
                                              const float (&bias)[2], int image, int run,
                                              int filter0, WindowResults& results, bfloat16* y,
                                              uint32_t* argmax) {
  const int tid = threadIdx.x, lane = tid % 32;
  const int first = run * g.run_rows * g.pool_w;
  const int here = min(g.run_rows * g.pool_w, g.windows - first);
  const int filters = min(kFilters, g.d.k - filter0);
  [[maybe_unused]] int clear;  // of largest_marked()
  asm("mov.u32 %0, 0xfffffff8;" : "=r"(clear));
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      int row, column;
      g.by_pitch.divmod(8 * j + lane % 4 * 2 + e, row, column);
      const int window = row * g.pool_w + column;
      const bool inside = column < g.pool_w && window < here;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int k = 4 * j + 2 * i + e, filter = tid / 32 * 16 + lane / 4 + 8 * i;
        bfloat16& value =
            results.values[kPlanes ? filter * here + window : window * kFilters + filter];
        if constexpr (kKeepsArgmax) {
          const float v[4] = {d[0][k] + bias[i], d[1][k] + bias[i], d[2][k] + bias[i],
                              d[3][k] + bias[i]};
          MarkedValue most = largest_marked(v[0], v[1], v[2], v[3], clear);
          if (most.is_unordered()) most = marked(pool_window(v[0], v[1], v[2], v[3]));
          if (!inside) continue;
          value = bfloat16(most.value());
          results.marks[window][filter] = uint8_t(most.bits & 7);
        } else {
          // The bias is the same of all four, and rounding keeps their order.
          const float most = largest(largest(d[0][k], d[1][k]), largest(d[2][k], d[3][k]));
          if (inside) value = clipped(most + bias[i]);
        }
      }
    }
  }
  wait_warpgroup();
  constexpr int kVec = kWidest<bfloat16>;
  if constexpr (kPlanes) {
    bfloat16* const to = y + (size_t(image) * g.d.k + filter0) * g.windows + first;
    const int all = filters * here;
    if (here == g.windows && all % kVec == 0 && (to - y) % kVec == 0) {
      for (int i = tid; i < all / kVec; i += kGroup)
        reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(results.values)[i];
    } else {
      for (int filter = tid / 32; filter < filters; filter += kGroup / 32)
        if (lane < here)
          to[size_t(filter) * g.windows + lane] = results.values[filter * here + lane];
    }
  } else {
    bfloat16* const to = y + (size_t(image) * g.windows + first) * g.d.k + filter0;
    if (g.d.k % kVec == 0) {
      constexpr int kOfWindow = kFilters / kVec;
      for (int i = tid; i < here * kOfWindow; i += kGroup) {
        const int window = i / kOfWindow, filter = i % kOfWindow * kVec;
        if (filter < filters)
          *reinterpret_cast<float4*>(to + size_t(window) * g.d.k + filter) =
              *reinterpret_cast<const float4*>(results.values + window * kFilters + filter);
      }
    } else {
      for (int i = tid; i < here * kFilters; i += kGroup)
        if (i % kFilters < filters)
          to[size_t(i / kFilters) * g.d.k + i % kFilters] = results.values[i];
    }
  }
  if constexpr (kKeepsArgmax) {
    for (int i = tid; i < here * (kFilters / 8); i += kGroup) {
      const int octet = i / here, window = i % here;
      if (octet * 8 >= filters) break;
      const uint2 bytes = *reinterpret_cast<const uint2*>(&results.marks[window][octet * 8]);
      // Bytes 0x0d0c0b0a -> 0xdcba.
      const auto nibbles = [](uint32_t word) {
        word = (word | word >> 4) & 0x00ff00ffu;
        return (word | word >> 8) & 0xffffu;
      };
      argmax[(size_t(image) * argmax_groups(g.d.k) + filter0 / 8 + octet) * g.windows + first +
             window] = codes_of_marks(nibbles(bytes.x) | nibbles(bytes.y) << 16);
    }
  }
  wait_warpgroup();
}

#endif  // DUET_HAS_WGMMA

// blockIdx.y is one of 64 filters; blocks take parts by turns. In inference weights rest, and argmax is not kept.
template <bool kPlanes, bool kInference>
__global__ void __launch_bounds__(kThreads, 2)
    conv2d_pool_relu_windows_kernel(const __grid_constant__ WindowGeometry g, int stages,
                                    const bfloat16* x, const uint32_t* weights, const float* bias,
                                    bfloat16* y, uint32_t* argmax) {
#if DUET_HAS_WGMMA
  extern __shared__ __align__(128) char memory[];
  auto& smem = *reinterpret_cast<WindowSmem*>(memory);
  WindowBarriers& barriers = smem.barriers;
  const auto* const kept = reinterpret_cast<const uint4*>(memory + sizeof(WindowSmem));
  char* const ring = memory + sizeof(WindowSmem) + sizeof(uint32_t) * kStepWords * g.steps;
  const int tid = threadIdx.x, parts = g.d.n * g.runs;
  const int filter0 = blockIdx.y * kFilters;
  if (tid == 0) {
    for (int i = 0; i < g.steps; ++i) barriers.weights[i].init();
    for (int i = 0; i < stages; ++i) {
      barriers.full[i].init(kGroup);
      barriers.empty[i].init(kGroup / 32);
    }
  }
  __syncthreads();
  if constexpr (!kInference) wait_for_primary();
  // Of which the compiler is to know that a warp's threads agree.
  if (__shfl_sync(~0u, tid / kGroup, 0) == 1) {
    const int member = tid - kGroup;
    if (member == 0) {
      const uint32_t* const from = weights + size_t(blockIdx.y) * g.steps * kStepWords;
      for (int step = 0; step < g.steps; ++step) {
        constexpr uint32_t kBytes = sizeof(uint32_t) * kStepWords;
        barriers.weights[step].expect(kBytes);
        bulk_copy(reinterpret_cast<float*>(memory + sizeof(WindowSmem)) + step * kStepWords,
                  reinterpret_cast<const float*>(from) + step * kStepWords, kBytes,
                  barriers.weights[step]);
      }
    }
    PieceLoader<kPlanes> loader;
    int image, run, placed;
    g.by_runs.divmod(blockIdx.x, image, placed);
    loader.place(g, member, placed);
    wait_for_primary();
    WindowRing at;
    for (int part = blockIdx.x; part < parts; part += gridDim.x) {
      g.by_runs.divmod(part, image, run);
      if (run != placed) loader.place(g, member, placed = run);
      const bfloat16* const from = x + size_t(image) * g.d.c * g.d.h * g.d.w;
      typename PieceLoader<kPlanes>::Values values, next;
      loader.load(g, from, 0, values);
      for (int step = 0; step < g.steps; ++step) {
        if (step + 1 < g.steps) loader.load(g, from, step + 1, next);
        if (at.round > 0) barriers.empty[at.stage].wait(at.round - 1);
        loader.store(ring + at.stage * g.stage_bytes, values);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        barriers.full[at.stage].arrive();
        at.advance(stages);
        values = next;
      }
    }
    if (member == 0) let_secondary_start();
    return;
  }
  const int lane = tid % 32;
  float biases[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int filter = filter0 + tid / 32 * 16 + lane / 4 + 8 * i;
    biases[i] = bias != nullptr && filter < g.d.k ? bias[filter] : 0.f;
  }
  wait_for_primary();
  // From the beginning of a stage, in 16 bytes: row a + r and column b + s of a window's patch.
  int row_at[4], column_at[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    row_at[i] = i % 2 * 2 * g.phase_pitch + i / 2 * g.pitch;
    column_at[i] = i % 2 * g.phase_pitch + i / 2;
  }
  // Octets lie `pixels` apart, and eight pixels 128 bytes.
  const uint64_t pitches = uint64_t(uint32_t(g.pixels)) << 16 | uint64_t{128 >> 4} << 32;
  const auto of_ring = uint32_t(__cvta_generic_to_shared(ring));
  WindowRing at;
  int known = 0;  // steps whose weights have come
  // Of a row of taps: while one is multiplied, the next is loaded.
  uint4 row[kSide][kSide];
  const auto load_row = [&](int step, int r) {
    if (known == step) barriers.weights[known++].wait(0);
#pragma unroll
    for (int s = 0; s < kSide; ++s) row[r][s] = kept[(step * kTaps + r * kSide + s) * kGroup + tid];
  };
  for (int part = blockIdx.x; part < parts; part += gridDim.x) {
    float d[4][kColumns / 2];
    load_row(0, 0);
    int last = 0;
    for (int step = 0; step < g.steps; ++step) {
      barriers.full[at.stage].wait(at.round);
      const uint32_t stage = (of_ring + at.stage * g.stage_bytes) >> 4;
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
        if (r + 1 < kSide) {
          load_row(step, r + 1);
        } else if (step + 1 < g.steps) {
          load_row(step + 1, 0);
        }
        wgmma_begin();
#pragma unroll
        for (int s = 0; s < kSide; ++s) {
#pragma unroll
          for (int of = 0; of < 4; ++of)
            multiply_columns(d[of], row[r][s],
                             pitches | (stage + row_at[of / 2 + r] + column_at[of % 2 + s]),
                             step > 0 || r > 0 || s > 0);
        }
        wgmma_commit();
        wgmma_wait<1>();  // what the row before read is free
        if (r == 0 && step > 0 && lane == 0) barriers.empty[last].arrive();
      }
      last = at.stage;
      at.advance(stages);
    }
    wgmma_wait<0>();
    for (auto& sums : d) wgmma_settle(sums);
    if (lane == 0) barriers.empty[last].arrive();
    int image, run;
    g.by_runs.divmod(part, image, run);
    store_windows<kPlanes, !kInference>(g, d, biases, image, run, filter0, smem.results, y, argmax);
  }
#else
  __trap();
#endif
}

/// The weights as threads take them: [64 filters][16 channels][tap][thread][word], two channels a word.
__global__ void __launch_bounds__(kThreads)
    conv2d_pool_relu_window_weights_kernel(const __grid_constant__ Conv2dProblem d, int steps,
                                           int words, const float* w, uint32_t* to) {
  wait_for_primary();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= words) return;
  const int word = i % 4, thread = i / 4 % kGroup, tap = i / kTapWords % kTaps;
  const int step = i / kStepWords % steps, group = i / kStepWords / steps;
  const int k = group * kFilters + thread / 32 * 16 + thread % 32 / 4 + word % 2 * 8;
  const int c = step * kDepth + thread % 4 * 2 + word / 2 * 8;
  const auto weight = [&](int channel) -> uint32_t {
    if (k >= d.k || channel >= d.c) return 0;
    return bfloat16(w[d.layout == Layout::kNCHW ? (size_t(k) * d.c + channel) * kTaps + tap
                                                : (size_t(k) * kTaps + tap) * d.c + channel])
        .bits;
  };
  to[i] = weight(c) | weight(c + 1) << 16;
}

class Conv2dPoolReluCustomWgmmaWindows : public Conv2dPoolReluImpl, public InferenceForward {
 public:
  Conv2dPoolReluCustomWgmmaWindows(const Conv2dPoolReluProblem& problem, Context& context)
      : Conv2dPoolReluImpl(problem),
        geometry_(problem.conv),
        stages_(stage_count(geometry_)),
        general_(make_custom_mma(problem, context)) {}

  void prepare(Pass pass, Context& context) override {
    if (pass != Pass::kForward) return general_->prepare(pass, context);
    for (const bool inference : {false, true}) {
      // Of the kernel, whatever problem it serves next.
      DUET_CUDA(cudaFuncSetAttribute(kernel(inference), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)));
    }
  }
  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? geometry_.weight_bytes() : general_->workspace_bytes(pass);
  }
  size_t state_bytes() const override { return general_->state_bytes(); }
  std::string detail(Pass pass) const override {
    if (pass != Pass::kForward) return "custom_mma: " + general_->detail(pass);
    return "tile 64x4x" + std::to_string(geometry_.run_rows * geometry_.pool_w) + ", wgmma bf16";
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    arrange(run, w, run.workspace);
    multiply(run, false, x, run.workspace, b, y, state);
  }
  size_t prepared_bytes() const override { return geometry_.weight_bytes(); }
  void prepare_weights(const Run& run, const LayerTensors& t, void* prepared) override {
    arrange(run, t.w[0], prepared);
  }
  void infer(const Run& run, const LayerTensors& t, const void* prepared) override {
    multiply(run, !run.training, t.x[0], prepared, problem_.conv.bias ? t.w[1] : Tensor{}, t.y[0],
             t.state);
  }
  bool serves_training() const override { return true; }
  void backward_data_of_prepared(const Run& run, const LayerTensors& t, const void*) override {
    if (t.dx[0]) backward_data(run, t.y[0], t.dy[0], t.state, t.w[0], t.dx[0]);
  }
  void backward_data(const Run& run, const Tensor& y, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    general_->backward_data(run, y, dy, state, w, dx);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    general_->backward_filter(run, x, y, dy, state, dw, db);
  }

 private:
  using Kernel = decltype(&conv2d_pool_relu_windows_kernel<true, true>);
  Kernel kernel(bool inference) const { return inference ? kernel<true>() : kernel<false>(); }
  template <bool kInference>
  Kernel kernel() const {
    return geometry_.planes() ? conv2d_pool_relu_windows_kernel<true, kInference>
                              : conv2d_pool_relu_windows_kernel<false, kInference>;
  }
  size_t shared_bytes() const {
    return bytes_without_stages(geometry_) + size_t(stages_) * geometry_.stage_bytes;
  }
  void arrange(const Run& run, const Tensor& w, void* to) const {
    const int words = static_cast<int>(geometry_.weight_bytes() / sizeof(uint32_t));
    launch_following({ceil_div(words, kThreads), kThreads, 0, run.stream()},
                     conv2d_pool_relu_window_weights_kernel, problem_.conv, geometry_.steps, words,
                     w.data<float>(), static_cast<uint32_t*>(to));
  }
  void multiply(const Run& run, bool inference, const Tensor& x, const void* weights,
                const Tensor& b, const Tensor& y, const Tensor& state) const {
    const int at_once = std::max(1, 2 * multiprocessor_count() / geometry_.groups);
    launch_following({dim3(std::min(geometry_.parts(), at_once), geometry_.groups), kThreads,
                      shared_bytes(), run.stream()},
                     kernel(inference), geometry_, stages_, x.data<bfloat16>(),
                     static_cast<const uint32_t*>(weights), b.data<float>(), y.data<bfloat16>(),
                     state.data<uint32_t>());
  }

  const WindowGeometry geometry_;
  const int stages_;
  const std::unique_ptr<Conv2dPoolReluImpl> general_;  // runs the backward passes
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = custom_fused_unsupported(problem, pass)) return reason;
  if (pass != Pass::kForward) return {};
  const Conv2dProblem& d = problem.conv;
  if (d.r != kSide || d.s != kSide || d.stride_h != 1 || d.stride_w != 1 || d.dilation_h != 1 ||
      d.dilation_w != 1) {
    return "takes 3x3 filters with stride 1 and dilation 1 only";
  }
  if (d.q / 2 >= kColumns) {  // or a stage would have more pieces
    return "takes rows of fewer than " + std::to_string(kColumns) + " windows";
  }
  const WindowGeometry geometry(d);
  if (geometry.steps > kMostSteps || stage_count(geometry) < 2) {
    return "keeps the weights of 64 filters in shared memory; take fewer channels";
  }
  return wgmma_unsupported();
}

/// Where most columns are windows.
bool preferred(const Conv2dPoolReluProblem& problem, Pass pass, size_t) {
  const WindowGeometry geometry(problem.conv);
  return pass == Pass::kForward && geometry.d.c % kDepth == 0 && geometry.useful() >= 0.7 &&
         geometry.parts() * geometry.groups >= 16;
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_wgmma_windows() {
  auto entry = impl_entry<Conv2dPoolReluCustomWgmmaWindows>("custom_wgmma_windows", unsupported,
                                                            {DType::kBFloat16});
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
