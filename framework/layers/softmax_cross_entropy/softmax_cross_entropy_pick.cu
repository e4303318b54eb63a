// softmax_cross_entropy, the part of cudnn that is not in cuDNN: one kernel a pass.
// Mapping:  forward 1 to 32 lanes a row, as custom_warp; backward thread = 1 logit.
// Traffic:  forward x once (for the hits), a float a row of log_softmax; backward one write.
// Limits:   fp32, fewer than 2^31 logits.
#include "device/check.h"
#include "device/launch.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy_pick.h"

namespace duet {
namespace {

using loss_rows::Totals;

// Rows that do not count are set to 0 in log_softmax: a NaN there would be 0 * NaN in dx.
template <int kLanes>
__global__ void __launch_bounds__(1024)
    softmax_cross_entropy_pick_kernel(SoftTargets targets, int n, int c, const float* x,
                                      float* log_softmax, const int* labels, Totals* totals,
                                      unsigned* ticket, float* loss, int* hits, float* weight) {
  wait_for_primary();
  const int lane = threadIdx.x % kLanes;
  const int stride = gridDim.x * blockDim.x / kLanes;
  Totals mine = {};
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  for (int base = 0; base < n; base += stride, row += stride) {
    const RowLabels of_row = targets.of_row(labels, row < n ? row : 0);
    const bool counts = row < n && of_row.count(c);
    const auto loss_of = [&](int j) {
      return -targets.weight(j) * log_softmax[static_cast<int64_t>(row) * c + j];
    };
    bool beaten = false;
    float others = 0.0f;
    if (row < n && !counts) {
      for (int j = lane; j < c; j += kLanes) log_softmax[static_cast<int64_t>(row) * c + j] = 0.0f;
    } else if (counts) {
      const float* logits = x + static_cast<int64_t>(row) * c;
      const float target = logits[of_row.label];
      for (int j = lane; j < c; j += kLanes) {
        beaten |= loss_rows::beats(logits[j], j, target, of_row.label);
      }
      for (int j = lane; targets.spread != 0.0f && j < c; j += kLanes) others += loss_of(j);
    }
    beaten = loss_rows::lanes_any<kLanes>(beaten);
    if (targets.spread != 0.0f) others = loss_rows::lanes_sum<kLanes>(others);
    if (lane == 0 && counts) {
      mine.loss += targets.kept * of_row.mean(loss_of);
      mine.loss += targets.spread * others;
      mine.weight += targets.weight(of_row);
      mine.hits += !beaten;
      mine.counted += 1;
    }
  }
  loss_rows::finish(mine, totals, ticket, loss, hits, weight);
}

__global__ void softmax_cross_entropy_unpick_kernel(SoftTargets targets, unsigned elements, int c,
                                                    const int* labels, const float* weight,
                                                    const float* dloss, float* d_log_softmax) {
  wait_for_primary();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  const int row = i / static_cast<unsigned>(c);
  const int j = i % static_cast<unsigned>(c);
  const RowLabels of_row = targets.of_row(labels, row);
  const float total = *weight;
  const bool counts = of_row.count(c) && total > 0.0f;
  d_log_softmax[i] = counts ? -dloss[0] / total * targets.of(j, of_row) : 0.0f;
}

}  // namespace

void LabelPick::forward(const Run& run, const float* x, float* log_softmax, const Tensor& labels,
                        const Tensor& loss, const Tensor& hits, float* weight) {
  loss_rows::with_lanes(plan_.lanes, [&](auto lanes) {
    launch_following({plan_.blocks, plan_.threads, 0, run.stream()},
                     softmax_cross_entropy_pick_kernel<decltype(lanes)::value>, targets_.get(),
                     problem_.n, problem_.c, x, log_softmax, labels.data<int>(),
                     static_cast<Totals*>(run.workspace), ticket_.get(), loss.data<float>(),
                     hits.data<int>(), weight);
  });
}

void LabelPick::backward(const Run& run, const Tensor& labels, const Tensor& dloss,
                         const float* weight, float* d_log_softmax) {
  constexpr int kThreads = 256;
  const unsigned elements = static_cast<unsigned>(problem_.elements());
  launch_following({(elements + kThreads - 1) / kThreads, kThreads, 0, run.stream()},
                   softmax_cross_entropy_unpick_kernel, targets_.get(), elements, problem_.c,
                   labels.data<int>(), weight, dloss.data<float>(), d_log_softmax);
}

}  // namespace duet
