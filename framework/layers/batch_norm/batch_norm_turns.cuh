// Batch normalisation's sums in turns (kernels/turns.cuh), each of what the threads of a block have under way
// at once: for batch_norm's custom_welford and for layers that do more with the values on their way.
#pragma once

#include "layers/batch_norm/batch_norm_moments.cuh"

namespace duet::batch_norm {

inline constexpr int kTurnBlocks = 3;  // of a multiprocessor at once; of 4 some spill registers

/// A first look: the moments of the block's part of x, and of the group's last the statistics.
template <class F>
__device__ __forceinline__ void find_statistics(Walk& walk, const Turns& turns,
                                                const Forward<typename F::Value>& t,
                                                Moments* partial) {
  keep_moments<F>(walk, t.x, partial);
  if (!turns.is_last(walk.group())) return;
  walk.turn.split = 0;  // whose block keeps what is found
  statistics_of_moments<F>(walk, partial, t);
  turns.open(walk.group());
}

/// All of backward, of the block's turn: dweight and dbias by first looks, dx by second ones.
/// gradient(offset, affine, x, dy) is what reaches the layer, before any relu of its own: of the
/// vectors x and dy, which lie at `offset`. `partial` has a row more than splits: the sums over all.
template <class F, class Gradient>
__device__ __forceinline__ void find_gradients(Walk& walk, const Turns& turns,
                                               const Backward<typename F::Value>& t, Sums* partial,
                                               Gradient gradient) {
  walk.turn = turns.take();
  const Statistics<F> s = statistics_of_backward<F>(walk, t);
  const Affine<F> affine = affine_of<F>(walk, t, s);
  Sums sums[F::kChannels] = {};
  constexpr int kCount = kTogether<F> / 2;
  if (!walk.turn.second) {
    for_each_batch<kCount, F>(walk, [&](const int(&offsets)[kCount]) {
      const Batch<F, kCount> x(t.x, offsets), dy(t.dy, offsets);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (offsets[i] < 0) continue;
        add_gradients<F>(x[i], gradient(offsets[i], affine, x[i], dy[i]), s, affine, sums);
      }
    });
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) sums[k] = block_combine(sums[k], walk.lanes, add);
    keep_partial<F>(walk, sums, partial);
    if (!turns.is_last(walk.group())) return;
    walk.turn.split = 0;  // whose block keeps what is found
    combine_partial<F>(walk, partial, add, sums);
    keep_gradients<F>(walk, t, sums);
    walk.turn.split = walk.splits;
    keep_partial<F>(walk, sums, partial);
    return turns.open(walk.group());
  }
  bool open = false;
  for_each_batch<kCount, F>(walk, [&](const int(&offsets)[kCount]) {
    const Batch<F, kCount> x(t.x, offsets), dy(t.dy, offsets);
    if (!open) {
      turns.wait(walk.group());
      const int c = first_channel<F>(walk);
#pragma unroll
      for (int k = 0; k < F::kChannels && c < walk.channels; ++k) {
        sums[k] = load_partial(partial + walk.splits * walk.channels + c + k);
      }
      open = true;
    }
    const InputGradient<F> input_gradient(walk, t.training, s, affine, sums);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (offsets[i] < 0) continue;
      store_streaming(t.dx + offsets[i],
                      input_gradient(x[i], gradient(offsets[i], affine, x[i], dy[i])));
    }
  });
}

/// A turn is what the threads of a block have under way at once, of one or two `tensors`; less where
/// that makes too few blocks.
inline Walk walk_of_turns(const BatchNormProblem& problem, int tensors) {
  constexpr int kMostSplits = 256;  // whose sums one block joins
  const int together = vector_length(problem) > 1 ? kTogether<Form<float, true, 4, false>>
                                                  : kTogether<Form<float, true, 1, false>>;
  Walk walk = walk_of(problem, false);
  const int step = kThreads / walk.lanes;
  const int fill =
      std::min(ceil_div(2 * multiprocessor_count(), walk.groups), ceil_div(walk.units, 2 * step));
  const int wanted = std::max(ceil_div(walk.units, together / tensors * step), fill);
  cut(walk, std::min(wanted, kMostSplits));
  return walk;
}
inline Turns turns_of(const BatchNormProblem& problem, const Walk& walk, int tensors,
                      const TurnCounters& counters) {
  const int64_t values = int64_t{walk.units_per_split} * walk.lanes * vector_length(problem);
  const auto bytes = static_cast<int64_t>(size_of(problem.dtype));
  return Turns(walk.groups, walk.splits, values * bytes * tensors, counters.get());
}

/// Of the workspace.
inline size_t moments_bytes(const Walk& walk) {
  return static_cast<size_t>(walk.channels) * walk.splits * sizeof(Moments);
}
inline size_t sums_bytes(const Walk& walk) {
  return static_cast<size_t>(walk.channels) * (walk.splits + 1) * sizeof(Sums);
}

}  // namespace duet::batch_norm
