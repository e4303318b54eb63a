// softmax_cross_entropy custom_naive: three passes over the logits, one thread a row.
// Mapping:  thread = 1 row; the third pass is one block, so that it can add up the mean.
// Traffic:  x twice and a label's logit and all logits again for the hits; neighbouring threads
//           read c values apart. Backward x once, dx once, as far apart.
// Limits:   fp32 or bf16, fewer than 2^31 logits.
#include "device/check.h"
#include "layers/loss_rows.cuh"
#include "layers/softmax_cross_entropy/soft_targets_cuda.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"

namespace duet {
namespace {

constexpr int kThreads = 128;
constexpr int kLossThreads = 1024;

__device__ int row_of_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <class T>
__global__ void softmax_cross_entropy_max_naive_kernel(int n, int c, const T* x, float* max) {
  const int row = row_of_thread();
  if (row >= n) return;
  const T* logits = x + static_cast<int64_t>(row) * c;
  float largest = logits[0];
  for (int j = 1; j < c; ++j) largest = fmaxf(largest, float{logits[j]});
  max[row] = largest;
}

template <class T>
__global__ void softmax_cross_entropy_sum_naive_kernel(int n, int c, const T* x, const float* max,
                                                       float* sum) {
  const int row = row_of_thread();
  if (row >= n) return;
  const T* logits = x + static_cast<int64_t>(row) * c;
  float total = 0.0f;
  for (int j = 0; j < c; ++j) total += expf(logits[j] - max[row]);
  sum[row] = total;
}

// One block, so no ticket.
template <class T>
__global__ void softmax_cross_entropy_loss_naive_kernel(SoftTargets targets, int n, int c,
                                                        const T* x, const int* labels,
                                                        const float* max, const float* sum,
                                                        float* loss, int* hits, float* weight) {
  loss_rows::Totals mine = {};
  for (int row = threadIdx.x; row < n; row += blockDim.x) {
    const RowLabels of_row = targets.of_row(labels, row);
    if (!of_row.count(c)) continue;
    const T* logits = x + static_cast<int64_t>(row) * c;
    const float target = logits[of_row.label];
    bool beaten = false;
    for (int j = 0; j < c; ++j) beaten |= loss_rows::beats(logits[j], j, target, of_row.label);
    const float log_sum = logf(sum[row]);
    const auto loss_of = [&](int j) {
      return targets.weight(j) * (log_sum - (logits[j] - max[row]));
    };
    float others = 0.0f;
    for (int j = 0; targets.spread != 0.0f && j < c; ++j) others += loss_of(j);
    mine.loss += targets.kept * of_row.mean(loss_of);
    mine.loss += targets.spread * others;
    mine.weight += targets.weight(of_row);
    mine.hits += !beaten;
    mine.counted += 1;
  }
  loss_rows::finish(mine, nullptr, nullptr, loss, hits, weight);
}

template <class T>
__global__ void softmax_cross_entropy_backward_naive_kernel(SoftTargets targets, int n, int c,
                                                            const T* x, const int* labels,
                                                            const float* weight, const float* dloss,
                                                            const float* max, const float* sum,
                                                            T* dx) {
  const int row = row_of_thread();
  if (row >= n) return;
  const RowLabels of_row = targets.of_row(labels, row);
  const bool counts = of_row.count(c);
  const float scale = *weight > 0.0f ? dloss[0] / *weight : 0.0f;
  for (int j = 0; j < c; ++j) {
    const int64_t i = static_cast<int64_t>(row) * c + j;
    const float probability = expf(x[i] - max[row]) / sum[row];
    dx[i] = T(counts ? scale * (targets.sum(of_row) * probability - targets.of(j, of_row)) : 0.0f);
  }
}

template <class T>
class SoftmaxCrossEntropyCustomNaive : public SoftmaxCrossEntropyImpl {
 public:
  explicit SoftmaxCrossEntropyCustomNaive(const SoftmaxCrossEntropyProblem& problem)
      : SoftmaxCrossEntropyImpl(problem), targets_(problem) {}

  size_t state_bytes() const override { return (2 * problem_.n + 1) * sizeof(float); }

  void forward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& loss,
               const Tensor& hits, const Tensor& state) override {
    const T* from = x.data<T>();
    const int n = problem_.n, c = problem_.c;
    softmax_cross_entropy_max_naive_kernel<<<blocks(), kThreads, 0, run.stream()>>>(n, c, from,
                                                                                    max(state));
    DUET_LAUNCHED();
    softmax_cross_entropy_sum_naive_kernel<<<blocks(), kThreads, 0, run.stream()>>>(
        n, c, from, max(state), sum(state));
    DUET_LAUNCHED();
    softmax_cross_entropy_loss_naive_kernel<<<1, kLossThreads, 0, run.stream()>>>(
        targets_.get(), n, c, from, labels.data<int>(), max(state), sum(state), loss.data<float>(),
        hits.data<int>(), weight(state));
    DUET_LAUNCHED();
  }

  void backward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor&,
                const Tensor& dloss, const Tensor& state, const Tensor& dx) override {
    softmax_cross_entropy_backward_naive_kernel<<<blocks(), kThreads, 0, run.stream()>>>(
        targets_.get(), problem_.n, problem_.c, x.data<T>(), labels.data<int>(), weight(state),
        dloss.data<float>(), max(state), sum(state), dx.data<T>());
    DUET_LAUNCHED();
  }

 private:
  int blocks() const { return (problem_.n + kThreads - 1) / kThreads; }
  float* max(const Tensor& state) const { return state.data<float>(); }
  float* sum(const Tensor& state) const { return state.data<float>() + problem_.n; }
  float* weight(const Tensor& state) const { return state.data<float>() + 2 * problem_.n; }

  const SoftTargetsOnGpu targets_;
};

}  // namespace

ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_custom_naive() {
  return gpu_entry<SoftmaxCrossEntropyCustomNaive>("custom_naive");
}

}  // namespace duet
