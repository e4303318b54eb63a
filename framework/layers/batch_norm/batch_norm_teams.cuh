// Batch normalisation of planes whose channels are too large for a cluster: teams of blocks share them, the whole GPU
// at once, and read every value once.
//
// A block has its piece of each of its team's channels, one a round, in a ring of pieces in shared memory. While some
// are on their way from memory, the sums of one travel to the rest of the team, and one whose sums have all come is
// written and makes room: memory does not wait for sums. Those of the team are a warp's work beside the others, as what
// they take is a chain of waiting: 3.7 us a round on an H200 where all threads went through it.
//
// A block waits for the others of its team, so seats are given in the order in which blocks start: at most one team is
// not complete, and those that are end and make room for the rest of it.
#pragma once

#include <algorithm>
#include <optional>

#include "device/likely_multiprocessors.h"
#include "kernels/moment_parts.cuh"
#include "layers/batch_norm/batch_norm_kernels.cuh"
#include "layers/batch_norm/batch_norm_shelf.cuh"

namespace duet::batch_norm {

inline constexpr int kTeamBlocks = 2;              // of a multiprocessor at once
inline constexpr int kTeamRingBytes = 108 * 1024;  // of a block on Hopper
inline constexpr int kTeamOtherBytes = 4 * 1024;   // of a block beside its ring
inline constexpr int kMostPieces = 7;              // wait_for_fetches()
inline constexpr int kEnoughPieces = 4;            // on their way, summed and written
inline constexpr int kMostRounds = 64;
inline constexpr int kTeamThreads = kThreads + 32;  // the last warp has no units

/// Two sums of a piece as they travel to the team: each with the number of the launch, so that it is of this launch
/// if it says so. Zeros at first.
struct alignas(16) SentSums {
  uint64_t words[2];
};

/// How a pass is cut. Team i has channels i, i + teams ..., one a round; its blocks have walk.units_per_split units of
/// each, walk.splits blocks in all.
struct Teams {
  Walk walk;
  int teams, rounds;
  int units;   // of a thread in a piece
  int pieces;  // of a block's ring
  int lag;     // rounds from a piece's sums to its end
  int ring_bytes;
  unsigned* seats = nullptr;  // given out, of two launches
  SentSums* sent = nullptr;   // [channels][walk.splits]

  unsigned blocks() const { return static_cast<unsigned>(teams * walk.splits); }
};

/// What the blocks of one pass' teams write for each other, from launch to launch.
class TeamMemory {
 public:
  explicit TeamMemory(const Teams& teams)
      : memory_(Device::kGpu, sizeof(SentSums) * (1 + teams.walk.channels * teams.walk.splits)) {
    fill_bytes(memory_.data(), Device::kGpu, 0, memory_.bytes());
  }
  Teams of(Teams teams) const {
    auto* const sums = static_cast<SentSums*>(memory_.data());
    teams.seats = reinterpret_cast<unsigned*>(sums);
    teams.sent = sums + 1;
    return teams;
  }

 private:
  Buffer memory_;
};

/// Of a problem in planes; `unit_bytes` are those of a unit of every thread of a block. Nothing where a piece is more
/// than a ring holds, or half of the GPU would have none.
inline std::optional<Teams> teams_of(const Walk& walk, int unit_bytes) {
  const int blocks = kTeamBlocks * likely_multiprocessor_count();
  int room = kTeamRingBytes;
  if (gpu_available()) {
    const int all = gpu_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    room = std::min(room, all / kTeamBlocks - kTeamOtherBytes);
  }
  std::optional<Teams> best;
  const auto is_enough = [](const Teams& t) {
    return t.pieces >= std::min(t.rounds, kEnoughPieces);
  };
  for (int teams = std::min(walk.channels, blocks); teams >= 1; --teams) {
    Teams t = {.walk = walk, .teams = teams, .rounds = ceil_div(walk.channels, teams)};
    // Where up to four such kernels share the GPU, it is never full of teams that are not complete.
    const int most = std::min(blocks / teams, std::max(1, blocks / 4));
    t.walk.units_per_split = round_up(ceil_div(walk.units, most), 8);
    t.walk.splits = ceil_div(walk.units, t.walk.units_per_split);
    t.units = ceil_div(t.walk.units_per_split, kThreads);
    t.pieces = std::min({kMostPieces, t.rounds, room / (t.units * unit_bytes)});
    if (t.pieces < 1 || t.rounds > kMostRounds || 2 * t.teams * t.walk.splits < blocks) continue;
    t.lag = std::min(ceil_div(4, t.units), t.pieces / 2);
    t.ring_bytes = t.pieces * t.units * unit_bytes;
    const auto worse = [&](const Teams& other) {
      if (is_enough(other) != is_enough(t)) return is_enough(t);
      return other.rounds * other.units > t.rounds * t.units;
    };
    if (!best || worse(*best)) best = t;
  }
  return best;
}

/// Of a pass that keeps so many tensors of x's size. Nothing where planes are moved a value at a time, too.
inline std::optional<Teams> plane_teams(const BatchNormProblem& problem, int tensors) {
  const int v = vector_length(problem);
  if (!in_planes(problem) || v == 1) return {};
  return teams_of(walk_of(problem, false),
                  kThreads * v * static_cast<int>(size_of(problem.dtype)) * tensors);
}

/// For tables.
inline std::string teams_text(const Teams& teams) {
  return std::to_string(teams.teams) + (teams.teams == 1 ? " team of " : " teams of ") +
         std::to_string(teams.walk.splits) + (teams.walk.splits == 1 ? " block, " : " blocks, ") +
         std::to_string(teams.ring_bytes / 1024) + " KiB of shared memory each";
}

template <class... Parameters>
void launch_teams(const Teams& teams, cudaStream_t stream, void (*kernel)(Teams, Parameters...),
                  const std::type_identity_t<Parameters>&... arguments) {
  DUET_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, teams.ring_bytes));
  launch_following({teams.blocks(), kTeamThreads, static_cast<size_t>(teams.ring_bytes), stream},
                   kernel, teams, arguments...);
}

// Device code.

__device__ __forceinline__ void send(SentSums* to, float first, float second, unsigned launch) {
  const auto word = [&](float sum) { return uint64_t{launch} << 32 | __float_as_uint(sum); };
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(word(first)),
               "l"(word(second))
               : "memory");
}
/// What is there now.
__device__ __forceinline__ SentSums look_for(const SentSums* from) {
  SentSums sums;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(sums.words[0]), "=l"(sums.words[1])
               : "l"(from)
               : "memory");
  return sums;
}
__device__ __forceinline__ bool has_come(const SentSums& sums, unsigned launch) {
  return sums.words[0] >> 32 == launch && sums.words[1] >> 32 == launch;
}

/// A unit is a vector of a plane, and y or dy has one where x has: batch normalisation alone, or with relu. `places` are
/// those of a block's unit in the ring: of x, and behind them of dy.
template <class F>
struct PlaneVectors {
  using Value = typename F::Value;
  using Values = Vector<float, F::V>;
  static constexpr int kValues = F::V;                                   // of x
  static constexpr int kBytes = sizeof(Value) * F::V;                    // of a thread
  static constexpr int kXBytes = kThreads * kBytes, kDyBytes = kXBytes;  // of a block
  const Walk& walk;

  __device__ __forceinline__ int place(int channel, int unit) const {
    int plane, at;
    walk.by_vectors.divmod(unit, plane, at);
    return (plane * walk.channels + channel) * walk.inner + at * F::V;
  }
  __device__ __forceinline__ void fetch_x(char* places, const Value* x, int at) const {
    fetch_async<kBytes>(places + threadIdx.x * kBytes, x + at);
  }
  __device__ __forceinline__ void fetch_dy(char* places, const Value* dy, int at) const {
    fetch_x(places + kXBytes, dy, at);
  }
  static __device__ __forceinline__ Values x(const char* places) {
    return widened_pairs<Value, F::V>(
        *reinterpret_cast<const WordOf<kBytes>*>(places + threadIdx.x * kBytes));
  }
  static __device__ __forceinline__ Values dy(const char* places) { return x(places + kXBytes); }
  template <class Visit>
  static __device__ __forceinline__ void for_each(const Values& x, Visit visit) {
#pragma unroll
    for (int k = 0; k < F::V; ++k) visit(x.v[k]);
  }
  static __device__ __forceinline__ void add(const char* places, const Statistics<F>& s,
                                             const Affine<F>& affine, Sums (&sums)[1]) {
    add_gradients<F>(x(places), dy(places), s, affine, sums);
  }
  __device__ __forceinline__ void write_y(Value* y, int at, const Values& x,
                                          const Affine<F>& affine) const {
    store_pairs(y + at, normalised<F>(x, affine));
  }
  __device__ __forceinline__ void write_dx(Value* dx, int at, const char* places,
                                           const InputGradient<F>& gradient) const {
    store_pairs(dx + at, gradient(x(places), dy(places)));
  }
};

/// A block's place in its team, and its rounds; unit_bytes are those of a unit of the block.
template <class Units, int unit_bytes>
struct TeamRounds {
  const Teams& t;
  const Units& units;
  unsigned launch;  // 1 or 2
  int team, split;
  int first, end;  // the thread's units

  __device__ __forceinline__ TeamRounds(const Teams& t, const Units& units) : t(t), units(units) {
    __shared__ unsigned number;
    if (threadIdx.x == 0) number = atomicInc(t.seats, 2 * gridDim.x - 1);
    __syncthreads();
    launch = number < gridDim.x ? 1 : 2;
    const int seat = static_cast<int>(number - (launch - 1) * gridDim.x);
    team = seat / t.walk.splits;
    split = seat % t.walk.splits;
    first = split * t.walk.units_per_split + static_cast<int>(threadIdx.x);
    end = min((split + 1) * t.walk.units_per_split, t.walk.units);
  }
  __device__ __forceinline__ int channel(int round) const { return round * t.teams + team; }
  __device__ __forceinline__ bool has(int round) const {
    return round < t.rounds && channel(round) < t.walk.channels;
  }
  /// What is found of a channel is kept by one of its blocks.
  __device__ __forceinline__ bool keeps(int round) const { return split == round % t.walk.splits; }
  /// Of a split's piece.
  __device__ __forceinline__ float values_of(int split) const {
    const int begin = split * t.walk.units_per_split;
    return static_cast<float>(min(t.walk.units_per_split, t.walk.units - begin) * Units::kValues);
  }
  /// A channel's piece, and where it is in the ring.
  struct Piece {
    int number;  // of its round
    char* places;
  };
  __device__ __forceinline__ static char* ring() {
    extern __shared__ float4 ring_of_block[];
    return reinterpret_cast<char*>(ring_of_block);
  }
  __device__ __forceinline__ Piece next(const Piece& piece) const {
    char* const places = piece.places + t.units * unit_bytes;
    return {piece.number + 1, places == ring() + t.ring_bytes ? ring() : places};
  }
  /// Calls visit(places, place) for the thread's units: where they are in the ring, and in memory.
  template <class Visit>
  __device__ __forceinline__ void for_each(const Piece& piece, Visit visit) const {
    const int c = channel(piece.number);
    char* places = piece.places;
#pragma unroll 4
    for (int unit = first; unit < end; unit += kThreads, places += unit_bytes) {
      visit(places, units.place(c, unit));
    }
  }
  /// fetch(places, place) starts the copies of a unit; open(round) is called by one thread before the round; look(piece)
  /// waits for the piece by await(), and sends its sums. The last warp calls tell(round), which waits for the sums of all
  /// the team by of_team(), the others then finish(piece).
  template <class Fetch, class Open, class Look, class Tell, class Finish>
  __device__ __forceinline__ void run(Fetch fetch, Open open, Look look, Tell tell,
                                      Finish finish) const {
    const bool tells = threadIdx.x >= kThreads;
    const auto start = [&](const Piece& piece) {
      if (has(piece.number)) for_each(piece, fetch);
      commit_fetches();
    };
    Piece piece = {0, ring()}, done = piece;
    for (int i = 0; i < t.pieces && !tells; ++i, piece = next(piece)) start(piece);
    if (has(threadIdx.x)) open(threadIdx.x);
    __syncthreads();
    if (tells) {
      for (int round = 0; has(round); ++round) tell(round);
      return;
    }
    // region rounds
    for (piece = done; piece.number < t.rounds + t.lag; piece = next(piece)) {
      if (has(piece.number)) look(piece);
      if (piece.number < t.lag) continue;
      if (has(done.number)) {
        wait_until_told(done.number);
        finish(done);
      }
      start({done.number + t.pieces, done.places});
      done = next(done);
    }
    // end rounds
  }
  /// Each of its own: no more than lag + 1 rounds are told and not finished.
  __device__ __forceinline__ static int barrier_of(int round) { return 2 + round % 8; }
  __device__ __forceinline__ static void told(int round) {
    __syncwarp();
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier_of(round)), "n"(kTeamThreads) : "memory");
  }
  __device__ __forceinline__ static void wait_until_told(int round) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier_of(round)), "n"(kTeamThreads) : "memory");
  }
  __device__ __forceinline__ void await(int round) const {
    wait_for_fetches(t.pieces - 1 - min(round, t.lag));
  }
  __device__ __forceinline__ void send_sums(int round, float one, float two) const {
    if (threadIdx.x == 0) {
      send(t.sent + channel(round) * t.walk.splits + split, one, two, launch);
    }
  }
  /// All that the team sent, combined in the order of its blocks, in the first lane of the warp that calls;
  /// part(split, first, second) is what one sent.
  template <class Part, class Make, class Combine>
  __device__ __forceinline__ Part of_team(int round, Make part, Combine combine) const {
    constexpr int kTogether = 3;
    const SentSums* const from = t.sent + channel(round) * t.walk.splits;
    Part all = {};
    for (int at = static_cast<int>(threadIdx.x) % 32; at < t.walk.splits; at += kTogether * 32) {
      SentSums sent[kTogether] = {};
      bool complete;
      do {
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          if (at + i * 32 < t.walk.splits) sent[i] = look_for(from + at + i * 32);
        }
        complete = true;
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          complete = complete && (at + i * 32 >= t.walk.splits || has_come(sent[i], launch));
        }
      } while (!complete);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (at + i * 32 >= t.walk.splits) continue;
        const auto sum = [&](int k) { return __uint_as_float(uint32_t(sent[i].words[k])); };
        all = combine(all, part(at + i * 32, sum(0), sum(1)));
      }
    }
    __syncwarp();
    return warp_combine(all, 1, combine);
  }
};

/// As block_combine(), of the threads that have units; `warps`, in shared memory, are not those of the call before.
template <class T, class Combine>
__device__ __forceinline__ T piece_combine(T value, T (&warps)[kCombineWarps], Combine combine) {
  value = warp_combine(value, 1, combine);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
  value = warps[0];
#pragma unroll
  for (int w = 1; w < kCombineWarps; ++w) value = combine(value, warps[w]);
  return value;
}

/// Training's forward.
template <class F, class Units>
__device__ __forceinline__ void normalise_by_teams(const Teams& teams,
                                                   const Forward<typename F::Value>& t,
                                                   const Units& units) {
  __shared__ float of_warps[2][kCombineWarps];
  __shared__ Affine<F> affine[kMostRounds];  // until a round is told, weight and bias alone
  const TeamRounds<Units, Units::kXBytes> rounds(teams, units);
  const float share = 1.0f / rounds.values_of(rounds.split);

  const auto fetch = [&](char* places, auto at) { units.fetch_x(places, t.x, at); };
  const auto open = [&](int round) {
    Walk walk = teams.walk;
    walk.turn = {false, rounds.channel(round), rounds.split};
    affine[round] = affine_of<F>(walk, t, Statistics<F>{{0.0f}, {1.0f}});
  };
  const auto look = [&](const auto& piece) {
    const auto plus = [](float a, float b) { return a + b; };
    rounds.await(piece.number);
    float sum = 0.0f, squares = 0.0f;
    rounds.for_each(piece, [&](const char* places, auto) {
      Units::for_each(Units::x(places), [&](float x) { sum += x; });
    });
    const float mean = share * piece_combine(sum, of_warps[0], plus);
    rounds.for_each(piece, [&](const char* places, auto) {
      Units::for_each(Units::x(places), [&](float x) { squares += (x - mean) * (x - mean); });
    });
    rounds.send_sums(piece.number, mean, piece_combine(squares, of_warps[1], plus));
  };
  const auto tell = [&](int round) {
    const auto part = [&](int split, float mean, float squares) {
      return Moments{rounds.values_of(split), mean, squares};
    };
    const auto join = [](Moments a, const Moments& b) {
      const JoinShares shares(a.count, b.count);
      shares.join(a.mean, a.squares, b.mean, b.squares);
      return a;
    };
    const Moments all = rounds.template of_team<Moments>(round, part, join);
    const float var = all.squares / teams.walk.count;
    const float inverse = 1.0f / sqrtf(var + teams.walk.eps);
    if (threadIdx.x == kThreads) {
      affine[round].mean[0] = all.mean;
      affine[round].scale[0] *= inverse;
    }
    rounds.told(round);
    if (threadIdx.x > kThreads || !rounds.keeps(round)) return;
    keep_state(teams.walk, t, rounds.channel(round), all.mean, inverse);
    keep_buffers(teams.walk, t, rounds.channel(round), all.mean, var);
  };
  const auto finish = [&](const auto& piece) {
    const Affine<F> of_round = affine[piece.number];
    rounds.for_each(piece, [&](const char* places, auto at) {
      units.write_y(t.y, at, Units::x(places), of_round);
    });
  };
  rounds.run(fetch, open, look, tell, finish);
}

/// All of backward.
template <class F, class Units>
__device__ __forceinline__ void find_gradients_by_teams(const Teams& teams,
                                                        const Backward<typename F::Value>& t,
                                                        const Units& units) {
  struct Round {
    Statistics<F> s;
    Affine<F> affine;
    Sums sums[1];  // when it is told
  };
  __shared__ Sums of_warps[2][kCombineWarps];
  __shared__ Round all[kMostRounds];
  const TeamRounds<Units, Units::kXBytes + Units::kDyBytes> rounds(teams, units);

  const auto fetch = [&](char* places, auto at) {
    units.fetch_x(places, t.x, at);
    units.fetch_dy(places, t.dy, at);
  };
  const auto open = [&](int round) {
    Walk walk = teams.walk;
    walk.turn = {false, rounds.channel(round), rounds.split};
    all[round].s = statistics_of_backward<F>(walk, t);
    all[round].affine = affine_of<F>(walk, t, all[round].s);
  };
  const auto look = [&](const auto& piece) {
    const Statistics<F> s = all[piece.number].s;
    const Affine<F> affine = all[piece.number].affine;
    rounds.await(piece.number);
    Sums sums[1] = {};
    rounds.for_each(piece, [&](char* places, auto) { Units::add(places, s, affine, sums); });
    const Sums of_piece = piece_combine(sums[0], of_warps[piece.number % 2], add);
    rounds.send_sums(piece.number, of_piece.dy, of_piece.product);
  };
  const auto tell = [&](int round) {
    const auto part = [](int, float dy, float product) { return Sums{dy, product}; };
    const Sums sums = rounds.template of_team<Sums>(round, part, add);
    if (threadIdx.x == kThreads) all[round].sums[0] = sums;
    rounds.told(round);
    if (threadIdx.x > kThreads || !rounds.keeps(round) || t.dweight == nullptr) return;
    t.dweight[rounds.channel(round)] = sums.product;
    t.dbias[rounds.channel(round)] = sums.dy;
  };
  const auto finish = [&](const auto& piece) {
    if (t.dx == nullptr) return;
    const Round& round = all[piece.number];
    const Affine<F> affine = round.affine;
    const InputGradient<F> gradient(teams.walk, t.training, round.s, affine, round.sums);
    rounds.for_each(piece,
                    [&](char* places, auto at) { units.write_dx(t.dx, at, places, gradient); });
  };
  rounds.run(fetch, open, look, tell, finish);
}

}  // namespace duet::batch_norm
