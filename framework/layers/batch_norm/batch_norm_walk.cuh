// Which values a thread of batch normalisation's kernels has, in either layout.
//
// Memory is outer x channels x inner values (batch_norm.h). A block of 256 threads has
//   kPlanes (NCHW)      one channel: its threads take neighbouring values of its planes
//   else (NHWC, N x F)  lanes * V channels: a thread has V neighbouring channels of every so many
//                       rows. 128 bytes of them, what memory moves at once, make many blocks; of
//                       tensors beyond the L2 cache more, which DRAM delivers sooner
// Values are moved V at a time. A channel may be split between several blocks.
#pragma once

#include <algorithm>
#include <type_traits>

#include "device/attribute.h"
#include "device/check.h"
#include "device/device.h"
#include "device/launch.h"
#include "kernels/block_combine.cuh"
#include "kernels/turns.cuh"
#include "kernels/vector.cuh"
#include "layers/batch_norm/batch_norm.h"

namespace duet::batch_norm {

constexpr int kThreads = kCombineThreads;

/// The problem as a kernel sees it, and how it is cut.
struct Walk {
  int channels, inner, outer;
  int lanes;    // of threads that have channels of their own
  int vectors;  // of a plane: inner / V; 1 if channels are innermost
  int units;    // of a channel: vectors of all its planes, or rows
  int units_per_split;
  int groups, splits;  // the grid
  float count;         // values of a channel
  float eps, momentum;
  FastDivisor by_vectors;
  int shelf = 0, shelf_bytes = 0;  // batch_norm_rows.cuh
  Turn turn = {false, -1, 0};      // where the grid has no y: what the block took

  __device__ __forceinline__ int group() const {
    return turn.group < 0 ? static_cast<int>(blockIdx.x) : turn.group;
  }
  __device__ __forceinline__ int split() const {
    return turn.group < 0 ? static_cast<int>(blockIdx.y) : turn.split;
  }
};

/// The form of a kernel, for values of type T.
template <class T, bool planes, int v, bool relu>
struct Form {
  using Value = T;
  static constexpr bool kPlanes = planes;
  static constexpr int V = v;                       // values at a time
  static constexpr int kChannels = planes ? 1 : v;  // of a thread
  static constexpr bool kRelu = relu;
  /// Which of a thread's channels value k of a vector belongs to.
  static __device__ __forceinline__ int channel_of(int k) { return planes ? 0 : k; }
};

inline bool in_planes(const BatchNormProblem& problem) { return problem.inner() > 1; }
inline int vector_length(const BatchNormProblem& problem) {
  return (in_planes(problem) ? problem.inner() : problem.channels()) % 4 == 0 ? 4 : 1;
}

template <bool relu, class Visit>
void with_form_of(const BatchNormProblem& problem, Visit&& visit) {
  const bool four = vector_length(problem) == 4;
  visit_gpu_storage(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (in_planes(problem)) {
      four ? visit(Form<T, true, 4, relu>()) : visit(Form<T, true, 1, relu>());
    } else {
      four ? visit(Form<T, false, 4, relu>()) : visit(Form<T, false, 1, relu>());
    }
  });
}
/// Calls visit(Form()) for the form of `problem`.
template <class Visit>
void with_form(const BatchNormProblem& problem, Visit&& visit) {
  problem.relu ? with_form_of<true>(problem, visit) : with_form_of<false>(problem, visit);
}

/// For tables.
inline std::string form_text(const BatchNormProblem& problem) {
  const bool four = vector_length(problem) == 4;
  return in_planes(problem) ? (four ? "4 pixels at a time" : "1 pixel at a time")
                            : (four ? "4 channels at a time" : "1 channel at a time");
}

inline std::optional<std::string> unsupported(const BatchNormProblem& problem, Pass) {
  // A thread's place may pass the end by a step before it is compared.
  constexpr int64_t kMost = (int64_t{1} << 31) - (1 << 20);
  if (problem.x.elements() <= kMost) return {};
  return "numbers elements in 32 bits; use a smaller batch";
}

inline void cut(Walk& walk, int splits) {
  walk.units_per_split = ceil_div(walk.units, splits);
  walk.splits = ceil_div(walk.units, walk.units_per_split);
}
/// Cuts the units of a channel, that there are as many blocks as fill the GPU.
inline void cut(Walk& walk) {
  constexpr int kBlocksPerMultiprocessor = 4, kLeastUnits = 4;  // of a thread
  const int wanted = kBlocksPerMultiprocessor * multiprocessor_count();
  const int most = walk.units / (kLeastUnits * kThreads / walk.lanes);
  cut(walk, std::clamp(wanted / walk.groups, 1, std::max(most, 1)));
}

/// REQUIRES: the problem is supported. One block has a channel, or where `split` as many as fill
/// the GPU.
inline Walk walk_of(const BatchNormProblem& problem, bool split) {
  const int v = vector_length(problem);
  Walk walk = {.channels = static_cast<int>(problem.channels()),
               .inner = static_cast<int>(problem.inner()),
               .outer = static_cast<int>(problem.outer()),
               .lanes = 1,
               .count = static_cast<float>(problem.count()),
               .eps = static_cast<float>(problem.eps),
               .momentum = static_cast<float>(problem.momentum)};
  if (in_planes(problem)) {
    walk.vectors = walk.inner / v;
    walk.by_vectors = FastDivisor(walk.vectors);
    walk.groups = walk.channels;
  } else {
    walk.vectors = 1;
    const size_t cache = gpu_available() ? l2_bytes() : size_t{50} << 20;
    const bool cached = problem.x.bytes() <= cache / 2;
    const int bytes = v * static_cast<int>(size_of(problem.dtype));
    const int most_lanes = cached ? std::min(32, 128 / bytes) : 32;
    while (walk.lanes < most_lanes && walk.lanes * v < walk.channels) walk.lanes *= 2;
    walk.groups = (walk.channels + walk.lanes * v - 1) / (walk.lanes * v);
  }
  walk.units = walk.outer * walk.vectors;
  walk.splits = 1;
  walk.units_per_split = walk.units;
  if (split) cut(walk);
  return walk;
}

template <class... Parameters>
void launch(const Walk& walk, int splits, cudaStream_t stream, void (*kernel)(Parameters...),
            const std::type_identity_t<Parameters>&... arguments) {
  const dim3 grid(static_cast<unsigned>(walk.groups), static_cast<unsigned>(splits));
  launch_following({grid, kThreads, 0, stream}, kernel, arguments...);
}

}  // namespace duet::batch_norm
