// Both passes of batch normalisation by clusters whose threads keep their values in registers, for
// batch_norm's custom_cluster and for layers that do more with the values on their way.
#pragma once

#include <climits>

#include "layers/batch_norm/batch_norm_cluster.cuh"

namespace duet::batch_norm {

/// Vectors that a thread keeps of x; in backward it keeps half as many of x and of dy.
constexpr int vectors_kept(int v) { return v == 1 ? 16 : 8; }
template <class F>
constexpr int kKept = vectors_kept(F::V);
template <class F>
using Kept = Batch<F, kKept<F>>;

/// Where `count` vectors of a thread lie; -1 where there is none.
template <int count>
struct Offsets {
  int at[count];
};

/// The thread's part of its channels: it has every so many vectors from its first, so that the
/// neighbours of a warp read neighbours in memory.
template <class F>
struct Part {
  int first, step;  // units
  int channel;
  bool inside;  // the channel exists

  __device__ __forceinline__ explicit Part(const Walk& walk)
      : first(static_cast<int>(blockIdx.y * kThreads + threadIdx.x) / walk.lanes),
        step(walk.splits * kThreads / walk.lanes),
        channel(first_channel<F>(walk)),
        inside(channel < walk.channels) {}

  __device__ __forceinline__ int offset(const Walk& walk, int unit) const {
    if constexpr (!F::kPlanes) return unit * walk.channels + channel;
    int plane, at;
    walk.by_vectors.divmod(unit, plane, at);
    return (plane * walk.channels + channel) * walk.inner + at * F::V;
  }

  /// Of its j-th vector and those behind it, as far as it has them before the `end`-th.
  template <int count>
  __device__ __forceinline__ Offsets<count> offsets(const Walk& walk, int j, int end) const {
    Offsets<count> offsets;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int unit = first + (j + i) * step;
      const bool exists = inside && j + i < end && unit < walk.units;
      offsets.at[i] = exists ? offset(walk, unit) : -1;
    }
    return offsets;
  }
  /// Steps of `count` vectors on the shelf, behind `kept` in registers: visit(j, offsets), j the first's place there.
  template <int count, class Visit>
  __device__ __forceinline__ void shelved(const Walk& walk, int kept, Visit visit) const {
    for (int j = 0; j < walk.shelf; j += count) {
      visit(j, offsets<count>(walk, kept + j, kept + walk.shelf));
    }
  }
  /// Of the others, which are read each time: visit(offsets).
  template <int count, class Visit>
  __device__ __forceinline__ void others(const Walk& walk, int kept, Visit visit) const {
    for (int j = kept + walk.shelf; first + j * step < walk.units; j += count) {
      visit(offsets<count>(walk, j, INT_MAX));
    }
  }
};

/// The statistics of the batch, of which `kept` are the thread's first values. Each value is added as it arrives. REQUIRES:
/// the block then comes to wait_for_readers().
template <class F>
__device__ __forceinline__ Statistics<F> statistics_of_cluster(const Walk& walk,
                                                               const Part<F>& part,
                                                               const typename F::Value* x,
                                                               Kept<F>& kept,
                                                               float (&var)[F::kChannels]) {
  constexpr int kCount = kKept<F>;
  ChannelSums<F::kChannels> moments;
  // region keep
  const Offsets<kCount> first = part.template offsets<kCount>(walk, 0, kCount);
  kept = Kept<F>(x, first.at);
  part.template shelved<kCount>(walk, kCount, [&](int j, const auto& offsets) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (offsets.at[i] >= 0) Shelf<F>::fetch(j + i, x + offsets.at[i]);
    }
    Shelf<F>::commit();
  });
  part.template others<kCount>(walk, kCount, [&](const auto& offsets) {
    add_vectors<F>(offsets.at, Kept<F>(x, offsets.at), moments);
  });
  add_vectors<F>(first.at, kept, moments);
  part.template shelved<kCount>(walk, kCount, [&](int j, const auto& offsets) {
    Shelf<F>::wait_but(steps_behind<kCount>(j, walk.shelf));
    add_vectors<F>(offsets.at, ShelfBatch<F>{j}, moments);
  });
  // end keep
  cluster_combine<F>(walk, moments, JoinMoments());
  Statistics<F> s;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    s.mean[k] = moments.first[k];
    var[k] = moments.second[k] / walk.count;
    s.inverse[k] = 1.0f / sqrtf(var[k] + walk.eps);
  }
  return s;
}

/// All that backward writes. gradient(offset, affine, x, dy) is what reaches the layer, before any relu
/// of its own: of the vectors x and dy, which lie at `offset`.
template <class F, class Gradient>
__device__ __forceinline__ void write_cluster_gradients(const Walk& walk,
                                                        const Backward<typename F::Value>& t,
                                                        Gradient gradient) {
  constexpr int kCount = kKept<F> / 2;
  using Values = Batch<F, kCount>;
  using OnShelf = ShelfBatch<F, 1, 2>;
  using GradientsOnShelf = ShelfBatch<F, 1, 2, 1>;
  const Part<F> part(walk);
  const Offsets<kCount> first = part.template offsets<kCount>(walk, 0, kCount);
  const Values kept(t.x, first.at), kept_dy(t.dy, first.at);
  part.template shelved<kCount>(walk, kCount, [&](int j, const auto& offsets) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (offsets.at[i] < 0) continue;
      Shelf<F>::fetch(2 * (j + i), t.x + offsets.at[i]);
      Shelf<F>::fetch(2 * (j + i) + 1, t.dy + offsets.at[i]);
    }
    Shelf<F>::commit();
  });

  const auto s = statistics_of_backward<F>(walk, t);
  const Affine<F> affine = affine_of<F>(walk, t, s);
  Sums sums[F::kChannels] = {};
  const auto add = [&](const auto& offsets, const auto& x, const auto& dy) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (offsets.at[i] < 0) continue;
      add_gradients<F>(x[i], gradient(offsets.at[i], affine, x[i], dy[i]), s, affine, sums);
    }
  };
  part.template others<kCount>(walk, kCount, [&](const auto& offsets) {
    add(offsets, Values(t.x, offsets.at), Values(t.dy, offsets.at));
  });
  add(first, kept, kept_dy);
  part.template shelved<kCount>(walk, kCount, [&](int j, const auto& offsets) {
    Shelf<F>::wait_but(steps_behind<kCount>(j, walk.shelf));
    add(offsets, OnShelf{j}, GradientsOnShelf{j});
  });
  ChannelSums<F::kChannels> totals = parts_of<F>(sums);
  cluster_combine<F>(walk, totals, AddSums());
  take_sums(totals, sums);
  const InputGradient<F> input_gradient(walk, t.training, s, affine, sums);
  keep_gradients<F>(walk, t, sums);
  if (t.dx != nullptr) {
    const auto write = [&](const auto& offsets, const auto& x, const auto& dy) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int offset = offsets.at[i];
        if (offset < 0) continue;
        store(t.dx + offset, input_gradient(x[i], gradient(offset, affine, x[i], dy[i])));
      }
    };
    write(first, kept, kept_dy);
    part.template shelved<kCount>(walk, kCount, [&](int j, const auto& offsets) {
      write(offsets, OnShelf{j}, GradientsOnShelf{j});
    });
    part.template others<kCount>(walk, kCount, [&](const auto& offsets) {
      write(offsets, Values(t.x, offsets.at), Values(t.dy, offsets.at));
    });
  }
  wait_for_readers(walk);
}

/// The walk of clusters, one block each. Rows that the registers of a block do not keep are cut into columns as
/// narrow as what L2 hands out at once, so that more clusters share the tensor.
inline Walk walk_in_clusters(const BatchNormProblem& problem, int v, int tensors) {
  constexpr int kLeastBytes = 32;
  Walk walk = walk_of(problem, false, v);
  if (in_planes(problem) || !has_clusters()) return walk;
  const int bytes = v * static_cast<int>(size_of(problem.dtype));
  const auto narrow = [&] {
    walk.lanes /= 2;
    walk.groups = ceil_div(walk.channels, walk.lanes * v);
  };
  while (walk.lanes * v > kMostColumns) narrow();
  while (walk.lanes * bytes > kLeastBytes && walk.groups * kMostBlocks < multiprocessor_count() &&
         walk.units > units_at_once(walk) * (vectors_kept(v) / tensors)) {
    narrow();
  }
  return walk;
}
/// In clusters, of a pass that keeps so many tensors, one or two, as vectors of v values.
inline Walk cluster_walk(const BatchNormProblem& problem, int v, int tensors) {
  const int kept = vectors_kept(v) / tensors;  // of each tensor in a thread's registers
  const Walk walk = walk_in_clusters(problem, v, tensors);
  return with_shelf(in_clusters(walk, units_at_once(walk) * kept), problem, v, kept, tensors);
}
/// Units that a block keeps in registers.
inline int units_kept(const BatchNormProblem& problem, int tensors) {
  const int v = vector_length(problem);
  return units_at_once(walk_of(problem, false)) * (vectors_kept(v) / tensors);
}

}  // namespace duet::batch_norm
