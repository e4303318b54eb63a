// The definition in three walks over a row (maximum, sum, quotients), by a team of threads: the
// lower rungs of the ladder differ in nothing but the team, which is one thread, a block or a warp.
// A team is
//   kThreads     threads of a row
//   kBlock       threads of a block, which has kBlock / kThreads rows
//   combine()    one value of all threads' values; every thread gets it
#pragma once

#include "device/check.h"
#include "layers/softmax/softmax.h"

namespace duet::softmax_teams {

struct Rows {
  int64_t count, inner;
  int columns;

  explicit Rows(const SoftmaxProblem& problem)
      : count(problem.rows()),
        inner(problem.inner()),
        columns(static_cast<int>(problem.columns())) {}
};

// region walk
/// The walks of a thread over its team's row; columns are `inner` values apart.
template <class Team>
struct Walk {
  Rows rows;
  int64_t row = (static_cast<int64_t>(blockIdx.x) * Team::kBlock + threadIdx.x) / Team::kThreads;
  int64_t start = row / rows.inner * rows.inner * rows.columns + row % rows.inner;

  explicit __device__ Walk(const Rows& all) : rows(all) {}

  template <class Visit>
  __device__ __forceinline__ void for_each(Visit visit) const {
    for (int j = threadIdx.x % Team::kThreads; j < rows.columns; j += Team::kThreads) {
      visit(start + j * rows.inner);
    }
  }
};
// end walk

// region walks
/// softmax(x) = exp(x - max) / sum
struct Statistics {
  float max = -INFINITY, sum = 0.0f;
  __device__ __forceinline__ float softmax(float x) const { return expf(x - max) / sum; }
};

template <class Team, class T>
__device__ __forceinline__ Statistics statistics_of(const Walk<Team>& walk, const T* x) {
  Statistics s;
  walk.for_each([&](int64_t i) { s.max = fmaxf(s.max, float{x[i]}); });
  s.max = Team::combine(s.max, [](float a, float b) { return fmaxf(a, b); });
  walk.for_each([&](int64_t i) { s.sum += expf(x[i] - s.max); });
  s.sum = Team::combine(s.sum, [](float a, float b) { return a + b; });
  return s;
}
// end walks

template <class Team, class T>
__global__ void __launch_bounds__(Team::kBlock)
    softmax_forward_team_kernel(Rows rows, const T* x, T* y) {
  const Walk<Team> walk(rows);
  if (walk.row >= rows.count) return;  // the whole team
  const Statistics s = statistics_of(walk, x);
  // region quotients
  walk.for_each([&](int64_t i) { y[i] = T(s.softmax(x[i])); });
  // end quotients
}

template <class Team, class T>
__global__ void __launch_bounds__(Team::kBlock)
    softmax_backward_team_kernel(Rows rows, const T* x, const T* y, const T* dy, T* dx) {
  constexpr bool kAnew = sizeof(T) < sizeof(float);
  const Walk<Team> walk(rows);
  if (walk.row >= rows.count) return;
  Statistics s;
  if constexpr (kAnew) s = statistics_of(walk, x);
  const auto probability = [&](int64_t i) -> float {
    if constexpr (kAnew) return s.softmax(x[i]);
    return y[i];
  };
  float sum = 0.0f;
  walk.for_each([&](int64_t i) { sum += dy[i] * probability(i); });
  sum = Team::combine(sum, [](float a, float b) { return a + b; });
  walk.for_each([&](int64_t i) { dx[i] = T(probability(i) * (dy[i] - sum)); });
}

template <class Team, class T>
class SoftmaxByTeams : public SoftmaxImpl {
 public:
  using SoftmaxImpl::SoftmaxImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    softmax_forward_team_kernel<Team>
        <<<blocks(), Team::kBlock, 0, run.stream()>>>(Rows(problem_), x.data<T>(), y.data<T>());
    DUET_LAUNCHED();
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    softmax_backward_team_kernel<Team><<<blocks(), Team::kBlock, 0, run.stream()>>>(
        Rows(problem_), x.data<T>(), y.data<T>(), dy.data<T>(), dx.data<T>());
    DUET_LAUNCHED();
  }

 private:
  unsigned blocks() const {
    constexpr int64_t kRows = Team::kBlock / Team::kThreads;
    return static_cast<unsigned>((problem_.rows() + kRows - 1) / kRows);
  }
};

}  // namespace duet::softmax_teams
