// batch_norm1d_relu_softmax custom_cluster: nothing is stored between the three. Forward is the
//           statistics, by clusters as in batch_norm's custom_cluster, and then row by row what they
//           make of x, relu and softmax, in registers. Backward finds the softmax of each row anew,
//           and what its gradient subtracts; then it is batch_norm's custom_cluster, where each dy
//           goes through softmax and relu as it is loaded. Of batches that no cluster keeps the
//           statistics and gradients are found in turns, as in batch_norm's custom_welford.
// Mapping:  statistics and gradients: cluster = 128 bytes of features by 1 to 8 blocks of 256 threads, a
//           thread keeps up to 8 vectors of 4 values. Rows: as softmax custom_online, but a warp or
//           block takes every so many rows, and keeps what normalises its columns.
// Traffic:  forward x twice, y once (in evaluation x once); backward x and dy twice, dx once. Beyond a
//           cluster's 2048 rows (backward 1024; 1 feature at a time a quarter) what does not fit into L2
//           is read once more in backward.
// Limits:   fp32 or bf16, 2 to 8192 features. Below compute capability 9.0 a block has the features alone.
#include <algorithm>

#include "kernels/integers.cuh"
#include "kernels/register_rows.cuh"
#include "layers/batch_norm/batch_norm_cluster_passes.cuh"
#include "layers/batch_norm/batch_norm_turns.cuh"
#include "layers/batch_norm_relu_softmax/batch_norm_relu_softmax.h"

namespace duet {
namespace {

using namespace batch_norm;
using Problem = BatchNormReluSoftmaxProblem;

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_softmax_statistics_kernel(Walk walk, Forward<typename F::Value> t) {
  wait_for_primary();
  const Part<F> part(walk);
  Vector<float, F::V> kept[kKept<F>];
  float var[F::kChannels];
  const Statistics<F> s = statistics_of_cluster<F>(walk, part, t.x, kept, var);
  keep<F>(walk, t, s, var);
  wait_for_readers(walk);
}

template <class F>
__global__ void __launch_bounds__(kThreads, kTurnBlocks)
    batch_norm_softmax_statistics_turns_kernel(Walk walk, Turns turns, Forward<typename F::Value> t,
                                               Moments* partial) {
  wait_for_primary();
  walk.turn = turns.take();
  find_statistics<F>(walk, turns, t, partial);
}

/// What normalises each feature.
struct Features {
  int count;
  bool training;
  float eps;
  const float *mean,
      *spread;  // 1 / sqrt(var + eps) of the batch, or in evaluation the running variance
  const float *weight, *bias;  // or null
};

/// What normalises the columns of a thread of row form F; the same bits as batch_norm::Affine.
template <class F>
struct Columns {
  int count;
  float mean[F::kValues], scale[F::kValues], bias[F::kValues];

  __device__ __forceinline__ explicit Columns(const Features& features) : count(features.count) {
    F::load_row(features.mean, count, 0.0f, mean);
    F::load_row(features.spread, count, 1.0f, scale);
    if (!features.training) {
#pragma unroll
      for (float& value : scale) value = 1.0f / sqrtf(value + features.eps);
    }
#pragma unroll
    for (float& value : bias) value = 0.0f;
    if (features.weight == nullptr) return;
    float weight[F::kValues];
    F::load_row(features.weight, count, 0.0f, weight);
    F::load_row(features.bias, count, 0.0f, bias);
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) scale[i] *= weight[i];
  }
  /// From x to what the softmax reads; behind the row's end what has no part in it.
  __device__ __forceinline__ void activate(float (&values)[F::kValues]) const {
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) {
      const float z = fmaf(values[i] - mean[i], scale[i], bias[i]);
      values[i] = F::column(i) < count ? ReluFunction().forward(z) : -INFINITY;
    }
  }
};

/// Of a row: softmax = exp(value - max) * scale, and the sum of dy * softmax.
struct alignas(16) Row {
  float max, scale, product, unused;
};

/// The softmax of relu's outputs, in their place.
template <class F>
__device__ __forceinline__ Row take_softmax(float (&values)[F::kValues]) {
  const auto plus = [](float a, float b) { return a + b; };
  const auto larger = [](float a, float b) { return fmaxf(a, b); };
  float max = 0.0f, sum = 0.0f;  // no output of relu is less
#pragma unroll
  for (const float value : values) max = fmaxf(max, value);
  max = F::combine_row(max, larger);
#pragma unroll
  for (float& value : values) {
    value = expf(value - max);
    sum += value;
  }
  const float scale = 1.0f / F::combine_row(sum, plus);
#pragma unroll
  for (float& value : values) value *= scale;
  return {max, scale, 0.0f, 0.0f};
}

template <class F, class T>
__global__ void __launch_bounds__(kCombineThreads)
    batch_norm_softmax_forward_kernel(Features features, int rows, const T* x, T* y) {
  wait_for_primary();
  const Columns<F> columns(features);
  const int step = static_cast<int>(gridDim.x) * F::kRowsPerBlock;
  for (int row = static_cast<int>(F::team()); row < rows; row += step) {
    const int64_t first = static_cast<int64_t>(row) * columns.count;
    float values[F::kValues];
    F::load_row(x + first, columns.count, 0.0f, values);
    columns.activate(values);
    take_softmax<F>(values);
    F::store_row(y + first, columns.count, values);
  }
}

template <class F, class T>
__global__ void __launch_bounds__(kCombineThreads)
    batch_norm_softmax_rows_kernel(Features features, int rows, const T* x, const T* dy,
                                   Row* found) {
  wait_for_primary();
  const auto plus = [](float a, float b) { return a + b; };
  const Columns<F> columns(features);
  const int step = static_cast<int>(gridDim.x) * F::kRowsPerBlock;
  for (int row = static_cast<int>(F::team()); row < rows; row += step) {
    const int64_t first = static_cast<int64_t>(row) * columns.count;
    float values[F::kValues], gradient[F::kValues];
    F::load_row(x + first, columns.count, 0.0f, values);
    F::load_row(dy + first, columns.count, 0.0f, gradient);
    columns.activate(values);
    Row result = take_softmax<F>(values);
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) result.product += gradient[i] * values[i];
    result.product = F::combine_row(result.product, plus);
    if (threadIdx.x % F::kThreads == 0) found[row] = result;
  }
}

/// What reaches batch normalisation of a dy: through softmax; relu is the form's.
template <class F>
struct SoftmaxGradient {
  using Values = Vector<float, F::V>;
  FastDivisor by_features;
  const Row* rows;

  __device__ __forceinline__ Values operator()(int offset, const Affine<F>& affine, const Values& x,
                                               Values dy) const {
    int number, first;
    by_features.divmod(offset, number, first);
    const Row row = rows[number];
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const float value = ReluFunction().forward(affine(x.v[k], F::channel_of(k)));
      dy.v[k] = expf(value - row.max) * row.scale * (dy.v[k] - row.product);
    }
    return dy;
  }
};

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_softmax_backward_kernel(Walk walk, SoftmaxGradient<F> gradient,
                                       Backward<typename F::Value> t) {
  wait_for_primary();
  write_cluster_gradients<F>(walk, t, gradient);
}
template <class F>
__global__ void __launch_bounds__(kThreads, kTurnBlocks)
    batch_norm_softmax_backward_turns_kernel(Walk walk, Turns turns, SoftmaxGradient<F> gradient,
                                             Backward<typename F::Value> t, Sums* partial) {
  wait_for_primary();
  find_gradients<F>(walk, turns, t, partial, gradient);
}

template <class T>
class BatchNormReluSoftmaxCustomCluster : public ImplementationOf<Problem> {
 public:
  explicit BatchNormReluSoftmaxCustomCluster(const Problem& problem)
      : ImplementationOf(problem),
        forward_(walk(1)),
        backward_(walk(2)),
        counters_(forward_.groups) {}

  size_t state_bytes() const override {
    return static_cast<size_t>(2 * norm().channels()) * sizeof(float);
  }
  size_t workspace_bytes(Pass pass) const override {
    if (pass == Pass::kForward) return in_turns(1) ? moments_bytes(forward_) : 0;
    return static_cast<size_t>(rows()) * sizeof(Row) + (in_turns(2) ? sums_bytes(backward_) : 0);
  }
  std::string detail(Pass pass) const override {
    const bool forward = pass == Pass::kForward;
    const std::string splits = std::to_string((forward ? forward_ : backward_).splits);
    std::string text;
    with_register_row<T>(norm().channels(), [&](auto form) { text = form.text(); });
    return form_text(norm()) +
           (in_turns(forward ? 1 : 2) ? ", " + splits + " splits; "
                                      : ", clusters of " + splits + "; ") +
           text;
  }

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    const auto w = BatchNormParameters::of(t.w, norm().affine);
    vector_length(norm()) == 4 ? queue<4>(pass, run, t, w) : queue<1>(pass, run, t, w);
  }

 private:
  template <int V>
  void queue(Pass pass, const Run& run, const LayerTensors& t, const BatchNormParameters& w) const {
    using F = Form<T, false, V, true>;
    const Features features = features_of(run, t, w);
    const Tensor& x = t.x[0];
    if (pass == Pass::kForward) {
      const Forward<T> forward(x, w, t.y[0], t.state);
      if (run.training && in_turns(1)) {
        const Turns turns = turns_of(norm(), forward_, 1, counters_).once();
        launch_following({turns.blocks(), kThreads, 0, run.stream()},
                         batch_norm_softmax_statistics_turns_kernel<F>, forward_, turns, forward,
                         static_cast<Moments*>(run.workspace));
      } else if (run.training) {
        launch_clusters(forward_, run.stream(), batch_norm_softmax_statistics_kernel<F>, forward_,
                        forward);
      }
      with_rows([&](auto form, unsigned blocks) {
        launch_following({blocks, kCombineThreads, 0, run.stream()},
                         batch_norm_softmax_forward_kernel<decltype(form), T>, features, rows(),
                         x.data<T>(), t.y[0].data<T>());
      });
    } else if (t.dx[0] || norm().affine) {
      auto* const found = static_cast<Row*>(run.workspace);
      with_rows([&](auto form, unsigned blocks) {
        launch_following({blocks, kCombineThreads, 0, run.stream()},
                         batch_norm_softmax_rows_kernel<decltype(form), T>, features, rows(),
                         x.data<T>(), t.dy[0].data<T>(), found);
      });
      const SoftmaxGradient<F> gradient{FastDivisor(features.count), found};
      const Backward<T> backward(run.training, x, w, t.dy[0], t.state, t.dx[0],
                                 BatchNormParameters::of(t.dw, norm().affine));
      if (in_turns(2)) {
        const Turns turns = turns_of(norm(), backward_, 2, counters_);
        const Turns taken = t.dx[0] ? turns : turns.once();
        launch_following({taken.blocks(), kThreads, 0, run.stream()},
                         batch_norm_softmax_backward_turns_kernel<F>, backward_, taken, gradient,
                         backward, static_cast<Sums*>(static_cast<void*>(found + rows())));
      } else {
        launch_clusters(backward_, run.stream(), batch_norm_softmax_backward_kernel<F>, backward_,
                        gradient, backward);
      }
    }
  }

  /// Of a pass that keeps so many tensors: where no cluster has room for them.
  bool in_turns(int tensors) const { return !cluster_keeps(norm(), tensors); }
  Walk walk(int tensors) const {
    if (in_turns(tensors)) return walk_of_turns(norm(), tensors);
    return cluster_walk(norm(), tensors);
  }

  Features features_of(const Run& run, const LayerTensors& t, const BatchNormParameters& w) const {
    const auto* const of_batch = t.state.data<float>();
    return {.count = static_cast<int>(norm().channels()),
            .training = run.training,
            .eps = forward_.eps,
            .mean = run.training ? of_batch : w.running_mean.data<float>(),
            .spread = run.training ? of_batch + norm().channels() : w.running_var.data<float>(),
            .weight = w.weight.data<float>(),
            .bias = w.bias.data<float>()};
  }

  /// Calls visit(RegisterRow(), blocks) for the rows; each team has several where they are many.
  template <class Visit>
  void with_rows(Visit&& visit) const {
    constexpr int kBlocksPerMultiprocessor = 4;
    with_register_row<T>(norm().channels(), [&](auto form) {
      const auto most = static_cast<unsigned>(kBlocksPerMultiprocessor * multiprocessor_count());
      visit(form, std::min(form.blocks(rows()), most));
    });
  }

  const BatchNormProblem& norm() const { return problem_.norm; }
  int rows() const { return static_cast<int>(norm().x.shape[0]); }

  const Walk forward_, backward_;
  const TurnCounters counters_;
};

std::optional<std::string> unsupported(const Problem& problem, Pass pass) {
  const int64_t features = problem.norm.channels();
  if (features == 1) return "takes 2 features at least: the softmax of one is 1";
  if (features > kLongestRegisterRow) {
    return "keeps a row in registers, at most " + std::to_string(kLongestRegisterRow) + " features";
  }
  return batch_norm::unsupported(problem.norm, pass);
}

}  // namespace

ImplEntry<Problem> batch_norm_relu_softmax_custom_cluster() {
  return gpu_entry<BatchNormReluSoftmaxCustomCluster>("custom_cluster", unsupported);
}

}  // namespace duet
