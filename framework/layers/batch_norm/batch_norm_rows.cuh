// Both looks of batch normalisation where channels are innermost (NHWC, N x F) in one launch. A channel's
// values then lie all over the tensor, so that the first look is over everywhere before any second begins:
// the whole GPU is what keeps values between the two. A block holds a part of its rows in registers and in
// shared memory (batch_norm_shelf.cuh); of the others it reads the last first, which L2 still has.
//
// Nobody waits for blocks that have not started: a block takes splits until all are taken (kernels/turns.cuh),
// each by a block that runs and ends its first look without waiting.
#pragma once

#include "layers/batch_norm/batch_norm_shelf.cuh"
#include "layers/batch_norm/batch_norm_turns.cuh"

namespace duet::batch_norm {

inline constexpr int kRowBlocks = 2;               // of a multiprocessor at once
inline constexpr int kRowBytes = 512;              // of neighbouring channels of a block, at most
inline constexpr int kMostColumns = 128;           // channels of a block
inline constexpr int kRowShelfBytes = 100 * 1024;  // of a block on Hopper
inline constexpr int kRowOtherBytes = 14 * 1024;   // of a block beside its shelf

/// Vectors of V channels that a thread has under way at once; the last of them it holds.
constexpr int row_vectors(int v) { return v == 1 ? 16 : v == 8 ? 6 : 8; }
/// The same in units of so many vectors.
constexpr int units_under_way(int v, int vectors) {
  return row_vectors(v) > vectors ? row_vectors(v) / vectors : 1;
}

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

/// How a pass is cut. A thread's units are counted from 0: the first `walk.shelf` are on the shelf, those from
/// `held` on in registers.
struct Rows {
  Walk walk;
  int units;  // of a thread
  int held;   // the first in registers
  // The workspace:
  float2* partial =
      nullptr;  // [splits + 1][channels]: the parts of two sums, then of backward both sums
  float* counts = nullptr;  // [groups][splits]: values of a channel that a part is of
  int* before = nullptr;    // [groups][splits]: which split its block took before
};

/// A thread's units in the block's split.
template <class F>
struct RowPart {
  int first, step, end;
  int channel;

  __device__ __forceinline__ explicit RowPart(const Walk& walk)
      : first(walk.split() * walk.units_per_split + static_cast<int>(threadIdx.x) / walk.lanes),
        step(kThreads / walk.lanes),
        end(min((walk.split() + 1) * walk.units_per_split, walk.units)),
        channel(first_channel<F>(walk)) {
    if (channel >= walk.channels) end = 0;
  }
};

/// Where the vectors of `count` units lie, of x and of y or dy; -1 where there is none.
template <class F, class Units, int count>
struct UnitPlaces {
  int x[count * Units::kParts], y[count];

  /// Of units j and following, as far as they are of [begin, last).
  __device__ __forceinline__ UnitPlaces(const Units& units, const RowPart<F>& part, int j,
                                        int begin, int last) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int unit = part.first + (j + i) * part.step;
      y[i] = -1;
#pragma unroll
      for (int k = 0; k < Units::kParts; ++k) x[i * Units::kParts + k] = -1;
      if (j + i < begin || j + i >= last || unit >= part.end) continue;
      units.place(part.channel, unit, x + i * Units::kParts, y[i]);
    }
  }
};

/// A unit is a vector of a row, and y or dy has one where x has: batch normalisation alone, or with relu.
template <class F>
struct PlainUnits {
  static constexpr int kParts = 1;
  int channels;

  __device__ __forceinline__ void place(int channel, int unit, int* x, int& y) const {
    *x = y = unit * channels + channel;
  }
  template <class Values>
  __device__ __forceinline__ void write_y(const Forward<typename F::Value>& t, const int* at, int,
                                          const Values& x, int i, const Affine<F>& affine) const {
    if (*at >= 0) store_streaming(t.y + *at, normalised<F>(x[i], affine));
  }
  template <class Values>
  __device__ __forceinline__ void add(const Values& x, int i, const Vector<float, F::V>& dy,
                                      const Statistics<F>& s, const Affine<F>& affine,
                                      Sums (&sums)[F::kChannels]) const {
    add_gradients<F>(x[i], dy, s, affine, sums);
  }
  template <class Values>
  __device__ __forceinline__ void write_dx(const Backward<typename F::Value>& t, const int* at,
                                           const Values& x, int i, const Vector<float, F::V>& dy,
                                           const InputGradient<F>& gradient) const {
    if (*at >= 0) store_streaming(t.dx + *at, gradient(x[i], dy));
  }
};

/// Starts the copies of the block's first units to the shelf, in steps of `count` units, the last perhaps shorter. A unit
/// has so many `places` there: those of x, and where they are more than its parts, one of dy.
template <int count, int places, class F, class Units, class T>
__device__ __forceinline__ void fetch_shelf(const Walk& walk, const Units& units,
                                            const RowPart<F>& part, const T* x,
                                            [[maybe_unused]] const T* dy = nullptr) {
  constexpr int kParts = Units::kParts;
  for (int j = 0; j < walk.shelf; ++j) {
    const UnitPlaces<F, Units, 1> at(units, part, j, 0, walk.shelf);
#pragma unroll
    for (int k = 0; k < kParts; ++k) {
      if (at.x[k] >= 0) Shelf<F>::fetch(j * places + k, x + at.x[k]);
    }
    if constexpr (places > kParts) {
      if (at.y[0] >= 0) Shelf<F>::fetch(j * places + kParts, dy + at.y[0]);
    }
    if (j % count == count - 1 || j == walk.shelf - 1) commit_fetches();
  }
}
/// How many steps follow that which begins at unit j.
template <int count>
__device__ __forceinline__ int steps_behind(int j, int units) {
  return (units - 1 - j) / count;
}

/// Of units from the j-th on the shelf, which have `places` each there: `parts` of them from `from`.
template <class F, int parts, int places, int from = 0>
struct ShelfBatch {
  int j;
  __device__ __forceinline__ Vector<float, F::V> operator[](int i) const {
    return Shelf<F>::get((j + i / parts) * places + i % parts + from);
  }
};

/// Calls first(ask) for every split that the block takes, with walk.turn set, and then second(held) for each
/// of them: the last taken, which the block holds, is the first. first() calls ask() once where it needs no more of
/// the split than its own registers: the number of the next turn is then on its way while sums are combined.
template <class First, class Second>
__device__ __forceinline__ void in_two_looks(const Rows& rows, const Turns& turns, Walk& walk,
                                             First first, Second second) {
  int taken = -1;
  unsigned number = turns.ask();
  for (;;) {
    const Turn turn = turns.take(number);
    if (turn.second) break;
    walk.turn = turn;
    const int split = turn.group * walk.splits + turn.split;
    if (threadIdx.x == 0) rows.before[split] = taken;
    taken = split;
    first([&] {
      if (turns.twice) number = turns.ask();
    });
    if (!turns.twice) return;
  }
  __syncthreads();  // `before` is written
  for (bool held = true; taken >= 0; held = false) {
    walk.turn = {true, taken / walk.splits, taken % walk.splits};
    second(held);
    taken = rows.before[taken];
  }
}

/// Two sums of each of so many channels, whose values are equally many.
template <int channels>
struct RowSums {
  float count = 0.0f;
  float first[channels] = {}, second[channels] = {};
};
/// Plain ones: of dy, and of dy * z.
struct AddRows {
  template <int channels>
  __device__ __forceinline__ void operator()(RowSums<channels>& a,
                                             const RowSums<channels>& b) const {
#pragma unroll
    for (int k = 0; k < channels; ++k) {
      a.first[k] += b.first[k];
      a.second[k] += b.second[k];
    }
  }
};
/// Means, and sums of the squares of what differs from them, as joined() has them: with one division for all.
struct JoinRows {
  template <int channels>
  __device__ __forceinline__ void operator()(RowSums<channels>& a,
                                             const RowSums<channels>& b) const {
    const float count = a.count + b.count, share = count > 0.0f ? b.count / count : 0.0f;
    const float weight = a.count * share;
#pragma unroll
    for (int k = 0; k < channels; ++k) {
      const float difference = b.first[k] - a.first[k];
      a.first[k] += difference * share;
      a.second[k] += b.second[k] + difference * weight * difference;
    }
    a.count = count;
  }
};

/// Adds the vectors of x to the moments of the thread's channels.
template <class F, class Values, int count>
__device__ __forceinline__ void add_vectors(const int (&offsets)[count], const Values& x,
                                            RowSums<F::kChannels>& moments) {
  RowSums<F::kChannels> batch;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (offsets[i] < 0) continue;
    batch.count += 1.0f;
    const Vector<float, F::V> values = x[i];
#pragma unroll
    for (int k = 0; k < F::V; ++k) batch.first[k] += values.v[k];
  }
  const float share = batch.count > 0.0f ? 1.0f / batch.count : 0.0f;
#pragma unroll
  for (float& sum : batch.first) sum *= share;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (offsets[i] < 0) continue;
    const Vector<float, F::V> values = x[i];
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const float difference = values.v[k] - batch.first[k];
      batch.second[k] += difference * difference;
    }
  }
  JoinRows()(moments, batch);
}

/// Combines what the block's threads have of their channels; thread t gets channel t of the block.
template <class F, class Combine>
__device__ __forceinline__ RowSums<1> combine_columns(const Walk& walk,
                                                      RowSums<F::kChannels>& values,
                                                      Combine combine) {
  constexpr int kColumns = F::V == 1 ? 32 : kMostColumns;
  __shared__ float2 sums[kCombineWarps][kColumns];
  __shared__ float counts[kCombineWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int step = walk.lanes; step < 32; step *= 2) {
    const auto other = shuffle_xor(values, step);
    combine(values, other);
  }
  __syncthreads();  // they may still be read from the call before
  if (lane < walk.lanes) {
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) {
      sums[warp][lane * F::kChannels + k] = {values.first[k], values.second[k]};
    }
  }
  if (lane == 0) counts[warp] = values.count;
  __syncthreads();
  RowSums<1> sum;
  if (threadIdx.x < walk.lanes * F::kChannels) {
#pragma unroll
    for (int w = 0; w < kCombineWarps; ++w) {
      const float2 part = sums[w][threadIdx.x];
      combine(sum, RowSums<1>{counts[w], {part.x}, {part.y}});
    }
  }
  return sum;
}
/// The channel whose sum the thread has from combine_columns(), or -1.
template <class F>
__device__ __forceinline__ int column_channel(const Walk& walk) {
  const int columns = walk.lanes * F::kChannels, thread = static_cast<int>(threadIdx.x);
  const int c = walk.group() * columns + thread;
  return thread < columns && c < walk.channels ? c : -1;
}

/// Of the thread's channels, past L1: another block of this launch may have written them. REQUIRES: `from` is a
/// multiple of F::kChannels from the start of an array.
template <class F>
__device__ __forceinline__ void load_columns(const float2* from, RowSums<F::kChannels>& sums) {
  if constexpr (F::kChannels == 1) {
    const float2 sum = __ldcg(from);
    sums.first[0] = sum.x;
    sums.second[0] = sum.y;
  } else {
#pragma unroll
    for (int k = 0; k < F::kChannels; k += 2) {
      const float4 two = __ldcg(reinterpret_cast<const float4*>(from + k));
      sums.first[k] = two.x;
      sums.second[k] = two.y;
      sums.first[k + 1] = two.z;
      sums.second[k + 1] = two.w;
    }
  }
}

/// Leaves the block's part of two sums in the workspace, and in the last block of the group calls
/// done(channel, sum) for each of its channels, of all parts; then the group is open, and it calls behind(channel, sum),
/// for what nobody waits for.
template <class F, class Combine, class Done, class Behind>
__device__ __forceinline__ void combine_rows(const Rows& rows, const Walk& walk, const Turns& turns,
                                             RowSums<F::kChannels>& values, Combine combine,
                                             Done done, Behind behind) {
  const RowSums<1> part = combine_columns<F>(walk, values, combine);
  const int column = column_channel<F>(walk);
  if (column >= 0) {
    rows.partial[walk.split() * walk.channels + column] = {part.first[0], part.second[0]};
  }
  float* const counts = rows.counts + walk.group() * walk.splits;
  if (threadIdx.x == 0) counts[walk.split()] = part.count;
  if (!turns.is_last(walk.group())) return;

  constexpr int kTogether = F::V == 8 ? 4 : F::V == 4 ? 6 : 8;  // on their way
  const int c = first_channel<F>(walk), step = kThreads / walk.lanes;
  RowSums<F::kChannels> all;
  for (int split = static_cast<int>(threadIdx.x) / walk.lanes; split < walk.splits;
       split += kTogether * step) {
    RowSums<F::kChannels> parts[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int at = split + i * step;
      if (at >= walk.splits || c >= walk.channels) continue;
      parts[i].count = __ldcg(counts + at);
      load_columns<F>(rows.partial + at * walk.channels + c, parts[i]);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) combine(all, parts[i]);
  }
  const RowSums<1> sum = combine_columns<F>(walk, all, combine);
  if (column >= 0) done(column, sum);
  turns.open(walk.group());
  if (column >= 0) behind(column, sum);
}

/// Training's forward.
template <class F, class Units>
__device__ __forceinline__ void normalise_rows(const Rows& rows, const Turns& turns,
                                               const Forward<typename F::Value>& t,
                                               const Units& units) {
  constexpr int kParts = Units::kParts, kCount = units_under_way(F::V, kParts);
  using Places = UnitPlaces<F, Units, kCount>;
  using Values = Batch<F, kCount * kParts>;
  using OnShelf = ShelfBatch<F, kParts, kParts>;
  Walk walk = rows.walk;
  Values kept;
  const auto first = [&](auto ask) {
    const RowPart<F> part(walk);
    fetch_shelf<kCount, kParts>(walk, units, part, t.x);
    RowSums<F::kChannels> moments;
    for (int j = walk.shelf; j < rows.held; j += kCount) {
      const Places at(units, part, j, 0, rows.held);
      add_vectors<F>(at.x, Values(t.x, at.x), moments);
    }
    const Places last(units, part, rows.held, 0, rows.units);
    kept = Values(t.x, last.x);  // on their way while those of the shelf are added
    for (int j = 0; j < walk.shelf; j += kCount) {
      wait_for_fetches(steps_behind<kCount>(j, walk.shelf));
      const Places at(units, part, j, 0, walk.shelf);
      add_vectors<F>(at.x, OnShelf{j}, moments);
    }
    add_vectors<F>(last.x, kept, moments);
    ask();
    const auto var = [&](const RowSums<1>& all) { return all.second[0] / walk.count; };
    combine_rows<F>(
        rows, walk, turns, moments, JoinRows(),
        [&](int c, const RowSums<1>& all) {
          keep_state(walk, t, c, all.first[0], 1.0f / sqrtf(var(all) + walk.eps));
        },
        [&](int c, const RowSums<1>& all) { keep_buffers(walk, t, c, all.first[0], var(all)); });
  };
  in_two_looks(rows, turns, walk, first, [&](bool held) {
    const RowPart<F> part(walk);
    turns.wait(walk.group());
    const Affine<F> affine = affine_of<F>(walk, t, kept_statistics<F>(walk, t.state));
    const auto write = [&](const Places& at, const auto& x) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        units.write_y(t, at.x + i * kParts, at.y[i], x, i * kParts, affine);
      }
    };
    if (held) {
      write(Places(units, part, rows.held, 0, rows.units), kept);
      for (int j = 0; j < walk.shelf; j += kCount) {
        write(Places(units, part, j, 0, walk.shelf), OnShelf{j});
      }
    }
    const int begin = held ? walk.shelf : 0, end = held ? rows.held : rows.units;
    for (int j = end - kCount; j > begin - kCount; j -= kCount) {
      const Places at(units, part, j, begin, end);
      write(at, Values(t.x, at.x));
    }
  });
}

/// Backward: dweight and dbias by first looks, dx by second ones.
template <class F, class Units>
__device__ __forceinline__ void find_row_gradients(const Rows& rows, const Turns& turns,
                                                   const Backward<typename F::Value>& t,
                                                   const Units& units) {
  constexpr int kParts = Units::kParts, kPlaces = kParts + 1;
  constexpr int kCount = units_under_way(F::V, kPlaces);
  using Places = UnitPlaces<F, Units, kCount>;
  using Values = Batch<F, kCount * kParts>;
  using Gradients = Batch<F, kCount>;
  using OnShelf = ShelfBatch<F, kParts, kPlaces>;
  using GradientsOnShelf = ShelfBatch<F, 1, kPlaces, kParts>;
  Walk walk = rows.walk;
  Values kept;
  Gradients kept_dy;
  const auto first = [&](auto ask) {
    const RowPart<F> part(walk);
    fetch_shelf<kCount, kPlaces>(walk, units, part, t.x, t.dy);
    const Statistics<F> s = statistics_of_backward<F>(walk, t);
    const Affine<F> affine = affine_of<F>(walk, t, s);
    Sums sums[F::kChannels] = {};
    const auto add_units = [&](const Places& at, const auto& x, const auto& dy) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (at.y[i] >= 0) units.add(x, i * kParts, dy[i], s, affine, sums);
      }
    };
    for (int j = walk.shelf; j < rows.held; j += kCount) {
      const Places at(units, part, j, 0, rows.held);
      const Values x(t.x, at.x);
      const Gradients dy(t.dy, at.y);
      add_units(at, x, dy);
    }
    const Places last(units, part, rows.held, 0, rows.units);
    kept = Values(t.x, last.x);
    kept_dy = Gradients(t.dy, last.y);
    for (int j = 0; j < walk.shelf; j += kCount) {
      wait_for_fetches(steps_behind<kCount>(j, walk.shelf));
      add_units(Places(units, part, j, 0, walk.shelf), OnShelf{j}, GradientsOnShelf{j});
    }
    add_units(last, kept, kept_dy);
    ask();
    RowSums<F::kChannels> parts;
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) {
      parts.first[k] = sums[k].dy;
      parts.second[k] = sums[k].product;
    }
    combine_rows<F>(
        rows, walk, turns, parts, AddRows(),
        [&](int c, const RowSums<1>& all) {
          rows.partial[walk.splits * walk.channels + c] = {all.first[0], all.second[0]};
        },
        [&](int c, const RowSums<1>& all) {
          if (t.dweight == nullptr) return;
          t.dweight[c] = all.second[0];
          t.dbias[c] = all.first[0];
        });
  };
  in_two_looks(rows, turns, walk, first, [&](bool held) {
    const RowPart<F> part(walk);
    const Statistics<F> s = statistics_of_backward<F>(walk, t);
    const Affine<F> affine = affine_of<F>(walk, t, s);
    turns.wait(walk.group());
    RowSums<F::kChannels> totals;
    if (part.channel < walk.channels) {
      load_columns<F>(rows.partial + walk.splits * walk.channels + part.channel, totals);
    }
    Sums sums[F::kChannels];
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) sums[k] = {totals.first[k], totals.second[k]};
    const InputGradient<F> gradient(walk, t.training, s, affine, sums);
    const auto write = [&](const Places& at, const auto& x, const auto& dy) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const Vector<float, F::V> of_unit = at.y[i] >= 0 ? dy[i] : Vector<float, F::V>{};
        units.write_dx(t, at.x + i * kParts, x, i * kParts, of_unit, gradient);
      }
    };
    if (held) {
      write(Places(units, part, rows.held, 0, rows.units), kept, kept_dy);
      for (int j = 0; j < walk.shelf; j += kCount) {
        write(Places(units, part, j, 0, walk.shelf), OnShelf{j}, GradientsOnShelf{j});
      }
    }
    const int begin = held ? walk.shelf : 0, end = held ? rows.held : rows.units;
    for (int j = end - kCount; j > begin - kCount; j -= kCount) {
      const Places at(units, part, j, begin, end);
      const Values x(t.x, at.x);
      const Gradients dy(t.dy, at.y);
      write(at, x, dy);
    }
  });
}

/// The cut of a pass of so many units, of each of which it keeps `vectors`; without a workspace.
inline Rows rows_of(const BatchNormProblem& problem, int units, int vectors) {
  const int v = row_vector_length(problem);
  const int bytes = v * static_cast<int>(size_of(problem.dtype));
  Walk walk = walk_of(problem, false);
  const bool cached = problem.x.bytes() <= l2_bytes() / 2;
  const int most = std::min({32, kMostColumns / v, (cached ? 128 : kRowBytes) / bytes});
  walk.lanes = 1;
  while (walk.lanes < most && walk.lanes * v < walk.channels) walk.lanes *= 2;
  walk.groups = ceil_div(walk.channels, walk.lanes * v);
  walk.units = units;
  const int step = kThreads / walk.lanes;
  const int blocks = std::max(kRowBlocks * multiprocessor_count() / walk.groups, 1);
  cut(walk, std::min(blocks, ceil_div(walk.units, step)));

  Rows rows = {.walk = walk, .units = ceil_div(walk.units_per_split, step), .held = 0};
  rows.held = std::max(rows.units - units_under_way(v, vectors), 0);
  const int of_multiprocessor = gpu_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  const int room = std::min(kRowShelfBytes, of_multiprocessor / kRowBlocks - kRowOtherBytes);
  const int of_unit = kThreads * bytes * vectors;
  rows.walk.shelf = std::min(rows.held, std::max(room, 0) / of_unit);
  rows.walk.shelf_bytes = rows.walk.shelf * of_unit;
  return rows;
}
/// Turns of which all first looks come before any second.
inline Turns turns_of(const Rows& rows, const TurnCounters& counters) {
  const Walk& walk = rows.walk;
  Turns turns(walk.groups, walk.splits, 1, counters.get());
  turns.lead = walk.groups * walk.splits;
  return turns;
}
inline size_t row_partial_bytes(const Walk& walk) {
  return static_cast<size_t>(walk.channels) * (walk.splits + 1) * sizeof(float2);
}
inline size_t row_workspace_bytes(const Rows& rows) {
  const Walk& walk = rows.walk;
  const size_t splits = static_cast<size_t>(walk.groups) * walk.splits;
  return row_partial_bytes(walk) + splits * (sizeof(float) + sizeof(int));
}

/// Queues kernel(rows, turns, arguments...), or of backward where nobody needs dx only its first looks.
template <class... Parameters>
void launch_rows(const Run& run, Rows rows, const TurnCounters& counters, bool twice,
                 void (*kernel)(Rows, Turns, Parameters...),
                 const std::type_identity_t<Parameters>&... arguments) {
  const Walk& walk = rows.walk;
  rows.partial = static_cast<float2*>(run.workspace);
  rows.counts =
      reinterpret_cast<float*>(static_cast<char*>(run.workspace) + row_partial_bytes(walk));
  rows.before = reinterpret_cast<int*>(rows.counts + walk.groups * walk.splits);
  if (walk.shelf > 0) {
    DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   walk.shelf_bytes));
  }
  const Turns turns = turns_of(rows, counters);
  launch_following(
      {turns.once().blocks(), kThreads, static_cast<size_t>(walk.shelf_bytes), run.stream()},
      kernel, rows, twice ? turns : turns.once(), arguments...);
}

/// For tables.
inline std::string rows_text(const Rows& rows) {
  const int splits = rows.walk.splits;
  std::string text = std::to_string(splits) + (splits == 1 ? " split" : " splits");
  if (rows.walk.shelf > 0) {
    text += ", " + std::to_string(rows.walk.shelf_bytes / 1024) + " KiB of shared memory a block";
  }
  return text;
}

}  // namespace duet::batch_norm
