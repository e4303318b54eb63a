// top_k_accuracy custom_warp: counts the outputs of a row that are larger than that of its label.
// Mapping:  1 to 32 lanes a row (4 for ten classes); blocks of 256 threads, the last of which adds up
//           the hits.
// Traffic:  x and labels once.
// Limits:   fp32 or bf16, fewer than 2^31 outputs.
#include "device/launch.h"
#include "kernels/grid_sum.cuh"
#include "layers/loss_rows.cuh"
#include "layers/top_k_accuracy/top_k_accuracy.h"

namespace duet {
namespace {

constexpr int64_t kMostBlocks = 1024;

template <int kLanes, class T>
__global__ void __launch_bounds__(kCombineThreads)
    top_k_accuracy_kernel(int n, int c, int k, bool mixed, int ignored, const T* x,
                          const int* labels, CountedSum* parts, unsigned* ticket, float* totals) {
  wait_for_primary();
  const int lane = threadIdx.x % kLanes;
  const int64_t stride = int64_t{gridDim.x} * kCombineThreads / kLanes;
  CountedSum mine;
  // All lanes go round equally often: a warp shuffles as a whole even where its last rows are missing.
  int64_t row = (int64_t{blockIdx.x} * kCombineThreads + threadIdx.x) / kLanes;
  for (int64_t base = 0; base < n; base += stride, row += stride) {
    const bool inside = row < n;
    const RowLabels of_row = labels_of_row(labels, mixed, inside ? row : 0, ignored);
    const bool counts = inside && of_row.count(c);
    const T* const outputs = x + (inside ? row : 0) * c;
    const float target = outputs[counts ? of_row.label : 0];
    int larger = 0;
    bool has_nan = false;
    for (int j = lane; counts && j < c; j += kLanes) {
      const float value = outputs[j];
      has_nan |= value != value;
      larger += value > target || (value == target && j < of_row.label);
    }
    larger = loss_rows::lanes_sum<kLanes>(larger);
    has_nan = loss_rows::lanes_any<kLanes>(has_nan);
    if (lane == 0 && counts) {
      mine.sum += !has_nan && larger < k ? 1.0 : 0.0;
      mine.count += 1.0;
    }
  }
  CountedSum total;
  if (!grid_sum(mine, parts, ticket, &total) || threadIdx.x > 0) return;
  totals[0] = float(total.sum);
  totals[1] = float(total.count);
}

template <class T>
class TopKAccuracyCustomWarp : public TopKAccuracyImpl {
 public:
  explicit TopKAccuracyCustomWarp(const TopKAccuracyProblem& problem)
      : TopKAccuracyImpl(problem), lanes_(loss_rows::Plan(problem.n, problem.c).lanes) {
    const int64_t threads = int64_t{problem.n} * lanes_;
    blocks_ = static_cast<unsigned>(
        std::min((threads + kCombineThreads - 1) / kCombineThreads, kMostBlocks));
  }

  size_t workspace_bytes(Pass) const override { return blocks_ * sizeof(CountedSum); }
  std::string detail(Pass) const override { return std::to_string(lanes_) + " lanes a row"; }

  void forward(const Run& run, const Tensor& x, const Tensor& labels,
               const Tensor& totals) override {
    loss_rows::with_lanes(lanes_, [&](auto lanes) {
      launch_following({blocks_, kCombineThreads, 0, run.stream()},
                       top_k_accuracy_kernel<decltype(lanes)::value, T>, problem_.n, problem_.c,
                       problem_.k, problem_.mixed, problem_.ignored_class, x.data<T>(),
                       labels.data<int>(), static_cast<CountedSum*>(run.workspace), ticket_.get(),
                       totals.data<float>());
    });
  }

 private:
  const int lanes_;
  unsigned blocks_;
  const loss_rows::Ticket ticket_;
};

}  // namespace

ImplEntry<TopKAccuracyProblem> top_k_accuracy_custom_warp() {
  auto entry = gpu_entry<TopKAccuracyCustomWarp>("custom_warp");
  entry.shared = true;
  return entry;
}

}  // namespace duet
