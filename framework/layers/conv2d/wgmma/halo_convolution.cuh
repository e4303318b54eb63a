// A convolution of stride 1 by wgmma whose tile of the image is brought once for all taps, operands
// staged (staged_convolution.cuh): forward and backward_data by kernels/wgmma_halo.cuh, and backward_filter by
// kernels/wgmma_filter.cuh.
#pragma once

#include "kernels/wgmma_filter.cuh"
#include "kernels/wgmma_filter_rows.cuh"
#include "kernels/wgmma_halo.cuh"
#include "layers/conv2d/wgmma/halo_convolution.h"
#include "layers/conv2d/wgmma/kept_weights.cuh"
#include "layers/conv2d/wgmma/wgmma_convolution.cuh"

namespace duet {

/// How a pass of a convolution becomes a product: the image that its taps read and what results.
struct HaloProblem {
  int columns;  // output channels
  HaloGeometry geometry;

  /// REQUIRES: `d` has its channels and filters padded; strides of 1, and no more padding than taps reach.
  HaloProblem(const Conv2dProblem& d, Pass pass)
      : columns(pass == Pass::kForward ? d.k : d.c),
        geometry(pass == Pass::kForward
                     ? HaloGeometry(d.n, d.h, d.w, d.c, {d.r, 1, -d.pad_h, d.dilation_h},
                                    {d.s, 1, -d.pad_w, d.dilation_w}, d.p, d.q)
                     : HaloGeometry(d.n, d.p, d.q, d.k, {d.r, 1, d.pad_h, -d.dilation_h},
                                    {d.s, 1, d.pad_w, -d.dilation_w}, d.h, d.w)) {}
};

/// Which tile multiplies a problem of T.
template <class T>
class HaloPlan {
 public:
  HaloPlan(const HaloProblem& problem, int multiprocessors) {
    const HaloGeometry& g = problem.geometry;
    const int blocks = ceil_div(g.channels, kStepDepth<T>), steps = blocks * g.taps();
    for_tiles([&]<class Tile>(Tile, int number) {
      constexpr size_t kShared = 228 * 1024,
                       kOfSystem = 1024;  // of a multiprocessor, and of a block
      const int rows = g.rows(Tile::kPositions);
      if (rows > kMostPositions) return;
      if (halo_smem_bytes<Tile>(rows, blocks) > kShared / Tile::kBlocks - kOfSystem) return;
      // In cycles of a Hopper multiprocessor, which multiplies 64 by kN by 128 bytes of terms in 2 kN, for each
      // warpgroup; copies come at 24 bytes a cycle.
      const int row_tiles = ceil_div(problem.columns, Tile::kRows);
      const int64_t tiles = int64_t{row_tiles} * ceil_div(g.positions(), Tile::kPositions);
      const int64_t mine = (tiles + multiprocessors - 1) / multiprocessors;
      const double copies =
          (double(steps) * Tile::kStageBytes + double(blocks) * rows * kRowBytes) / 24;
      // Nothing hides what a block that is alone waits for, and least of all its beginning and end.
      const bool alone = Tile::kBlocks == 1;
      const double product = std::max(steps * 4. * Tile::kN, copies) * (alone ? 1.35 : 1);
      const double around = (4000 + Tile::kResultBytes / 16) * (alone ? 2. : 1.);
      const double cost =
          double(mine) * product + double((mine + Tile::kBlocks - 1) / Tile::kBlocks) * around;
      if (number_ >= 0 && cost >= cycles_) return;
      number_ = number, cycles_ = cost;
    });
  }

  bool any() const { return number_ >= 0; }
  double cycles() const { return cycles_; }  // an estimate
  /// Calls visit(tile). REQUIRES: any().
  template <class Visit>
  void with_tile(Visit visit) const {
    for_tiles([&]<class Tile>(Tile tile, int number) {
      if (number == number_) visit(tile);
    });
  }
  std::string text() const {
    std::string text;
    with_tile([&]<class Tile>(Tile) {
      text = "tile " + std::to_string(Tile::kRows) + "x" + std::to_string(Tile::kPositions) +
             (std::is_same_v<T, float> ? ", wgmma tf32" : ", wgmma bf16");
    });
    return text;
  }

 private:
  /// Panels of output channels, positions of a warpgroup, stages, blocks on a multiprocessor.
  template <class Visit>
  static void for_tiles(Visit visit) {
    visit(HaloTile<2, 128, 3, 2>{}, 0);
    visit(HaloTile<1, 128, 4, 2>{}, 1);
    visit(HaloTile<1, 256, 6, 1>{}, 2);
    visit(HaloTile<1, 64, 4, 2>{}, 3);
    visit(HaloTile<1, 128, 4, 1>{}, 4);
    visit(HaloTile<2, 112, 3, 2>{}, 5);
    visit(HaloTile<2, 104, 3, 2>{}, 6);
    visit(HaloTile<1, 112, 4, 2>{}, 7);
    visit(HaloTile<1, 104, 4, 2>{}, 8);
    visit(HaloTile<1, 88, 4, 2>{}, 9);
  }

  int number_ = -1;
  double cycles_ = 0;
};

/// Of forward or backward_data.
inline KeptProblem kept_problem(const Conv2dProblem& d, Pass pass) {
  if (pass == Pass::kForward) return {d.n, d.h, d.w, d.c, d.pad_h, d.pad_w, d.k, d.p, d.q};
  return {d.n, d.p, d.q, d.k, d.r - 1 - d.pad_h, d.s - 1 - d.pad_w, d.c, d.h, d.w};
}
/// Of channels or filters. Of those that WgmmaConvolution takes no more, in bf16, KeptTile and FilterTile have narrower tiles.
inline constexpr int kTooNarrowForHalo = 16;
/// Whether kept_weights.cuh can do it, and little of what it computes is not wanted.
inline bool kept_weights_preferred(const Conv2dProblem& d, Pass pass) {
  const bool same = d.stride_h == 1 && d.stride_w == 1 && d.dilation_h == 1 && d.dilation_w == 1;
  const bool possible = d.math == Math::kBF16 && same && d.r == 3 && d.s == 3 && d.pad_h <= 2 &&
                        d.pad_w <= 2 &&
                        !wgmma_shape_unsupported(d, Pass::kForward, kTooNarrowForHalo);
  return possible && kept_problem(d, pass).worthwhile();
}

/// The same of results that are stored as they are, not pooled. Planes are stored in runs, or custom_wgmma is faster:
/// 64x64x56x56 -> 64 backward_data 78 us in place of 83, 1024x64x13x13 -> 128 forward 78 in place of 213 (H100).
inline bool keeps_weights(const Conv2dProblem& d, Pass pass) {
  return kept_weights_preferred(d, pass) &&
         (d.layout == Layout::kNHWC || kept_problem(d, pass).stores_runs());
}

inline std::optional<std::string> halo_convolution_unsupported(const Conv2dProblem& d, Pass pass) {
  if (auto reason = tensor_cores_only(d, pass)) return reason;
  if (d.stride_h != 1 || d.stride_w != 1) return "takes strides of 1";
  if (d.r * d.s == 1) return "brings a tile once for all taps, and here is one";
  if (d.pad_h > (d.r - 1) * d.dilation_h || d.pad_w > (d.s - 1) * d.dilation_w) {
    return "takes as much padding as the taps reach, and no more";
  }
  // What backward_filter's products of custom_wgmma cannot do this one can.
  if (auto reason = wgmma_shape_unsupported(d, Pass::kForward, kTooNarrowForHalo)) return reason;
  if (pass == Pass::kBackwardFilter) {
    if (d.r == 3 && d.s == 3 && d.dilation_h == 1 && d.dilation_w == 1) return {};
    return "takes 3x3 kernels without dilation in this pass";
  }
  const HaloProblem problem(d, pass);
  if (!(d.math == Math::kBF16 ? HaloPlan<bfloat16>(problem, 1).any()
                              : HaloPlan<float>(problem, 1).any())) {
    return "has no room in shared memory for the rows of a tile and those around it; take narrower "
           "images";
  }
  return {};
}

/// Whether an estimate of forward or backward_data is not far above WgmmaConvolution's, as it is where tiles are too few for the
/// multiprocessors: sums are not cut here. In tf32 backward_data of 8x192x7x7 -> 384 takes 39.4 us in place of 16.2 (H200).
template <class T>
bool halo_keeps_up(const Conv2dProblem& d, Pass pass) {
  // Estimates leave out that custom_wgmma brings a tile once a tap.
  constexpr double kOfCopies = 1.5;
  return HaloPlan<T>(HaloProblem(d, pass), likely_multiprocessor_count()).cycles() <=
         kOfCopies * WgmmaConvolution<T, false>(d, ~size_t{0}).cycles(pass);
}

/// Whether HaloConvolution can do it and is faster than WgmmaConvolution: measured on an H100 at 13 to 56 rows and
/// columns, 64 to 512 channels.
inline bool halo_convolution_preferred(const Conv2dProblem& d, Pass pass) {
  if (halo_convolution_unsupported(d, pass)) return false;
  if (pass == Pass::kBackwardFilter) {
    // custom_wgmma's, of less to begin and to end, is faster where positions are few: of eight images, for each tile. In bf16
    // Nx64x16x16 -> 128 takes 27.4 us in place of 29.4 at N = 128, 39.6 and 39.1 at 192, and 51.9 and 41.9 at 256, and
    // 128x512x2x2 -> 512 30.7 in place of 42.4; in tf32 8x96x14x14 -> 208 takes 21.9 in place of 30.4 (H200).
    const FilterSegments<bfloat16> segments(d.q);
    const int64_t positions =
        int64_t{ceil_div(d.n, ImageBlocks::kImages)} * d.p * segments.all_columns();
    const int64_t tiles = int64_t{ceil_div(d.k, kPanel)} * ceil_div(d.c, kPanel);
    return d.n >= ImageBlocks::kImages &&
           positions * tiles >= (d.math == Math::kTF32 ? 800 : 12288);
  }
  if (keeps_weights(d, pass)) return true;
  if (wgmma_convolution_unsupported(d, pass)) return false;  // by few channels
  const HaloProblem problem(d, pass);
  const HaloGeometry& g = problem.geometry;
  const double results = double(g.images) * g.out_height * g.out_width;
  if (results < 0.7 * g.positions()) return false;
  if (!(d.math == Math::kBF16 ? halo_keeps_up<bfloat16>(d, pass) : halo_keeps_up<float>(d, pass)))
    return false;
  if (d.math == Math::kBF16) return problem.columns <= 64 || pass == Pass::kForward;
  return g.rows(0) <= 128;  // float's tiles have little room for a wider halo
}

/// x, y and their gradients are stored as T, float for tf32. A window's argmax (packed_argmax.cuh) is nullptr where
/// nothing is pooled. REQUIRES: halo_convolution_unsupported() has no reason for a pass that runs.
template <class T>
class HaloConvolution : public StagedConvolution<T> {
  static constexpr bool kBf16 = std::is_same_v<T, bfloat16>;

 public:
  /// Whether backward_filter takes what stage_x_and_dy() makes.
  static constexpr bool kStagesFilter = kBf16;

  /// With `pooled`, dy of backward_filter is that of 2x2 windows, of which rows and columns are whole ones.
  HaloConvolution(const Conv2dProblem& problem, size_t workspace_limit, bool pooled = false)
      : Staged(problem),
        keeps_forward_(keeps_weights(problem, Pass::kForward)),
        keeps_data_(keeps_weights(problem, Pass::kBackwardData)),
        forward_(padded_, Pass::kForward),
        backward_data_(padded_, Pass::kBackwardData),
        segments_(problem.q, pooled && !kBf16),
        backward_filter_(problem.n, problem.p, segments_, problem.k, problem.c,
                         int64_t(parts_stride()),
                         workspace_limit > operand_bytes() ? workspace_limit - operand_bytes() : 0,
                         likely_multiprocessor_count(), pooled && !kBf16) {}

  size_t workspace_bytes(Pass pass) const {
    if (pass != Pass::kBackwardFilter) return staged_bytes(pass);
    return operand_bytes() + sizeof(float) * backward_filter_.splits * parts_stride();
  }
  std::string text(Pass pass) const {
    if (pass == Pass::kBackwardFilter) return backward_filter_.text();
    if (keeps(pass)) return kept_problem(padded_, pass).text();
    return (pass == Pass::kForward ? forward_ : backward_data_).plan.text();
  }

  /// Whether backward_data takes other weights than forward.
  bool turns_weights() const { return !kBf16 || keeps(Pass::kBackwardData); }

  int moment_parts() const {
    if (keeps(Pass::kForward)) return kept_problem(padded_, Pass::kForward).moment_parts();
    int parts = 0;
    forward_.plan.with_tile(
        [&]<class Tile>(Tile) { parts = Tile::parts(forward_.problem.geometry.positions()); });
    return parts;
  }
  void forward(const Run& run, const Tensor& x, const Tensor& w, const float* bias, const Tensor& y,
               const ChannelMoments& moments = {}, const SharedImages<T>& shared = {}) const;
  /// Forward to somewhere else, as kept_weights.cuh has results. REQUIRES: kept_weights_preferred().
  template <class Result>
  void forward_kept(const Run& run, const Tensor& x, const Tensor& w, const Result& result,
                    const SharedImages<T>& shared = {}) const {
    const auto [image, weights] = stage_x_and_weights(run, x, w, shared);
    kept_problem(padded_, Pass::kForward).run(image, weights, {}, result, run.stream());
  }
  void backward_data(const Run& run, const Tensor& dy, const uint32_t* argmax, const Tensor& w,
                     const Tensor& dx, const SharedImages<T>& shared = {}) const;
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const uint32_t* argmax,
                       float* dw, float* db, const SharedImages<T>& shared = {}) const;

 private:
  using Staged = StagedConvolution<T>;
  using Staged::problem_, Staged::padded_, Staged::staged_bytes;
  using Staged::stage_x_and_weights, Staged::stage_dy_and_weights;

  bool keeps(Pass pass) const { return pass == Pass::kForward ? keeps_forward_ : keeps_data_; }

  // Of backward_filter.
  int filter_channels() const {
    return round_up(problem_.c, FilterPlan<T>::channels_of_tile(problem_.c));
  }
  size_t parts_stride() const {
    return partial_stride(problem_.k, this->geometry_.taps * filter_channels());
  }
  size_t operand_bytes() const { return kBf16 ? staged_bytes(Pass::kBackwardFilter) : 0; }
  float* parts(const Run& run) const {
    return reinterpret_cast<float*>(static_cast<char*>(run.workspace) + operand_bytes());
  }

  struct Product {
    HaloProblem problem;
    HaloPlan<T> plan;
    Product(const Conv2dProblem& d, Pass pass)
        : problem(d, pass), plan(problem, likely_multiprocessor_count()) {}
  };

  /// Weights [row][tap][channel] for launch().
  static auto by_row(const T* weights, int rows) {
    return [=](const HaloGeometry& g, int tile_rows) {
      return WeightByRow<T>(weights, rows, g.taps(), g.channels, tile_rows);
    };
  }
  template <class WeightsOf>
  void launch(const Product& product, const T* image, WeightsOf weights_of, const float* bias,
              int channels, const Tensor& out, const Run& run,
              const ChannelMoments& moments = {}) const {
    const HaloGeometry& g = product.problem.geometry;
    product.plan.with_tile([&]<class Tile>(Tile) {
      const HaloImages<T> a(g, image, Tile::kPositions);
      this->by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
        launch_wgmma_halo<Tile>(weights_of(g, Tile::kRows), a, channels,
                                HaloResult<kLayout, T>{out.data<T>(), bias, channels,
                                                       g.out_height * g.out_width, moments},
                                run.stream());
      });
    });
  }

  const bool keeps_forward_, keeps_data_;  // the weights (kept_weights.cuh)
  const Product forward_, backward_data_;
  const FilterSegments<T> segments_;  // of backward_filter_
  const FilterPlan<T> backward_filter_;
};

// Behind the class, as `extern template` does not keep the compiler from making what is inline again, kernels and all.

template <class T>
void HaloConvolution<T>::forward(const Run& run, const Tensor& x, const Tensor& w,
                                 const float* bias, const Tensor& y, const ChannelMoments& moments,
                                 const SharedImages<T>& shared) const {
  if constexpr (kBf16) {
    if (keeps(Pass::kForward)) {
      const Conv2dProblem& d = problem_;
      this->by_layout([&, this]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
        this->forward_kept(
            run, x, w, RowPairResult<kLayout, T>{y.data<T>(), bias, d.n, d.k, d.p, d.q, moments},
            shared);
      });
      return;
    }
  }
  const auto [image, weights] = stage_x_and_weights(run, x, w, shared);
  launch(forward_, image, by_row(weights, problem_.k), bias, problem_.k, y, run, moments);
}

template <class T>
void HaloConvolution<T>::backward_data(const Run& run, const Tensor& dy, const uint32_t* argmax,
                                       const Tensor& w, const Tensor& dx,
                                       const SharedImages<T>& shared) const {
  if constexpr (kBf16) {
    if (keeps(Pass::kBackwardData)) {
      const auto [image, weights] = stage_dy_and_weights(run, dy, argmax, w, true, shared);
      const TapNumbers from_the_last{8, -3, -1, FastDivisor(3)};
      const KeptProblem kept = kept_problem(padded_, Pass::kBackwardData);
      const Conv2dProblem& d = problem_;
      this->by_layout([&, from = image,
                       filters = weights]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
        kept.run(from, filters, from_the_last,
                 RowPairResult<kLayout, T>{dx.data<T>(), nullptr, d.n, d.c, d.h, d.w},
                 run.stream());
      });
      return;
    }
  }
  constexpr bool kTurned = std::is_same_v<T, float>;  // which the instruction would not
  const auto [image, weights] = stage_dy_and_weights(run, dy, argmax, w, kTurned, shared);
  if constexpr (kTurned) {
    launch(backward_data_, image, by_row(weights, problem_.c), nullptr, problem_.c, dx, run);
  } else {
    const auto by_channel = [filters = weights, rows = problem_.k, channels = padded_.c](
                                const HaloGeometry& g, int) {
      return WeightByChannel(filters, rows, g.taps(), channels);
    };
    launch(backward_data_, image, by_channel, nullptr, problem_.c, dx, run);
  }
}

template <class T>
void HaloConvolution<T>::backward_filter(const Run& run, const Tensor& x, const Tensor& dy,
                                         const uint32_t* argmax, float* dw, float* db,
                                         const SharedImages<T>& shared) const {
  if constexpr (kBf16) {
    const Conv2dProblem& d = padded_;
    const auto [image, gradient] = this->stage_x_and_dy(run, x, dy, argmax, shared);
    launch_wgmma_filter<T>(
        {image, d.n, d.h, d.w, d.c, d.pad_h, d.pad_w, segments_.columns + d.s - 1,
         backward_filter_.tile_channels * int(sizeof(T))},
        {gradient, d.n, d.p, d.q, d.k, 0, 0, segments_.columns}, backward_filter_, problem_.k,
        db != nullptr, parts(run), parts_stride(), run.stream());
  } else {
    const Conv2dProblem& d = problem_;
    const int unit = backward_filter_.pooled ? 2 : 1;
    this->by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
      launch_wgmma_filter_rows<kLayout>({x.data<float>(), d.n, d.c, d.h, d.w, d.pad_h, d.pad_w},
                                        {dy.data<float>(), d.n, d.k, d.p / unit, d.q / unit},
                                        {argmax, d.n, argmax_groups(d.k), d.p / unit, d.q / unit},
                                        backward_filter_, d.k, db != nullptr, parts(run),
                                        parts_stride(), run.stream());
    });
  }
  this->launch_sum_filters(parts(run), backward_filter_.splits, filter_channels(), dw, db,
                           run.stream());
}

// Compiled in conv2d_custom_wgmma_halo.cu and conv2d_custom_wgmma_halo_tf32.cu.
extern template class HaloConvolution<bfloat16>;
extern template class HaloConvolution<float>;

}  // namespace duet
