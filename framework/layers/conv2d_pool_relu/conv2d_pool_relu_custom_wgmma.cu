// conv2d_pool_relu custom_wgmma: conv2d custom_wgmma whose forward pools before it stores; bf16 or tf32.
// Mapping:  as conv2d custom_wgmma, in boxes of whole windows. The sums of a tile go through shared
//           memory, where a thread pools a window of eight filters.
// Traffic:  as conv2d custom_wgmma, but y is the pooled one plus half a byte of argmax an element.
//           Backward unpools dy while it stages it, and brings a tile of it once for all taps
//           (conv2d custom_wgmma_halo) where it can. Forward with 64 channels in bf16 keeps the weights in
//           shared memory (kept_weights.cuh). In bf16 what is staged of x and dy is so once for all passes.
// Limits:   those of conv2d custom_wgmma; pooling 2x2 with stride 2, no pool padding.
#include <optional>
#include <set>

#include "layers/conv2d/wgmma/halo_convolution.cuh"
#include "layers/conv2d/wgmma/wgmma_convolution.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_wgmma_windows.h"

namespace duet {
namespace {

/// A WgmmaResult that pools: y in kLayout, and argmax as packed_argmax.cuh has it.
template <Layout kLayout, class T>
struct WindowResult {
  static constexpr bool kTakesStages = true;
  T* y;
  uint32_t* argmax;
  const float* bias;
  int columns, pool_h, pool_w;
  FastDivisor by_windows;        // of a box
  FastDivisor by_wide, by_high;  // its windows side by side, and above each other
  size_t stride = 0;
  float* row_sums = nullptr;

  template <class Tile>
  __device__ __forceinline__ void store(const float (&d)[Tile::kN / 2], const ImageByPosition<T>& a,
                                        const PositionBoxes::Start& start, const WgmmaPlace& place,
                                        const WgmmaTileMemory<Tile>& memory) const {
    constexpr int kGroup = 8, kPitch = WgmmaTileMemory<Tile>::kPixelPitch;
    const int n0 = place.column * Tile::kN;
    const float* const tile = columns_to_shared<Tile>(d, memory);
    const PositionBoxes& boxes = a.boxes;
    const int windows = boxes.box() / 4;
    for (int i = threadIdx.x; i < windows * (Tile::kN / kGroup); i += Tile::kMultipliers) {
      int group, window, rest, column, row, image;
      by_windows.divmod(i, group, window);
      by_wide.divmod(window, rest, column);
      by_high.divmod(rest, image, row);
      const float* from =
          tile + group * kGroup * kPitch + (image * boxes.h + 2 * row) * boxes.w + 2 * column;
      image += start.n, row += start.h / 2, column += start.w / 2;
      const int k0 = n0 + group * kGroup;
      if (image >= boxes.images || row >= pool_h || column >= pool_w || k0 >= columns) continue;
      const size_t at = row * pool_w + column, all = size_t(pool_h) * pool_w;
      Vector<float, kGroup> pooled;
      uint32_t codes = 0;
#pragma unroll
      for (int e = 0; e < kGroup; ++e, from += kPitch) {
        const PooledValue value = pool_window(from[0], from[1], from[boxes.w], from[boxes.w + 1]);
        pooled.v[e] = value.value;
        codes |= value.code << 4 * e;
      }
      if constexpr (kLayout == Layout::kNHWC) {
        T* const to = y + (image * all + at) * columns + k0;
        if (columns % kGroup == 0) {
          duet::store(to, pooled);
        } else {
#pragma unroll
          for (int e = 0; e < kGroup; ++e)
            if (k0 + e < columns) to[e] = T(pooled.v[e]);
        }
      } else {
        T* const to = y + (size_t(image) * columns + k0) * all + at;
#pragma unroll
        for (int e = 0; e < kGroup; ++e)
          if (k0 + e < columns) to[e * all] = T(pooled.v[e]);
      }
      argmax[(size_t(image) * argmax_groups(columns) + k0 / kGroup) * all + at] = codes;
    }
  }
};

/// A result of kept_weights.cuh that pools, in registers: y in kLayout, and argmax as packed_argmax.cuh has it.
template <Layout kLayout, class T>
struct PooledRowPairs {
  static constexpr bool kTakesNarrow = false;
  T* y;
  uint32_t* argmax;
  const float* bias;
  int images, filters, pool_h, pool_w;

  template <class Tile>
  __device__ __forceinline__ void store(const float (&d)[2][Tile::kN / 2], const KeptPart& part,
                                        char* shared) const {
    static_assert(!Tile::kStacked);
    constexpr int kVec = kWidest<T>, kWindows = Tile::kColumns / 2, kImages = Tile::kImages;
    // Of an image: the values, and behind all of them a byte of argmax each.
    constexpr int kPitch = kPanel * kWindows + 8;
    static_assert(kImages * kPitch * (sizeof(T) + 1) <= Tile::template kResultBytes<T>);
    T* const values = reinterpret_cast<T*>(shared);
    auto* const places = reinterpret_cast<uint8_t*>(values + kImages * kPitch);
    const int member = threadIdx.x % 128, lane = member % 32, row = member / 32 * 16 + lane / 4;
    const int count = min(kPanel, filters - part.channel);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int filter = row + 8 * i;
      const float b = bias != nullptr && filter < count ? __ldg(bias + part.channel + filter) : 0.f;
#pragma unroll
      for (int window = 0; window < kWindows; ++window) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int left = 8 * window + 2 * i + e, right = left + 4;
          const PooledValue pooled =
              pool_window(d[0][left] + b, d[0][right] + b, d[1][left] + b, d[1][right] + b);
          const int image = lane % 4 * 2 + e, by_window = window * kPanel + filter;
          values[image * kPitch + (kLayout == Layout::kNCHW ? filter * kWindows + window
                                                            : by_window)] = T(pooled.value);
          places[image * kPitch + by_window] = uint8_t(pooled.code);
        }
      }
    }
    Tile::wait_group(part.group);
    const int window0 = part.segment * kWindows, windows = min(kWindows, pool_w - window0);
    const int image_count = min(kImages, images - part.image), all = pool_h * pool_w;
    const int first = part.pair * pool_w + window0;
    if constexpr (kLayout == Layout::kNCHW) {
      for (int i = member; i < kImages * kPanel * kWindows; i += 128) {
        const int window = i % kWindows, filter = i / kWindows % kPanel;
        const int image = i / (kWindows * kPanel);
        if (window < windows && filter < count && image < image_count)
          y[(size_t(part.image + image) * filters + part.channel + filter) * all + first + window] =
              values[image * kPitch + filter * kWindows + window];
      }
    } else {
      constexpr int kPieces = kPanel / kVec;
      for (int i = member; i < kImages * kWindows * kPieces; i += 128) {
        const int filter = i % kPieces * kVec, window = i / kPieces % kWindows;
        const int image = i / (kPieces * kWindows);
        if (window >= windows || filter >= count || image >= image_count) continue;
        T* const to = y + (size_t(part.image + image) * all + first + window) * filters +
                      part.channel + filter;
        const T* const from = values + image * kPitch + window * kPanel + filter;
        if (filters % kVec == 0) {
          *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
        } else {
#pragma unroll
          for (int e = 0; e < kVec; ++e)
            if (filter + e < count) to[e] = from[e];
        }
      }
    }
    constexpr int kOctets = kPanel / 8;
    for (int i = member; i < kImages * kOctets * kWindows; i += 128) {
      const int window = i % kWindows, octet = i / kWindows % kOctets;
      const int image = i / (kWindows * kOctets);
      if (window >= windows || octet * 8 >= count || image >= image_count) continue;
      const uint2 bytes =
          *reinterpret_cast<const uint2*>(places + image * kPitch + window * kPanel + octet * 8);
      // Bytes 0x0d0c0b0a -> 0xdcba.
      const auto nibbles = [](uint32_t word) {
        word = (word | word >> 4) & 0x00ff00ffu;
        return (word | word >> 8) & 0xffffu;
      };
      argmax[(size_t(part.image + image) * argmax_groups(filters) + part.channel / 8 + octet) *
                 all +
             first + window] = nibbles(bytes.x) | nibbles(bytes.y) << 16;
    }
    Tile::wait_group(part.group);
  }
};

/// Of an odd last row or column nothing is pooled, and no gradient comes from there.
Conv2dProblem pooled_part(Conv2dProblem d) {
  d.p = d.p / 2 * 2;
  d.q = d.q / 2 * 2;
  return d;
}

template <class T>
class Conv2dPoolReluCustomWgmma : public Conv2dPoolReluImpl {
 public:
  Conv2dPoolReluCustomWgmma(const Conv2dPoolReluProblem& problem, const Context& context)
      : Conv2dPoolReluImpl(problem),
        convolution_(pooled_part(problem.conv), context.workspace_limit()),
        forward_by_halo_(kept_weights_preferred(pooled_part(problem.conv), Pass::kForward)),
        data_by_halo_(halo_convolution_preferred(pooled_part(problem.conv), Pass::kBackwardData)),
        filter_by_halo_(
            halo_convolution_preferred(pooled_part(problem.conv), Pass::kBackwardFilter)) {
    if (forward_by_halo_ || data_by_halo_ || filter_by_halo_) {
      halo_.emplace(pooled_part(problem.conv), context.workspace_limit(), true);
    }
    by_windows_.emplace(pooled_part(problem.conv), likely_multiprocessor_count());
    if (!by_windows_->preferred()) by_windows_.reset();
  }

  /// Passes that run here share x and dy in the form that they read, but those of tf32 that take them as they are.
  void prepare(Pass pass, Context&) override {
    runs_.insert(pass);
    const bool filter = runs_.contains(Pass::kBackwardFilter) &&
                        (!filter_by_halo_ || HaloConvolution<T>::kStagesFilter);
    const bool x = filter && runs_.contains(Pass::kForward) && convolution_.stages_x();
    const bool dy = filter && runs_.contains(Pass::kBackwardData) && !by_windows_;
    convolution_.share(x, dy);
    if (halo_) halo_->share(x, dy);
  }
  size_t workspace_bytes(Pass pass) const override {
    if (pass == Pass::kForward) {
      return forward_by_halo_ ? halo_->workspace_bytes(pass)
                              : convolution_.window_workspace_bytes();
    }
    if (pass == Pass::kBackwardData && by_windows_) return by_windows_->workspace_bytes();
    return by_halo(pass) ? halo_->workspace_bytes(pass) : convolution_.workspace_bytes(pass);
  }
  /// The argmax, then what passes share.
  size_t state_bytes() const override {
    return argmax_bytes() + convolution_.shared_x_bytes() + convolution_.shared_dy_bytes();
  }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kForward) {
      return forward_by_halo_ ? kept_problem(pooled_part(problem_.conv), pass).text()
                              : convolution_.window_plan().template text<T>();
    }
    if (pass == Pass::kBackwardData && by_windows_) return by_windows_->text();
    return by_halo(pass) ? halo_->text(pass) + ", with its halo" : convolution_.text(pass);
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    problem_.conv.layout == Layout::kNCHW ? forward_to<Layout::kNCHW>(run, x, w, b, y, state)
                                          : forward_to<Layout::kNHWC>(run, x, w, b, y, state);
  }
  void begin_backward(const Run& run, const Tensor& dy, const Tensor& state) override {
    if (T* const to = shared(state).dy) convolution_.stage_dy(run, dy, state.data<uint32_t>(), to);
  }
  void backward_data(const Run& run, const Tensor&, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    if (by_windows_) return by_windows_->run(run, dy, state, w, dx);
    const auto run_by = [&](const auto& convolution) {
      convolution.backward_data(run, dy, state.data<uint32_t>(), w, dx, shared(state));
    };
    by_halo(Pass::kBackwardData) ? run_by(*halo_) : run_by(convolution_);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    const auto run_by = [&](const auto& convolution) {
      convolution.backward_filter(run, x, dy, state.data<uint32_t>(), dw.data<float>(),
                                  db.data<float>(), shared(state));
    };
    by_halo(Pass::kBackwardFilter) ? run_by(*halo_) : run_by(convolution_);
  }

 private:
  bool by_halo(Pass pass) const {
    return pass == Pass::kBackwardData ? data_by_halo_
                                       : pass == Pass::kBackwardFilter && filter_by_halo_;
  }

  template <Layout kLayout>
  void forward_to(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                  const Tensor& y, const Tensor& state) {
    const Conv2dProblem& d = problem_.conv;
    if constexpr (std::is_same_v<T, bfloat16>) {
      if (forward_by_halo_) {
        const PooledRowPairs<kLayout, T> result{.y = y.data<T>(),
                                                .argmax = state.data<uint32_t>(),
                                                .bias = b.data<float>(),
                                                .images = d.n,
                                                .filters = d.k,
                                                .pool_h = d.p / 2,
                                                .pool_w = d.q / 2};
        halo_->forward_kept(run, x, w, result, shared(state));
        return;
      }
    }
    convolution_.forward_windows(
        run, x, w, shared(state),
        [&]<class Tile>(Tile, const auto& plan, const auto& a, const auto& filters) {
          const WindowResult<kLayout, T> result{.y = y.data<T>(),
                                                .argmax = state.data<uint32_t>(),
                                                .bias = b.data<float>(),
                                                .columns = d.k,
                                                .pool_h = d.p / 2,
                                                .pool_w = d.q / 2,
                                                .by_windows = FastDivisor(a.boxes.box() / 4),
                                                .by_wide = FastDivisor(a.boxes.w / 2),
                                                .by_high = FastDivisor(a.boxes.h / 2)};
          launch_wgmma_product<Tile>(plan, a, filters, result, run.stream());
        });
  }

  size_t argmax_bytes() const { return align_up(packed_argmax_bytes(problem_.conv)); }
  SharedImages<T> shared(const Tensor& state) const {
    char* const from = state.data<char>() + argmax_bytes();
    const size_t x = convolution_.shared_x_bytes(), dy = convolution_.shared_dy_bytes();
    return {x > 0 ? reinterpret_cast<T*>(from) : nullptr,
            dy > 0 ? reinterpret_cast<T*>(from + x) : nullptr};
  }

  std::set<Pass> runs_;  // here, of prepare()
  WgmmaConvolution<T, false> convolution_;
  /// Forward keeps the weights.
  const bool forward_by_halo_, data_by_halo_, filter_by_halo_;
  std::optional<HaloConvolution<T>> halo_;
  std::optional<WindowsBackwardData> by_windows_;  // in tf32
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = window_unsupported(problem)) return reason;
  return wgmma_convolution_unsupported(pooled_part(problem.conv), pass);
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_wgmma() {
  auto entry = gpu_entry<Conv2dPoolReluCustomWgmma>("custom_wgmma", unsupported);
  entry.preferred = [](const Conv2dPoolReluProblem& problem, Pass pass, size_t limit) {
    const Conv2dProblem conv = pooled_part(problem.conv);
    return wgmma_convolution_preferred(conv, pass, limit) ||
           (conv.math == Math::kTF32 && pass == Pass::kBackwardFilter &&
            halo_convolution_preferred(conv, pass));
  };
  return entry;
}

}  // namespace duet
