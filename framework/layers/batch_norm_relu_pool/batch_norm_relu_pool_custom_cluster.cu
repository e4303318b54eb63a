// batch_norm2d_relu_pool custom_cluster: one launch a pass, reading every value once, as batch_norm's
//           custom_cluster: threads keep their windows in registers while the blocks of a cluster add
//           their sums, and pool them from there; or teams of blocks in shared memory.
// Mapping:  cluster = 1 channel (NHWC: of up to 128) by 1 to 8 blocks of 256 threads; a thread has the
//           pixels that it has in custom_welford, and keeps 32 of them in forward, in backward 16
//           and their dy. Team: as batch_norm's; a thread has 16 bytes of two rows at a time.
// Traffic:  x, y and in backward dy and dx once. In NHWC, and where W is no multiple of 4 or H is odd, what is
//           more than 65536 values a channel (in backward 32768) is read again for each sum. Behind a convolution that
//           leaves the moments of x forward has no sums (batch_norm_given.cuh).
// Limits:   as custom_welford. Below compute capability 9.0 a block has the channels alone.
#include "layers/batch_norm/batch_norm_cluster.cuh"
#include "layers/batch_norm/batch_norm_teams.cuh"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool_kernels.cuh"

namespace duet {
namespace {

using namespace batch_norm_pool;

/// Units that a thread keeps in forward, of 4 V pixels each; in backward half as many.
template <class F>
constexpr int kKept = 8 / F::V;

/// The thread's units: every so many from its first, so that the neighbours of a warp read
/// neighbours in memory.
template <class F>
struct Part {
  const Windows& t;
  int first, step, channel;

  __device__ __forceinline__ explicit Part(const Windows& t)
      : t(t),
        first(static_cast<int>(blockIdx.y * kThreads + threadIdx.x) / t.walk.lanes),
        step(t.walk.splits * kThreads / t.walk.lanes),
        channel(first_channel<F>(t.walk)) {}

  /// Calls kept(i, place) for the first `count` units and again(place) for the others.
  template <int count, class Kept, class Again>
  __device__ __forceinline__ void for_each(Kept kept, Again again) const {
    if (channel >= t.walk.channels) return;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int unit = first + i * step;
      if (unit < t.walk.units) kept(i, place_of<F>(t, channel, unit));
    }
    for (int unit = first + count * step; unit < t.walk.units; unit += step) {
      again(place_of<F>(t, channel, unit));
    }
  }
};

/// Calls visit(value, channel) for every pixel of a unit that exists.
template <class F, class Visit>
__device__ __forceinline__ void for_each_pixel(const Patch<F>& x, const Place& at, Visit visit) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if ((j % 2 == 1 && !at.right) || (j >= 2 && !at.below)) continue;
#pragma unroll
    for (int k = 0; k < F::V; ++k) visit(x.v[j].v[k], F::channel_of(k));
  }
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_forward_cluster_kernel(Windows t, Forward<typename F::Value> f) {
  wait_for_primary();
  constexpr int kCount = kKept<F>;
  __shared__ ClusterSum<F, float> total, total_squares;
  const auto plus = [](float a, float b) { return a + b; };
  const Walk& walk = t.walk;
  const Part<F> part(t);
  Patch<F> kept[kCount];

  float sums[F::kChannels] = {};
  const auto add_sum = [&](const Patch<F>& x, const Place& at) {
    for_each_pixel<F>(x, at, [&](float value, int i) { sums[i] += value; });
  };
  part.template for_each<kCount>(
      [&](int i, const Place& at) { kept[i] = load_patch<F>(t, f.x, at); },
      [&](const Place& at) { add_sum(load_patch<F>(t, f.x, at), at); });
  part.template for_each<kCount>([&](int i, const Place& at) { add_sum(kept[i], at); },
                                 [](const Place&) {});
  total(walk, sums, plus);
  Statistics<F> s;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) s.mean[k] = sums[k] / walk.count;

  float squares[F::kChannels] = {}, var[F::kChannels];
  const auto add_squares = [&](const Patch<F>& x, const Place& at) {
    for_each_pixel<F>(x, at, [&](float value, int i) {
      squares[i] += (value - s.mean[i]) * (value - s.mean[i]);
    });
  };
  part.template for_each<kCount>(
      [&](int i, const Place& at) { add_squares(kept[i], at); },
      [&](const Place& at) { add_squares(load_patch<F>(t, f.x, at), at); });
  total_squares(walk, squares, plus);
  done_reading(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    var[k] = squares[k] / walk.count;
    s.inverse[k] = 1.0f / sqrtf(var[k] + walk.eps);
  }

  keep<F>(walk, f, s, var);
  const Affine<F> affine = affine_of<F>(walk, f, s);
  const auto write = [&](const Patch<F>& x, const Place& at) {
    if (at.whole()) store(f.y + at.y, largest_values<F>(x, affine));
  };
  part.template for_each<kCount>([&](int i, const Place& at) { write(kept[i], at); },
                                 [&](const Place& at) {
                                   if (at.whole()) write(load_patch<F>(t, f.x, at), at);
                                 });
  wait_for_readers(walk);
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_backward_cluster_kernel(Windows t, Backward<typename F::Value> b) {
  wait_for_primary();
  constexpr int kCount = kKept<F> / 2;
  __shared__ ClusterSum<F, Sums> total;
  const Walk& walk = t.walk;
  const Part<F> part(t);
  Patch<F> x[kCount];
  Vector<float, F::V> dy[kCount];
  part.template for_each<kCount>(
      [&](int i, const Place& at) {
        x[i] = load_patch<F>(t, b.x, at);
        dy[i] = load_gradient<F>(b.dy, at);
      },
      [](const Place&) {});

  const Statistics<F> s = statistics_of_backward<F>(walk, b);
  const Affine<F> affine = affine_of<F>(walk, b, s);
  Sums sums[F::kChannels] = {};
  part.template for_each<kCount>(
      [&](int i, const Place&) { add_windows<F>(x[i], dy[i], s, affine, sums); },
      [&](const Place& at) {
        if (at.whole()) {
          add_windows<F>(load_patch<F>(t, b.x, at), load<F::V>(b.dy + at.y), s, affine, sums);
        }
      });
  total(walk, sums, add);
  done_reading(walk);
  keep_gradients<F>(walk, b, sums);
  if (b.dx != nullptr) {
    const InputGradient<F> gradient(walk, b.training, s, affine, sums);
    part.template for_each<kCount>(
        [&](int i, const Place& at) {
          write_input_gradients<F>(t, at, x[i], dy[i], gradient, b.dx);
        },
        [&](const Place& at) {
          write_input_gradients<F>(t, at, load_patch<F>(t, b.x, at), load_gradient<F>(b.dy, at),
                                   gradient, b.dx);
        });
  }
  wait_for_readers(walk);
}

/// A unit of teams: V whole windows side by side, of two rows of x and one of dy. Backward's first look leaves behind
/// them which value of each window has the gradient, so that the second need not compare.
template <class F>
struct PlaneWindows {
  using Value = typename F::Value;
  static constexpr int kValues = 4 * F::V;                          // of x
  static constexpr int kDy = sizeof(Value) * F::V, kRow = 2 * kDy;  // bytes of a thread
  static constexpr int kXBytes = kThreads * 2 * kRow;
  static constexpr int kDyBytes = kThreads * (kDy + sizeof(unsigned));
  const Windows& t;

  __device__ __forceinline__ Place place(int channel, int unit) const {
    return place_of<F>(t, channel, unit);
  }
  static __device__ __forceinline__ int row(int i) {
    return (i * kThreads + static_cast<int>(threadIdx.x)) * kRow;
  }
  static __device__ __forceinline__ int row_of_dy() {
    return kXBytes + static_cast<int>(threadIdx.x) * kDy;
  }
  /// Four bits a window, one of which is set, or none.
  static __device__ __forceinline__ unsigned& chosen(char* places) {
    return reinterpret_cast<unsigned*>(places + kXBytes + kThreads * kDy)[threadIdx.x];
  }
  __device__ __forceinline__ void fetch_x(char* places, const Value* x, const Place& at) const {
    fetch_async<kRow>(places + row(0), x + at.x);
    fetch_async<kRow>(places + row(1), x + at.x + t.width);
  }
  __device__ __forceinline__ void fetch_dy(char* places, const Value* dy, const Place& at) const {
    fetch_async<kDy>(places + row_of_dy(), dy + at.y);
  }
  static __device__ __forceinline__ Patch<F> x(const char* places) {
    Patch<F> patch;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto pixels =
          widened_pairs<Value, 2 * F::V>(*reinterpret_cast<const WordOf<kRow>*>(places + row(i)));
#pragma unroll
      for (int k = 0; k < 2 * F::V; ++k) patch.v[2 * i + k % 2].v[k / 2] = pixels.v[k];
    }
    return patch;
  }
  static __device__ __forceinline__ Vector<float, F::V> dy(const char* places) {
    return widened_pairs<Value, F::V>(*reinterpret_cast<const WordOf<kDy>*>(places + row_of_dy()));
  }
  template <class Visit>
  static __device__ __forceinline__ void for_each(const Patch<F>& x, Visit visit) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int k = 0; k < F::V; ++k) visit(x.v[j].v[k]);
    }
  }
  static __device__ __forceinline__ void add(char* places, const Statistics<F>& s,
                                             const Affine<F>& affine, Sums (&sums)[1]) {
    const Patch<F> x = PlaneWindows::x(places);
    const Vector<float, F::V> dy = PlaneWindows::dy(places);
    unsigned all = 0;
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const auto later = [&](const Candidate& a, const Candidate& b) {
        return takes_over(b.y, a.y) ? b : a;
      };
      const auto of = [&](int j) {
        return Candidate{affine(x.v[j].v[k], 0), x.v[j].v[k], 1u << (4 * k + j)};
      };
      const Candidate largest = later(later(of(0), of(1)), later(of(2), of(3)));
      const bool dead = largest.y <= 0.0f;
      const float d = dead ? 0.0f : dy.v[k];
      if (!dead) all |= largest.bit;
      sums[0].dy += d;
      sums[0].product += d * ((largest.x - s.mean[0]) * s.inverse[0]);
    }
    chosen(places) = all;
  }
  __device__ __forceinline__ void write_y(Value* y, const Place& at, const Patch<F>& x,
                                          const Affine<F>& affine) const {
    store_pairs(y + at.y, largest_values<F>(x, affine));
  }
  __device__ __forceinline__ void write_dx(Value* dx, const Place& at, char* places,
                                           const InputGradient<F>& gradient) const {
    Patch<F> x = PlaneWindows::x(places);
    const Vector<float, F::V> dy = PlaneWindows::dy(places);
    const unsigned all = chosen(places);
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool has_gradient = (all >> (4 * k + j) & 1u) != 0;
        x.v[j].v[k] = gradient(x.v[j].v[k], has_gradient ? dy.v[k] : 0.0f, 0);
      }
    }
    store_pair<F>(t, dx + at.x, true, x.v[0], x.v[1]);
    store_pair<F>(t, dx + at.x + t.width, true, x.v[2], x.v[3]);
  }

 private:
  struct Candidate {
    float y, x;
    unsigned bit;
  };
};

template <class F>
__global__ void __launch_bounds__(kTeamThreads, kTeamBlocks)
    batch_norm_pool_forward_teams_kernel(Teams teams, Windows t, Forward<typename F::Value> f) {
  wait_for_primary();
  normalise_by_teams<F>(teams, f, PlaneWindows<F>{t});
}
template <class F>
__global__ void __launch_bounds__(kTeamThreads, kTeamBlocks)
    batch_norm_pool_backward_teams_kernel(Teams teams, Windows t, Backward<typename F::Value> b) {
  wait_for_primary();
  find_gradients_by_teams<F>(teams, b, PlaneWindows<F>{t});
}

/// Windows of a unit of teams; 0 where not all pixels are in whole units of planes.
int team_vector(const Problem& problem) {
  const Pool2dProblem& pool = problem.pool;
  if (!in_planes(problem) || pool.h % 2 != 0 || pool.w % 4 != 0) return 0;
  const int widest = 8 / static_cast<int>(size_of(problem.dtype));
  return pool.q % widest == 0 ? widest : 2;
}
/// Calls visit(WindowForm()) for the form of that; F is that of with_window_form().
template <class F, class Visit>
void with_team_form(const Problem& problem, Visit&& visit) {
  using T = typename F::Value;
  constexpr int kWide = kWidest<T> / 2;
  if constexpr (F::kPlanes && F::V == 2) {
    if constexpr (kWide != F::V) {
      if (team_vector(problem) == kWide) return visit(WindowForm<T, true, kWide>());
    }
    visit(F());
  }
}
Windows team_windows(const Problem& problem) {
  const Pool2dProblem& pool = problem.pool;
  const int columns = pool.q / team_vector(problem);
  Walk walk = walk_of(problem.norm, false);
  walk.units = pool.n * pool.p * columns;
  return {walk, pool.h, pool.w, pool.p, pool.q, FastDivisor(columns), FastDivisor(pool.p)};
}

/// Units of all pixels, of one block.
Windows all_pixels(const Problem& problem) {
  Windows all = windows_of(problem, true);
  all.walk.splits = 1;
  return all;
}
/// Units that a block keeps in registers in a pass.
int units_kept(const Problem& problem, Pass pass) {
  const int of_thread = (pass == Pass::kForward ? 8 : 4) / window_vector(problem);
  return units_at_once(walk_of(problem.norm, false)) * of_thread;
}
/// A cluster keeps all that the pass needs.
bool cluster_keeps(const Problem& problem, Pass pass) {
  const Pool2dProblem& pool = problem.pool;
  const int64_t windows = int64_t{pool.n} * ((pool.h + 1) / 2) * ((pool.w + 1) / 2);
  const int of_unit = in_planes(problem) ? window_vector(problem) : 1;
  return windows <= int64_t{most_blocks()} * units_kept(problem, pass) * of_unit;
}
std::optional<Teams> plane_teams(const Problem& problem, Pass pass) {
  const int v = team_vector(problem);
  if (v == 0) return {};
  const int values = v * static_cast<int>(size_of(problem.dtype));
  return teams_of(team_windows(problem).walk,
                  kThreads * (pass == Pass::kForward ? 4 * values : 5 * values + 4));
}

/// One pass, by clusters, or by teams where registers do not keep what it needs.
class Cut {
 public:
  Cut(const Problem& problem, Pass pass) : windows_(all_pixels(problem)) {
    windows_.walk = in_clusters(windows_.walk, units_kept(problem, pass));
    if (cluster_keeps(problem, pass) && windows_.walk.splits <= 2) return;
    teams_ = plane_teams(problem, pass);
    if (!teams_) return;
    windows_ = team_windows(problem);
    memory_.emplace(*teams_);
  }
  std::string text() const {
    return teams_ ? teams_text(*teams_) : "clusters of " + std::to_string(windows_.walk.splits);
  }
  bool in_teams() const { return teams_.has_value(); }

  template <class T>
  void queue(const Run& run, void (*kernel)(Windows, T), const T& arguments) const {
    launch_clusters(windows_.walk, run.stream(), kernel, windows_, arguments);
  }
  template <class T>
  void queue(const Run& run, void (*kernel)(Teams, Windows, T), const T& arguments) const {
    launch_teams(memory_->of(*teams_), run.stream(), kernel, windows_, arguments);
  }

 private:
  Windows windows_;
  std::optional<Teams> teams_;
  std::optional<TeamMemory> memory_;
};

class BatchNormReluPoolCustomCluster : public CustomBlock<BatchNormReluPoolCustomCluster> {
 public:
  explicit BatchNormReluPoolCustomCluster(const Problem& problem)
      : CustomBlock(problem),
        forward_(problem, Pass::kForward),
        backward_(problem, Pass::kBackward) {}

  std::string detail(Pass pass) const override {
    return form_text() + ", " + (pass == Pass::kForward ? forward_ : backward_).text();
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& f) const {
    if (!forward_.in_teams()) {
      return forward_.queue(run, batch_norm_pool_forward_cluster_kernel<F>, f);
    }
    with_team_form<F>(problem_, [&](auto form) {
      forward_.queue(run, batch_norm_pool_forward_teams_kernel<decltype(form)>, f);
    });
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& b) const {
    if (!backward_.in_teams()) {
      return backward_.queue(run, batch_norm_pool_backward_cluster_kernel<F>, b);
    }
    with_team_form<F>(problem_, [&](auto form) {
      backward_.queue(run, batch_norm_pool_backward_teams_kernel<decltype(form)>, b);
    });
  }

 private:
  const Cut forward_, backward_;
};

/// Where a cluster keeps all that backward needs, as batch_norm's is, and by teams.
bool preferred(const Problem& problem, Pass pass, size_t) {
  return cluster_keeps(problem, Pass::kBackward) || plane_teams(problem, pass);
}

}  // namespace

ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_custom_cluster() {
  auto entry = impl_entry<BatchNormReluPoolCustomCluster>(
      "custom_cluster", batch_norm_pool::unsupported, gpu_dtypes());
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
