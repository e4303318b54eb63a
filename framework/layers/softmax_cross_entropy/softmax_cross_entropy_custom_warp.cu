// softmax_cross_entropy custom_warp: forward is one kernel, mean and hits included.
// Mapping:  1 to 32 lanes a row (4 for ten classes); one block up to 1024 lanes, else blocks of
//           256. Rows of 129 to 8192 logits that 16 bytes divide are kept in registers: up to 1024 by
//           a warp, else by a block of 256 threads. Backward: thread = 16 bytes.
// Traffic:  forward x once (later looks hit L1), 8 bytes a row kept; backward x once, dx once.
// Limits:   fp32 or bf16, fewer than 2^31 logits.
#include "device/check.h"
#include "device/launch.h"
#include "kernels/integers.cuh"
#include "kernels/register_rows.cuh"
#include "layers/loss_rows.cuh"
#include "layers/softmax_cross_entropy/soft_targets_cuda.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"

namespace duet {
namespace {

using loss_rows::Totals;

// Keeps {max, 1 / sum} of each row for backward. One number, max + log(sum), would do, but loses
// the small differences between logits of 1e4 to rounding.
template <int kLanes, class T>
__global__ void __launch_bounds__(1024)
    softmax_cross_entropy_forward_warp_kernel(SoftTargets targets, int n, int c,
                                              const T* __restrict__ x,
                                              const int* __restrict__ labels, float2* kept,
                                              Totals* totals, unsigned* ticket, float* loss,
                                              int* hits, float* weight) {
  wait_for_primary();
  let_secondary_start();
  const int lane = threadIdx.x % kLanes;
  const int stride = gridDim.x * blockDim.x / kLanes;
  Totals mine = {};
  // All lanes go round equally often: a warp shuffles as a whole even where its last rows are
  // missing.
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  for (int base = 0; base < n; base += stride, row += stride) {
    const bool inside = row < n;
    const T* logits = x + static_cast<int64_t>(inside ? row : 0) * c;
    const RowLabels of_row = targets.of_row(labels, inside ? row : 0);
    const bool counts = inside && of_row.count(c);
    const float target = logits[counts ? of_row.label : 0];

    float max = -INFINITY;
    for (int j = lane; j < c; j += kLanes) max = fmaxf(max, float{logits[j]});
    max = loss_rows::lanes_max<kLanes>(max);
    float sum = 0.0f;
    bool beaten = false;
    for (int j = lane; j < c; j += kLanes) {
      const float value = logits[j];
      sum += expf(value - max);
      beaten |= loss_rows::beats(value, j, target, of_row.label);
    }
    sum = loss_rows::lanes_sum<kLanes>(sum);
    beaten = loss_rows::lanes_any<kLanes>(beaten);
    const auto loss_of = [&](int j) { return targets.weight(j) * (logf(sum) - (logits[j] - max)); };
    float others = 0.0f;
    if (targets.spread != 0.0f) {
      for (int j = lane; counts && j < c; j += kLanes) others += loss_of(j);
      others = loss_rows::lanes_sum<kLanes>(others);
    }

    if (lane == 0 && inside) {
      kept[row] = make_float2(max, 1.0f / sum);
      if (counts) {
        mine.loss += targets.kept * of_row.mean(loss_of);
        mine.loss += targets.spread * others;
        mine.weight += targets.weight(of_row);
        mine.hits += !beaten;
        mine.counted += 1;
      }
    }
  }
  loss_rows::finish(mine, totals, ticket, loss, hits, weight);
}

/// exp(z) of z <= 0. Its error grows with z, whose exp(z) is small beside the exp(0) of the same sum.
__device__ __forceinline__ float exponential(float z) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(z * 1.4426950408889634f));
  return power;
}

/// What backward makes of a row.
struct RowGradient {
  RowLabels labels;
  bool counts;
  float scale, max, factor;  // all of the probability is exp(x - max) * factor

  __device__ __forceinline__ RowGradient(const SoftTargets& targets, int row, int c,
                                         const int* of_rows, const float* weight,
                                         const float* dloss, const float2* kept)
      : labels(targets.of_row(of_rows, row)),
        counts(labels.count(c)),
        scale(*weight > 0.0f ? dloss[0] / *weight : 0.0f) {
    const float2 k = kept[row];
    max = k.x;
    factor = counts ? targets.sum(labels) * k.y : 0.0f;
  }
  __device__ __forceinline__ float operator()(const SoftTargets& targets, float x, int j) const {
    if (!counts) return 0.0f;
    return scale * (expf(x - max) * factor - targets.of(j, labels));
  }
};

/// A thread has V logits. `whole`: c is a multiple of V.
template <int V, bool whole, class T>
__global__ void softmax_cross_entropy_backward_warp_kernel(SoftTargets targets, unsigned elements,
                                                           FastDivisor by_classes, const T* x,
                                                           const int* labels, const float* weight,
                                                           const float* dloss, const float2* kept,
                                                           T* dx) {
  wait_for_primary();
  let_secondary_start();
  const unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * V;
  if (i >= elements) return;
  const int c = static_cast<int>(by_classes.divisor);
  int row, j;
  by_classes.divmod(static_cast<int>(i), row, j);
  const int count = whole ? V : static_cast<int>(min(elements - i, static_cast<unsigned>(V)));
  Vector<float, V> values = {};
  if (count == V) {
    values = load_constant<V>(x + i);
  } else if constexpr (!whole) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (k < count) values.v[k] = x[i + k];
    }
  }
  RowGradient gradient(targets, row, c, labels, weight, dloss, kept);
#pragma unroll
  for (int k = 0; k < V; ++k, ++j) {
    if (!whole && j == c && k < count) {
      j = 0;
      gradient = RowGradient(targets, ++row, c, labels, weight, dloss, kept);
    }
    values.v[k] = gradient(targets, values.v[k], j);
  }
  if (count == V) {
    store(dx + i, values);
  } else if constexpr (!whole) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (k < count) dx[i + k] = T(values.v[k]);
    }
  }
}

// Forward by rows in registers.
template <class F, class T>
__global__ void __launch_bounds__(kCombineThreads, 3)
    softmax_cross_entropy_forward_rows_kernel(SoftTargets targets, int n, int c, const T* x,
                                              const int* labels, float2* kept, Totals* totals,
                                              unsigned* ticket, float* loss, int* hits,
                                              float* weight) {
  wait_for_primary();
  let_secondary_start();
  const auto plus = [](float a, float b) { return a + b; };
  Totals mine = {};
  const int step = static_cast<int>(gridDim.x) * F::kRowsPerBlock;
  for (int row = static_cast<int>(F::team()); row < n; row += step) {
    const T* const logits = x + static_cast<int64_t>(row) * c;
    float values[F::kValues];
    F::load_row(logits, c, -INFINITY, values);
    const RowLabels of_row = targets.of_row(labels, row);
    const bool counts = of_row.count(c);
    const float target = logits[counts ? of_row.label : 0];

    float max = -INFINITY;
#pragma unroll
    for (const float value : values) max = fmaxf(max, value);
    max = F::combine_row(max, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0.0f;
#pragma unroll
    for (const float value : values) sum += exponential(value - max);
    sum = F::combine_row(sum, plus);
    const float log_sum = logf(sum);
    // A hit's logit is the largest, and nothing before it is as large; all else decides whether there
    // is a NaN, or an infinite maximum, of which the sum is one.
    const bool number = sum == sum;
    float beaten = number && target != max ? 1.0f : 0.0f;
    if (counts && beaten == 0.0f) {
#pragma unroll
      for (int i = 0; i < F::kValues; ++i) {
        const int j = F::column(i);
        if (number ? values[i] == max && j < of_row.label
                   : loss_rows::beats(values[i], j, target, of_row.label)) {
          beaten = 1.0f;
        }
      }
      beaten = F::combine_row(beaten, plus);
    }
    float others = 0.0f;
    if (targets.spread != 0.0f && counts) {
#pragma unroll
      for (int i = 0; i < F::kValues; ++i) {
        const int j = F::column(i);
        if (j < c) others += targets.weight(j) * (log_sum - (values[i] - max));
      }
      others = F::combine_row(others, plus);
    }
    if (threadIdx.x % F::kThreads == 0) {
      kept[row] = make_float2(max, 1.0f / sum);
      if (counts) {
        const auto loss_of = [&](int j) {
          return targets.weight(j) * (log_sum - (logits[j] - max));
        };
        mine.loss += targets.kept * of_row.mean(loss_of);
        mine.loss += targets.spread * others;
        mine.weight += targets.weight(of_row);
        mine.hits += beaten == 0.0f;
        mine.counted += 1;
      }
    }
  }
  loss_rows::finish(mine, totals, ticket, loss, hits, weight);
}

template <class T>
class SoftmaxCrossEntropyCustomWarp : public SoftmaxCrossEntropyImpl {
 public:
  explicit SoftmaxCrossEntropyCustomWarp(const SoftmaxCrossEntropyProblem& problem)
      : SoftmaxCrossEntropyImpl(problem), targets_(problem), plan_(problem.n, problem.c) {}

  size_t workspace_bytes(Pass pass) const override {
    if (pass != Pass::kForward) return 0;
    if (!in_registers()) return plan_.totals_bytes();
    size_t bytes = 0;
    with_row([&](auto form) { bytes = row_blocks(form) * sizeof(Totals); });
    return bytes;
  }
  size_t state_bytes() const override { return problem_.n * sizeof(float2) + sizeof(float); }
  std::string detail(Pass pass) const override {
    if (pass != Pass::kForward) return "";
    if (!in_registers()) return std::to_string(plan_.lanes) + " lanes a row";
    std::string text;
    with_row([&](auto form) { text = form.text(); });
    return text;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& loss,
               const Tensor& hits, const Tensor& state) override {
    const auto queue = [&](unsigned blocks, unsigned threads, auto kernel) {
      launch_following({blocks, threads, 0, run.stream()}, kernel, targets_.get(), problem_.n,
                       problem_.c, x.data<T>(), labels.data<int>(), state.data<float2>(),
                       static_cast<Totals*>(run.workspace), ticket_.get(), loss.data<float>(),
                       hits.data<int>(), weight(state));
    };
    if (in_registers()) {
      with_row([&](auto form) {
        queue(row_blocks(form), kCombineThreads,
              softmax_cross_entropy_forward_rows_kernel<decltype(form), T>);
      });
    } else {
      loss_rows::with_lanes(plan_.lanes, [&](auto lanes) {
        queue(plan_.blocks, plan_.threads,
              softmax_cross_entropy_forward_warp_kernel<decltype(lanes)::value, T>);
      });
    }
  }

  void backward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor&,
                const Tensor& dloss, const Tensor& state, const Tensor& dx) override {
    constexpr int V = kWidest<T>;
    constexpr int64_t kMany =
        1 << 20;  // of fewer, a thread's chain of rows takes longer than loads
    const auto queue = [&](int each, auto kernel) {
      constexpr unsigned kThreads = 256;
      const auto elements = static_cast<unsigned>(problem_.elements());
      const unsigned of_block = kThreads * static_cast<unsigned>(each);
      launch_following({(elements + of_block - 1) / of_block, kThreads, 0, run.stream()}, kernel,
                       targets_.get(), elements, FastDivisor(problem_.c), x.data<T>(),
                       labels.data<int>(), weight(state), dloss.data<float>(), state.data<float2>(),
                       dx.data<T>());
    };
    if (problem_.c % V == 0) {
      queue(V, softmax_cross_entropy_backward_warp_kernel<V, true, T>);
    } else if (problem_.elements() >= kMany) {
      queue(V, softmax_cross_entropy_backward_warp_kernel<V, false, T>);
    } else {
      queue(1, softmax_cross_entropy_backward_warp_kernel<1, true, T>);
    }
  }

 private:
  /// One value at a time, of any other c, the loops are faster.
  bool in_registers() const {
    return problem_.c > 128 && problem_.c <= kLongestRegisterRow && problem_.c % kWidest<T> == 0;
  }
  template <class Visit>
  void with_row(Visit&& visit) const {
    with_register_row<T>(problem_.c, [&](auto form) {
      if constexpr (decltype(form)::V > 1) visit(form);
    });
  }
  /// Whose last adds up what all found.
  template <class F>
  unsigned row_blocks(F form) const {
    return std::min(form.blocks(problem_.n), 2048u);
  }
  float* weight(const Tensor& state) const { return state.data<float>() + 2 * problem_.n; }

  const SoftTargetsOnGpu targets_;
  const loss_rows::Plan plan_;
  const loss_rows::Ticket ticket_;
};

}  // namespace

ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_custom_warp() {
  return gpu_entry<SoftmaxCrossEntropyCustomWarp>("custom_warp");
}

}  // namespace duet
