// The launches of custom_direct, plain and fused, planned once for a problem.
#pragma once

#include <algorithm>

#include "layers/conv2d/small_channels/direct_backward_filter.cuh"
#include "layers/conv2d/small_channels/direct_forward.cuh"

namespace duet {

template <int kC, int kR>
struct DirectShape {
  static constexpr int c = kC, r = kR, taps = kC * kR * kR;
};
/// Calls f with the problem's compile-time shape; false where there is no kernel for it.
template <class F>
bool with_direct_shape(const Conv2dProblem& d, F f) {
  if (d.r != d.s) return false;
  if (d.c == 1 && d.r == 3) return f(DirectShape<1, 3>{}), true;
  if (d.c == 2 && d.r == 3) return f(DirectShape<2, 3>{}), true;
  if (d.c == 3 && d.r == 3) return f(DirectShape<3, 3>{}), true;
  if (d.c == 4 && d.r == 3) return f(DirectShape<4, 3>{}), true;
  if (d.c == 1 && d.r == 5) return f(DirectShape<1, 5>{}), true;
  return false;
}

/// What float32 units cannot do.
inline std::optional<std::string> direct_unsupported(const Conv2dProblem& d, Pass) {
  if (auto reason = ungrouped_unsupported(d)) return reason;
  if (!with_direct_shape(d, [](auto) {})) {
    return "takes 1 to 4 channels with 3x3 filters, or 1 channel with 5x5";
  }
  if (d.stride_h != 1 || d.stride_w != 1) return "takes stride 1 only";
  if (d.dilation_h != 1 || d.dilation_w != 1) return "takes dilation 1 only";
  return {};
}

/// Filters of one thread in backward_filter: all their taps are accumulators.
constexpr int direct_filters_per_thread(int taps) { return taps <= 9 ? 8 : taps <= 18 ? 4 : 2; }

/// x, y and dy are stored as T.
template <class T, bool kPool>
class DirectConvolution {
 public:
  explicit DirectConvolution(const Conv2dProblem& problem)
      : geometry_(problem, kPool), taps_(problem.c * problem.r * problem.s) {
    const int multiprocessors = multiprocessor_count(), groups = argmax_groups(problem.k);
    // Of few windows a thread has one: what it waits for is its own arithmetic.
    const int most_windows = windows_per_thread(taps_);
    const int fewest_blocks = ceil_div(geometry_.total_windows, kDirectThreads * most_windows);
    windows_per_thread_ = fewest_blocks * groups <= multiprocessors ? 1 : most_windows;
    // Forward splits the filters too, down to eight a block, until there are about 16 blocks a
    // multiprocessor: five fit at once, and with few waves the last one would stand half empty.
    const int window_blocks =
        ceil_div(geometry_.total_windows, kDirectThreads * windows_per_thread_);
    const int runs = std::clamp(ceil_div(16 * multiprocessors, window_blocks), 1, groups);
    constexpr int kDefaultSharedFloats = 48 * 1024 / sizeof(float);
    groups_per_block_ =
        std::min(ceil_div(groups, runs), kDefaultSharedFloats / direct_filter_pitch(taps_) / 8);
    forward_grid_ = dim3(window_blocks, ceil_div(groups, groups_per_block_));

    const int filter_blocks = ceil_div(problem.k, direct_filters_per_thread(taps_));
    const int wanted = std::max(1, ceil_div(4 * multiprocessors, filter_blocks));
    const int rounds = ceil_div(ceil_div(geometry_.total_windows, kDirectThreads), wanted);
    windows_per_split_ = rounds * kDirectThreads;
    filter_grid_ = dim3(ceil_div(geometry_.total_windows, windows_per_split_), filter_blocks);
  }

  /// `argmax` is nullptr without pooling; `b` may be. `weights_rest`: Run::inference.
  void forward(bool weights_rest, const T* x, const float* w, const float* b, T* y,
               uint32_t* argmax, cudaStream_t stream) const {
    with_direct_shape(geometry_.d, [&]<class S>(S) {
      const size_t smem = sizeof(float) * groups_per_block_ * 8 * direct_filter_pitch(S::taps);
      const auto queue = [&]<int kWindows, bool kRuns>() {
        launch_following({forward_grid_, kDirectThreads, smem, stream},
                         conv2d_direct_forward_kernel<T, S::c, S::r, kWindows, kPool, kRuns>,
                         geometry_, groups_per_block_ * 8, weights_rest, x, w, b, y, argmax);
      };
      const auto queue_windows = [&]<bool kRuns>() {
        constexpr int kMost = windows_per_thread(S::taps);
        windows_per_thread_ == kMost ? queue.template operator()<kMost, kRuns>()
                                     : queue.template operator()<1, kRuns>();
      };
      const bool runs = !kPool && geometry_.filter_stride == 1 && geometry_.d.k % 8 == 0;
      runs ? queue_windows.template operator()<!kPool>()
           : queue_windows.template operator()<false>();
    });
  }

  size_t backward_filter_workspace_bytes() const {
    return sizeof(float) * filter_grid_.x * partial_floats();
  }
  /// `db` may be nullptr.
  void backward_filter(const T* x, const T* dy, const uint32_t* argmax, float* dw, float* db,
                       void* workspace, cudaStream_t stream) const {
    float* partial = static_cast<float*>(workspace);
    with_direct_shape(geometry_.d, [&]<class S>(S) {
      launch_following(
          {filter_grid_, kDirectThreads, 0, stream},
          conv2d_direct_backward_filter_kernel<T, S::c, S::r, direct_filters_per_thread(S::taps),
                                               kPool>,
          geometry_, windows_per_split_, x, dy, argmax, partial);
    });
    launch_reduce_splits(partial, filter_grid_.x, partial_floats(), partial_floats(),
                         geometry_.d.k * taps_, dw, db, stream);
  }

  const DirectGeometry& geometry() const { return geometry_; }
  std::string text(Pass pass) const {
    if (pass == Pass::kForward) {
      return std::to_string(windows_per_thread_) +
             (windows_per_thread_ == 1 ? " window" : " windows") + " of 2x2 x " +
             std::to_string(groups_per_block_ * 8) + " filters a thread";
    }
    return std::to_string(direct_filters_per_thread(taps_)) + " filters a thread, " +
           std::to_string(filter_grid_.x) + " splits";
  }

 private:
  static constexpr int windows_per_thread(int taps) { return taps == 9 ? 2 : 1; }
  int partial_floats() const { return geometry_.d.k * (taps_ + 1); }

  const DirectGeometry geometry_;
  const int taps_;
  int windows_per_thread_ = 1, groups_per_block_ = 1, windows_per_split_ = 1;
  dim3 forward_grid_, filter_grid_;
};

}  // namespace duet
