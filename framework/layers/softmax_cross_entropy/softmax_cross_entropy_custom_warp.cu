// softmax_cross_entropy custom_warp: forward is one kernel, mean and hits included.
// Mapping:  1 to 32 lanes a row (4 for ten classes); one block up to 1024 lanes, else blocks of
//           256.
// Traffic:  forward x once (later looks hit L1), 8 bytes a row kept; backward x once, dx once.
// Limits:   fp32 or bf16, fewer than 2^31 logits.
#include "device/check.h"
#include "device/launch.h"
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
        mine.loss += targets.kept * targets.mean(of_row, loss_of);
        mine.loss += targets.spread * others;
        mine.weight += targets.weight(of_row);
        mine.hits += !beaten;
        mine.counted += 1;
      }
    }
  }
  loss_rows::finish(mine, totals, ticket, loss, hits, weight);
}

template <class T>
__global__ void softmax_cross_entropy_backward_warp_kernel(SoftTargets targets, int elements, int c,
                                                           const T* x, const int* labels,
                                                           const float* weight, const float* dloss,
                                                           const float2* kept, T* dx) {
  wait_for_primary();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  const int row = i / static_cast<unsigned>(c);
  const int j = i % static_cast<unsigned>(c);
  const RowLabels of_row = targets.of_row(labels, row);
  float gradient = 0.0f;
  if (of_row.count(c)) {
    const float scale = *weight > 0.0f ? dloss[0] / *weight : 0.0f;
    const float2 k = kept[row];
    const float probability = expf(x[i] - k.x) * k.y;
    gradient = scale * (targets.sum(of_row) * probability - targets.of(j, of_row));
  }
  dx[i] = T(gradient);
}

template <class T>
class SoftmaxCrossEntropyCustomWarp : public SoftmaxCrossEntropyImpl {
 public:
  explicit SoftmaxCrossEntropyCustomWarp(const SoftmaxCrossEntropyProblem& problem)
      : SoftmaxCrossEntropyImpl(problem), targets_(problem), plan_(problem.n, problem.c) {}

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? plan_.totals_bytes() : 0;
  }
  size_t state_bytes() const override { return problem_.n * sizeof(float2) + sizeof(float); }
  std::string detail(Pass pass) const override {
    if (pass != Pass::kForward) return "";
    return std::to_string(plan_.lanes) + " lanes a row";
  }

  void forward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& loss,
               const Tensor& hits, const Tensor& state) override {
    loss_rows::with_lanes(plan_.lanes, [&](auto lanes) {
      launch_following({plan_.blocks, plan_.threads, 0, run.stream()},
                       softmax_cross_entropy_forward_warp_kernel<decltype(lanes)::value, T>,
                       targets_.get(), problem_.n, problem_.c, x.data<T>(), labels.data<int>(),
                       state.data<float2>(), static_cast<Totals*>(run.workspace), ticket_.get(),
                       loss.data<float>(), hits.data<int>(), weight(state));
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor&,
                const Tensor& dloss, const Tensor& state, const Tensor& dx) override {
    constexpr int kThreads = 256;
    const unsigned elements = static_cast<unsigned>(problem_.elements());
    launch_following({(elements + kThreads - 1) / kThreads, kThreads, 0, run.stream()},
                     softmax_cross_entropy_backward_warp_kernel<T>, targets_.get(), elements,
                     problem_.c, x.data<T>(), labels.data<int>(), weight(state),
                     dloss.data<float>(), state.data<float2>(), dx.data<T>());
  }

 private:
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
