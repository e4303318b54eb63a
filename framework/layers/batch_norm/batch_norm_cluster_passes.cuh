// Both passes of batch normalisation by clusters whose threads keep their values in registers, for
// batch_norm's custom_cluster and for layers that do more with the values on their way.
#pragma once

#include "layers/batch_norm/batch_norm_cluster.cuh"

namespace duet::batch_norm {

/// Vectors that a thread keeps of x; in backward it keeps half as many of x and of dy.
template <class F>
constexpr int kKept = F::V == 4 ? 8 : 16;

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

  /// The first `count` vectors, which stay in registers: visit(i, offset).
  template <int count, class Visit>
  __device__ __forceinline__ void kept(const Walk& walk, Visit visit) const {
    if (!inside) return;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int unit = first + i * step;
      if (unit < walk.units) visit(i, offset(walk, unit));
    }
  }
  /// The others, which are read each time: visit(offset).
  template <int count, class Visit>
  __device__ __forceinline__ void others(const Walk& walk, Visit visit) const {
    if (!inside) return;
#pragma unroll 4
    for (int unit = first + count * step; unit < walk.units; unit += step) {
      visit(offset(walk, unit));
    }
  }
};

/// The statistics of the batch, of which `kept` are the thread's first values. REQUIRES: the block then
/// comes to wait_for_readers().
template <class F>
__device__ __forceinline__ Statistics<F> statistics_of_cluster(
    const Walk& walk, const Part<F>& part, const typename F::Value* x,
    Vector<float, F::V> (&kept)[kKept<F>], float (&var)[F::kChannels]) {
  constexpr int kCount = kKept<F>;
  using Values = Vector<float, F::V>;
  __shared__ ClusterSum<F, float> total, total_squares;
  const auto plus = [](float a, float b) { return a + b; };

  float sums[F::kChannels] = {};
  const auto add_sum = [&](const Values& values) {
#pragma unroll
    for (int k = 0; k < F::V; ++k) sums[F::channel_of(k)] += values.v[k];
  };
  // region keep
  part.template kept<kCount>(walk, [&](int i, int offset) { kept[i] = load<F::V>(x + offset); });
  part.template others<kCount>(walk, [&](int offset) { add_sum(load_constant<F::V>(x + offset)); });
  part.template kept<kCount>(walk, [&](int i, int) { add_sum(kept[i]); });
  // end keep
  total(walk, sums, plus);
  Statistics<F> s;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) s.mean[k] = sums[k] / walk.count;

  float squares[F::kChannels] = {};
  const auto add_squares = [&](const Values& values) {
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const float difference = values.v[k] - s.mean[F::channel_of(k)];
      squares[F::channel_of(k)] += difference * difference;
    }
  };
  part.template kept<kCount>(walk, [&](int i, int) { add_squares(kept[i]); });
  part.template others<kCount>(walk,
                               [&](int offset) { add_squares(load_constant<F::V>(x + offset)); });
  total_squares(walk, squares, plus);
  done_reading(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    var[k] = squares[k] / walk.count;
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
  using Values = Vector<float, F::V>;
  __shared__ ClusterSum<F, Sums> total;
  const Part<F> part(walk);
  Values x[kCount], dy[kCount];
  part.template kept<kCount>(walk, [&](int i, int offset) {
    x[i] = load<F::V>(t.x + offset);
    dy[i] = load<F::V>(t.dy + offset);
  });

  const auto s = statistics_of_backward<F>(walk, t);
  const Affine<F> affine = affine_of<F>(walk, t, s);
  Sums sums[F::kChannels];
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) sums[k] = {0.0f, 0.0f};
  const auto add_other = [&](int offset, const Values& x, const Values& dy) {
    add_gradients<F>(x, gradient(offset, affine, x, dy), s, affine, sums);
  };
  part.template kept<kCount>(walk, [&](int i, int offset) {
    dy[i] = gradient(offset, affine, x[i], dy[i]);
    add_gradients<F>(x[i], dy[i], s, affine, sums);
  });
  part.template others<kCount>(walk, [&](int offset) {
    add_other(offset, load_constant<F::V>(t.x + offset), load_constant<F::V>(t.dy + offset));
  });
  total(walk, sums, add);
  done_reading(walk);
  const InputGradient<F> input_gradient(walk, t.training, s, affine, sums);
  keep_gradients<F>(walk, t, sums);
  if (t.dx != nullptr) {
    const auto write = [&](int offset, const Values& x, const Values& dy) {
      store_pairs(t.dx + offset, input_gradient(x, gradient(offset, affine, x, dy)));
    };
    part.template kept<kCount>(
        walk, [&](int i, int offset) { store_pairs(t.dx + offset, input_gradient(x[i], dy[i])); });
    part.template others<kCount>(walk, [&](int offset) {
      write(offset, load_constant<F::V>(t.x + offset), load_constant<F::V>(t.dy + offset));
    });
  }
  wait_for_readers(walk);
}

/// Units that a block keeps in registers of each of so many tensors, one or two.
inline int units_kept(const BatchNormProblem& problem, int tensors) {
  const int vectors = vector_length(problem) == 4 ? kKept<Form<float, true, 4, false>>
                                                  : kKept<Form<float, true, 1, false>>;
  return units_at_once(walk_of(problem, false)) * vectors / tensors;
}
/// In clusters, of a pass that keeps so many tensors.
inline Walk cluster_walk(const BatchNormProblem& problem, int tensors) {
  return in_clusters(walk_of(problem, false), units_kept(problem, tensors));
}
/// Of the same: registers keep it all.
inline bool cluster_keeps(const BatchNormProblem& problem, int tensors) {
  return walk_of(problem, false).units <= most_blocks() * units_kept(problem, tensors);
}

}  // namespace duet::batch_norm
