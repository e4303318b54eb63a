// Both looks of batch normalisation where channels are innermost (NHWC, N x F) in one launch. A channel's
// values then lie all over the tensor, so that the first look is over everywhere before any second begins:
// the whole GPU is what keeps values between the two. A block holds a part of its rows in registers and in
// shared memory (a shelf, batch_norm_cluster.cuh); of the others it reads the last first, which L2 still has.
//
// Nobody waits for blocks that have not started: a block takes splits until all are taken (kernels/turns.cuh),
// each by a block that runs and ends its first look without waiting.
#pragma once

#include "layers/batch_norm/batch_norm_cluster.cuh"
#include "layers/batch_norm/batch_norm_turns.cuh"

namespace duet::batch_norm {

inline constexpr int kRowBlocks = 2;               // of a multiprocessor at once
inline constexpr int kRowBytes = 512;              // of neighbouring channels of a block, at most
inline constexpr int kMostColumns = 128;           // channels of a block
inline constexpr int kRowShelfBytes = 100 * 1024;  // of a block on Hopper
inline constexpr int kRowOtherBytes = 14 * 1024;   // of a block beside its shelf

/// Vectors of V channels that a thread has under way at once, the last of which it holds.
constexpr int row_vectors(int v) { return v == 1 ? 16 : v == 8 ? 6 : 8; }

/// Channels are moved 16 bytes at a time where their number allows it.
inline int row_vector_length(const BatchNormProblem& problem) {
  const int widest = 16 / static_cast<int>(size_of(problem.dtype));
  return problem.channels() % widest == 0 ? widest : vector_length(problem);
}
/// Calls visit(Form()) for the form of rows; F is that of with_form().
template <class F, class Visit>
void with_row_form(const BatchNormProblem& problem, Visit&& visit) {
  using Wide = Form<typename F::Value, false, kWidest<typename F::Value>, F::kRelu>;
  if constexpr (F::V > 1 && Wide::V != F::V) {
    if (row_vector_length(problem) == Wide::V) return visit(Wide());
  }
  visit(F());
}

/// For tables.
inline std::string row_form_text(const BatchNormProblem& problem) {
  const int v = row_vector_length(problem);
  return std::to_string(v) + (v == 1 ? " channel" : " channels") + " at a time";
}

/// What a block's splits are cut into. A thread's vectors are counted from 0: the first `walk.shelf` are on
/// the shelf, those from `held` on in registers.
struct Rows {
  Walk walk;
  int vectors;  // of a thread
  int held;     // the first in registers
  int* before;  // of every split: which its block took before
};

/// A thread's vectors in the block's split.
template <class F>
struct RowPart {
  int first, step, end;  // units
  int channel, channels;

  __device__ __forceinline__ explicit RowPart(const Walk& walk)
      : first(walk.split() * walk.units_per_split + static_cast<int>(threadIdx.x) / walk.lanes),
        step(kThreads / walk.lanes),
        end(min((walk.split() + 1) * walk.units_per_split, walk.units)),
        channel(first_channel<F>(walk)),
        channels(walk.channels) {
    if (channel >= channels) end = 0;
  }
  /// -1 where there is none.
  __device__ __forceinline__ int offset(int j) const {
    const int unit = first + j * step;
    return unit < end ? unit * channels + channel : -1;
  }
  /// Of vectors j and following, before `last`.
  template <int count>
  __device__ __forceinline__ void offsets(int j, int last, int (&offsets)[count]) const {
#pragma unroll
    for (int i = 0; i < count; ++i) offsets[i] = j + i < last ? offset(j + i) : -1;
  }
  /// Calls visit(j, offsets) for vectors [begin, last), so many at a time.
  template <int count, class Visit>
  __device__ __forceinline__ void for_each_batch(int begin, int last, Visit visit) const {
    for (int j = begin; j < last; j += count) {
      int of_batch[count];
      offsets(j, last, of_batch);
      visit(j, of_batch);
    }
  }
  /// The last first.
  template <int count, class Visit>
  __device__ __forceinline__ void for_each_batch_backwards(int begin, int last, Visit visit) const {
    for (int j = last - count; j > begin - count; j -= count) {
      int of_batch[count];
#pragma unroll
      for (int i = 0; i < count; ++i) of_batch[i] = j + i >= begin ? offset(j + i) : -1;
      visit(j, of_batch);
    }
  }
};

/// Every `stride`-th vector of the thread's shelf, from the j-th.
template <class F, int stride = 1>
struct ShelfBatch {
  int j;
  __device__ __forceinline__ Vector<float, F::V> operator[](int i) const {
    return Shelf<F>::get(stride * i + j);
  }
};

/// Calls first() for every split that the block takes, with walk.turn set, and then second(held) for each
/// of them: the last taken, which the block holds, is the first.
template <class First, class Second>
__device__ __forceinline__ void in_two_looks(const Rows& rows, const Turns& turns, Walk& walk,
                                             First first, Second second) {
  int taken = -1;
  for (;;) {
    const Turn turn = turns.take();
    if (turn.second) break;
    walk.turn = turn;
    const int number = turn.group * walk.splits + turn.split;
    if (threadIdx.x == 0) rows.before[number] = taken;
    taken = number;
    first();
    if (!turns.twice) return;
  }
  __syncthreads();  // `before` is written
  for (bool held = true; taken >= 0; held = false) {
    walk.turn = {true, taken / walk.splits, taken % walk.splits};
    second(held);
    taken = rows.before[taken];
  }
}

/// Combines what the block's threads have of their channels; thread t gets channel t of the block.
template <class F, class T, class Combine>
__device__ __forceinline__ T combine_columns(const Walk& walk, const T (&values)[F::kChannels],
                                             Combine combine) {
  constexpr int kColumns = F::V == 1 ? 32 : kMostColumns;
  __shared__ T warps[kCombineWarps][kColumns];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();  // `warps` may still be read from the call before
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    const T value = warp_combine(values[k], walk.lanes, combine);
    if (lane < walk.lanes) warps[warp][lane * F::kChannels + k] = value;
  }
  __syncthreads();
  T value = {};
  if (threadIdx.x < walk.lanes * F::kChannels) {
    value = warps[0][threadIdx.x];
#pragma unroll
    for (int w = 1; w < kCombineWarps; ++w) value = combine(value, warps[w][threadIdx.x]);
  }
  return value;
}
/// The channel whose sum the thread has from combine_columns(), or -1.
template <class F>
__device__ __forceinline__ int column_channel(const Walk& walk) {
  const int columns = walk.lanes * F::kChannels, thread = static_cast<int>(threadIdx.x);
  const int c = walk.group() * columns + thread;
  return thread < columns && c < walk.channels ? c : -1;
}

/// A T of each of the thread's channels, past L1: another block of this launch may have written them.
/// REQUIRES: `from` is a multiple of F::kChannels from the start of an array.
template <class F, class T>
__device__ __forceinline__ void load_columns(const T* from, T (&values)[F::kChannels]) {
  constexpr int kBytes = static_cast<int>(sizeof values);
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      reinterpret_cast<float4*>(values)[i] = __ldcg(reinterpret_cast<const float4*>(from) + i);
    }
  } else {
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) values[k] = load_partial(from + k);
  }
}

/// Leaves the block's part of a sum in `partial`, [splits][channels], and in the last block of the group calls
/// done(channel, sum) for each of its channels, of all parts; then the group is open.
template <class F, class T, class Combine, class Done>
__device__ __forceinline__ void combine_rows(const Walk& walk, const Turns& turns,
                                             const T (&values)[F::kChannels], T* partial,
                                             Combine combine, Done done) {
  const T part = combine_columns<F>(walk, values, combine);
  const int column = column_channel<F>(walk);
  if (column >= 0) partial[walk.split() * walk.channels + column] = part;
  if (!turns.is_last(walk.group())) return;

  constexpr int kSplits = F::V == 8 ? 2 : 4;  // on their way at once
  const int c = first_channel<F>(walk), step = kThreads / walk.lanes;
  T all[F::kChannels] = {};
  for (int split = static_cast<int>(threadIdx.x) / walk.lanes; split < walk.splits;
       split += kSplits * step) {
    T parts[kSplits][F::kChannels] = {};
#pragma unroll
    for (int i = 0; i < kSplits; ++i) {
      const int at = split + i * step;
      if (at < walk.splits && c < walk.channels) {
        load_columns<F>(partial + at * walk.channels + c, parts[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kSplits; ++i) {
#pragma unroll
      for (int k = 0; k < F::kChannels; ++k) all[k] = combine(all[k], parts[i][k]);
    }
  }
  const T sum = combine_columns<F>(walk, all, combine);
  if (column >= 0) done(column, sum);
  turns.open(walk.group());
}

/// Training's forward. write(offset, x, affine) is called for each vector.
template <class F, class Write>
__device__ __forceinline__ void normalise_rows(const Rows& rows, const Turns& turns,
                                               const Forward<typename F::Value>& t,
                                               Moments* partial, Write write) {
  constexpr int kCount = row_vectors(F::V);
  Walk walk = rows.walk;
  Batch<F, kCount> kept;
  const auto first = [&] {
    const RowPart<F> part(walk);
    Moments moments[F::kChannels] = {};
    for (int j = 0; j < walk.shelf; ++j) {
      if (part.offset(j) >= 0) Shelf<F>::fetch(j, t.x + part.offset(j));
    }
    part.template for_each_batch<kCount>(
        walk.shelf, rows.held, [&](int, const int(&offsets)[kCount]) {
          add_batch<F>(offsets, Batch<F, kCount>(t.x, offsets), moments);
        });
    int last[kCount];
    part.offsets(rows.held, rows.vectors, last);
    kept = Batch<F, kCount>(t.x, last);
    add_batch<F>(last, kept, moments);
    Shelf<F>::wait();
    part.template for_each_batch<kCount>(0, walk.shelf, [&](int j, const int(&offsets)[kCount]) {
      add_batch<F>(offsets, ShelfBatch<F>{j}, moments);
    });
    combine_rows<F>(walk, turns, moments, partial, joined, [&](int c, const Moments& all) {
      const float var = all.squares / walk.count;
      keep_channel(walk, t, c, all.mean, 1.0f / sqrtf(var + walk.eps), var);
    });
  };
  in_two_looks(rows, turns, walk, first, [&](bool held) {
    const RowPart<F> part(walk);
    turns.wait(walk.group());
    const Affine<F> affine = affine_of<F>(walk, t, kept_statistics<F>(walk, t.state));
    const auto write_batch = [&](const auto& offsets, const auto& x) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (offsets[i] >= 0) write(offsets[i], x[i], affine);
      }
    };
    if (held) {
      int last[kCount];
      part.offsets(rows.held, rows.vectors, last);
      write_batch(last, kept);
      part.template for_each_batch<kCount>(0, walk.shelf, [&](int j, const int(&offsets)[kCount]) {
        write_batch(offsets, ShelfBatch<F>{j});
      });
    }
    part.template for_each_batch_backwards<kCount>(
        held ? walk.shelf : 0, held ? rows.held : rows.vectors,
        [&](int, const int(&offsets)[kCount]) {
          write_batch(offsets, Batch<F, kCount>(t.x, offsets));
        });
  });
}

/// Backward: dweight and dbias by first looks, dx by second ones. `partial` has a row more than splits: the
/// sums over all.
template <class F>
__device__ __forceinline__ void find_row_gradients(const Rows& rows, const Turns& turns,
                                                   const Backward<typename F::Value>& t,
                                                   Sums* partial) {
  constexpr int kCount = row_vectors(F::V) / 2;
  Walk walk = rows.walk;
  Batch<F, kCount> kept_x, kept_dy;
  const auto first = [&] {
    const RowPart<F> part(walk);
    for (int j = 0; j < walk.shelf; ++j) {
      const int offset = part.offset(j);
      if (offset < 0) continue;
      Shelf<F>::fetch(2 * j, t.x + offset);
      Shelf<F>::fetch(2 * j + 1, t.dy + offset);
    }
    const Statistics<F> s = statistics_of_backward<F>(walk, t);
    const Affine<F> affine = affine_of<F>(walk, t, s);
    Sums sums[F::kChannels] = {};
    const auto add_batch = [&](const auto& offsets, const auto& x, const auto& dy) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (offsets[i] >= 0) add_gradients<F>(x[i], dy[i], s, affine, sums);
      }
    };
    part.template for_each_batch<kCount>(
        walk.shelf, rows.held, [&](int, const int(&offsets)[kCount]) {
          const Batch<F, kCount> x(t.x, offsets), dy(t.dy, offsets);
          add_batch(offsets, x, dy);
        });
    int last[kCount];
    part.offsets(rows.held, rows.vectors, last);
    kept_x = Batch<F, kCount>(t.x, last);
    kept_dy = Batch<F, kCount>(t.dy, last);
    add_batch(last, kept_x, kept_dy);
    Shelf<F>::wait();
    part.template for_each_batch<kCount>(0, walk.shelf, [&](int j, const int(&offsets)[kCount]) {
      add_batch(offsets, ShelfBatch<F, 2>{2 * j}, ShelfBatch<F, 2>{2 * j + 1});
    });
    combine_rows<F>(walk, turns, sums, partial, add, [&](int c, const Sums& all) {
      partial[walk.splits * walk.channels + c] = all;
      if (t.dweight == nullptr) return;
      t.dweight[c] = all.product;
      t.dbias[c] = all.dy;
    });
  };
  in_two_looks(rows, turns, walk, first, [&](bool held) {
    const RowPart<F> part(walk);
    const Statistics<F> s = statistics_of_backward<F>(walk, t);
    const Affine<F> affine = affine_of<F>(walk, t, s);
    turns.wait(walk.group());
    Sums sums[F::kChannels] = {};
    if (part.channel < walk.channels) {
      load_columns<F>(partial + walk.splits * walk.channels + part.channel, sums);
    }
    const InputGradient<F> gradient(walk, t.training, s, affine, sums);
    const auto write_batch = [&](const auto& offsets, const auto& x, const auto& dy) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (offsets[i] >= 0) store_streaming(t.dx + offsets[i], gradient(x[i], dy[i]));
      }
    };
    if (held) {
      int last[kCount];
      part.offsets(rows.held, rows.vectors, last);
      write_batch(last, kept_x, kept_dy);
      part.template for_each_batch<kCount>(0, walk.shelf, [&](int j, const int(&offsets)[kCount]) {
        write_batch(offsets, ShelfBatch<F, 2>{2 * j}, ShelfBatch<F, 2>{2 * j + 1});
      });
    }
    part.template for_each_batch_backwards<kCount>(
        held ? walk.shelf : 0, held ? rows.held : rows.vectors,
        [&](int, const int(&offsets)[kCount]) {
          const Batch<F, kCount> x(t.x, offsets), dy(t.dy, offsets);
          write_batch(offsets, x, dy);
        });
  });
}

/// The cut of a pass that reads so many tensors, one or two, without `before`.
inline Rows rows_of(const BatchNormProblem& problem, int tensors) {
  const int v = row_vector_length(problem);
  const int bytes = v * static_cast<int>(size_of(problem.dtype));
  Walk walk = walk_of(problem, false);
  const bool cached = problem.x.bytes() <= l2_bytes() / 2;
  const int most = std::min({32, kMostColumns / v,
                             (getenv("DUET_ROW_BYTES") ? atoi(getenv("DUET_ROW_BYTES"))
                              : cached                 ? 128
                                                       : kRowBytes) /
                                 bytes});
  walk.lanes = 1;
  while (walk.lanes < most && walk.lanes * v < walk.channels) walk.lanes *= 2;
  walk.groups = ceil_div(walk.channels, walk.lanes * v);
  const int step = kThreads / walk.lanes;
  const int blocks = std::max(kRowBlocks * multiprocessor_count() / walk.groups, 1);
  cut(walk, std::min(blocks, ceil_div(walk.units, step)));

  const int vectors = ceil_div(walk.units_per_split, step);
  const int kept = row_vectors(v) / tensors;
  const int held = std::max(vectors - kept, 0);
  const int of_multiprocessor = gpu_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  const int room = std::min(kRowShelfBytes, of_multiprocessor / kRowBlocks - kRowOtherBytes);
  walk.shelf =
      std::min(held, std::max(getenv("DUET_ROW_SHELF") ? atoi(getenv("DUET_ROW_SHELF")) : room, 0) /
                         (kThreads * bytes * tensors));
  walk.shelf_bytes = walk.shelf * kThreads * bytes * tensors;
  return {walk, vectors, held, nullptr};
}
/// Turns of which all first looks come before any second.
inline Turns turns_of(const Rows& rows, const TurnCounters& counters) {
  const Walk& walk = rows.walk;
  Turns turns(walk.groups, walk.splits, 1, counters.get());
  turns.lead = walk.groups * walk.splits;
  return turns;
}
inline size_t before_bytes(const Rows& rows) {
  return static_cast<size_t>(rows.walk.groups) * rows.walk.splits * sizeof(int);
}

}  // namespace duet::batch_norm
