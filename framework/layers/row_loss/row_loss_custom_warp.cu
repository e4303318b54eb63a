// mse, bce_with_logits and multi_margin custom_warp: one kernel a pass.
// Mapping:  1 to 32 lanes a row (4 for ten classes); forward one block up to 1024 lanes, else blocks
//           of 256, the last of which adds up the mean.
// Traffic:  forward x once; backward x once, dx once.
// Limits:   fp32 or bf16, fewer than 2^31 outputs.
#include "device/check.h"
#include "device/launch.h"
#include "layers/loss_rows.cuh"
#include "layers/row_loss/row_loss.h"

namespace duet {
namespace {

using loss_rows::Totals;

// What lane `lane` of a row works on. All lanes go round equally often: a warp shuffles as a whole
// even where its last rows are missing.
struct Row {
  int64_t first;  // index of its first output
  int label;
  bool inside, counts;

  __device__ Row(int row, int n, int c, const int* labels)
      : first(static_cast<int64_t>(row < n ? row : 0) * c),
        label(row < n ? labels[row] : -1),
        inside(row < n),
        counts(label >= 0 && label < c) {}
};

template <int kLanes, class Term, class T>
__global__ void __launch_bounds__(1024)
    row_loss_forward_kernel(Term term, int n, int c, const T* __restrict__ x,
                            const int* __restrict__ labels, Totals* totals, unsigned* ticket,
                            float* loss, int* hits) {
  wait_for_primary();
  const int lane = threadIdx.x % kLanes;
  const int stride = gridDim.x * blockDim.x / kLanes;
  Totals mine = {};
  int number = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  for (int base = 0; base < n; base += stride, number += stride) {
    const Row row(number, n, c, labels);
    const T* outputs = x + row.first;
    const float at_label = outputs[row.counts ? row.label : 0];
    float sum = 0.0f;
    bool beaten = false;
    for (int j = lane; row.counts && j < c; j += kLanes) {
      const float value = outputs[j];
      sum += term.value(value, at_label, j == row.label);
      beaten |= loss_rows::beats(value, j, at_label, row.label);
    }
    sum = loss_rows::lanes_sum<kLanes>(sum);
    beaten = loss_rows::lanes_any<kLanes>(beaten);
    if (lane == 0 && row.counts) {
      mine.loss += sum;
      mine.weight += static_cast<float>(c);
      mine.hits += !beaten;
      mine.counted += 1;
    }
  }
  loss_rows::finish(mine, totals, ticket, loss, hits, nullptr);
}

template <int kLanes, class Term, class T>
__global__ void __launch_bounds__(1024)
    row_loss_backward_kernel(Term term, int n, int c, const T* __restrict__ x,
                             const int* __restrict__ labels, const int* hits, const float* dloss,
                             T* __restrict__ dx) {
  wait_for_primary();
  const int lane = threadIdx.x % kLanes;
  const int stride = gridDim.x * blockDim.x / kLanes;
  const float scale = dloss[0] / (static_cast<float>(hits[1]) * static_cast<float>(c));
  int number = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  for (int base = 0; base < n; base += stride, number += stride) {
    const Row row(number, n, c, labels);
    const T* outputs = x + row.first;
    const float at_label = outputs[row.counts ? row.label : 0];
    float others = 0.0f;
    for (int j = lane; row.inside && j < c; j += kLanes) {
      const bool is_label = j == row.label;
      if (Term::kCoupled && row.counts && is_label) continue;
      const float slope = row.counts ? term.slope(float{outputs[j]}, at_label, is_label) : 0.0f;
      dx[row.first + j] = T(row.counts ? scale * slope : 0.0f);
      others += slope;
    }
    if constexpr (Term::kCoupled) {
      others = loss_rows::lanes_sum<kLanes>(others);
      if (lane == 0 && row.counts) dx[row.first + row.label] = T(-scale * others);
    }
  }
}

template <class T>
class RowLossCustomWarp : public RowLossImpl {
 public:
  explicit RowLossCustomWarp(const RowLossProblem& problem)
      : RowLossImpl(problem), plan_(problem.n, problem.c) {}

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? plan_.totals_bytes() : 0;
  }
  std::string detail(Pass) const override { return std::to_string(plan_.lanes) + " lanes a row"; }

  void forward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& loss,
               const Tensor& hits, const Tensor&) override {
    visit_row_loss(problem_, [&](auto term) {
      loss_rows::with_lanes(plan_.lanes, [&](auto lanes) {
        launch_following({plan_.blocks, plan_.threads, 0, run.stream()},
                         row_loss_forward_kernel<decltype(lanes)::value, decltype(term), T>, term,
                         problem_.n, problem_.c, x.data<T>(), labels.data<int>(),
                         static_cast<Totals*>(run.workspace), ticket_.get(), loss.data<float>(),
                         hits.data<int>());
      });
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& hits,
                const Tensor& dloss, const Tensor&, const Tensor& dx) override {
    visit_row_loss(problem_, [&](auto term) {
      loss_rows::with_lanes(plan_.lanes, [&](auto lanes) {
        launch_following({plan_.blocks, plan_.threads, 0, run.stream()},
                         row_loss_backward_kernel<decltype(lanes)::value, decltype(term), T>, term,
                         problem_.n, problem_.c, x.data<T>(), labels.data<int>(), hits.data<int>(),
                         dloss.data<float>(), dx.data<T>());
      });
    });
  }

 private:
  const loss_rows::Plan plan_;
  const loss_rows::Ticket ticket_;
};

}  // namespace

ImplEntry<RowLossProblem> row_loss_custom_warp() {
  ImplEntry<RowLossProblem> entry = gpu_entry<RowLossCustomWarp>("custom_warp");
  entry.shared = true;
  return entry;
}

}  // namespace duet
