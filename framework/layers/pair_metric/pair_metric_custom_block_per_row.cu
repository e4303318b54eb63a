// mean_absolute_error, mean_squared_error and psnr custom_block_per_row: a row a block, and the last
// block adds up the rows.
// Mapping:  block = one row, 256 threads; thread = every 256th of its elements, summed in double.
// Traffic:  x and targets once.
// Limits:   fp32 or bf16, fewer than 2^31 elements of a row, fewer than 2^31 rows, any layout.
#include "device/launch.h"
#include "kernels/grid_sum.cuh"
#include "kernels/integers.cuh"
#include "layers/loss_rows.cuh"
#include "layers/pair_metric/pair_metric.h"

namespace duet {
namespace {

// InnerElements with what a thread divides by.
struct Offsets {
  int count, first, length, lines, inner_lines;
  FastDivisor by_length, by_lines;

  explicit Offsets(const InnerElements& inner)
      : count(static_cast<int>(inner.count())),
        first(static_cast<int>(inner.first())),
        length(static_cast<int>(inner.length)),
        lines(static_cast<int>(inner.lines)),
        inner_lines(static_cast<int>(inner.inner_lines)),
        by_length(static_cast<int>(inner.inner_length)),
        by_lines(static_cast<int>(inner.inner_lines)) {}

  __device__ __forceinline__ int of(int i) const {
    int line, column, plane, line_of_plane;
    by_length.divmod(i, line, column);
    by_lines.divmod(line, plane, line_of_plane);
    return first + (plane * lines + line_of_plane) * length + column;
  }
};

template <PairMetricKind kind, class T>
__global__ void __launch_bounds__(kCombineThreads)
    pair_metric_kernel(Offsets offsets, int64_t row_elements, double data_range, const T* x,
                       const T* targets, const int* rows, CountedSum* parts, unsigned* ticket,
                       float* totals) {
  wait_for_primary();
  CountedSum mine;
  if (rows[blockIdx.x] >= 0) {  // the same in the whole block
    const T* const of_x = x + blockIdx.x * row_elements;
    const T* const of_targets = targets + blockIdx.x * row_elements;
    double sum = 0.0;
    for (unsigned i = threadIdx.x; i < unsigned(offsets.count); i += blockDim.x) {
      const int at = offsets.of(int(i));
      const float a = of_x[at], b = of_targets[at];
      sum += pair_metric_term(kind, double{a} - double{b});
    }
    sum = block_combine(sum, 1, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) mine = {pair_metric_of(kind, sum / offsets.count, data_range), 1.0};
  }
  CountedSum total;
  if (!grid_sum(mine, parts, ticket, &total) || threadIdx.x > 0) return;
  totals[0] = float(total.sum);
  totals[1] = float(total.count);
}

template <class T>
class PairMetricCustomBlockPerRow : public PairMetricImpl {
 public:
  using PairMetricImpl::PairMetricImpl;

  size_t workspace_bytes(Pass) const override { return problem_.rows() * sizeof(CountedSum); }

  void forward(const Run& run, const Tensor& x, const Tensor& targets, const Tensor& rows,
               const Tensor& totals) override {
    const auto launch = [&](auto* kernel) {
      launch_following({static_cast<unsigned>(problem_.rows()), kCombineThreads, 0, run.stream()},
                       kernel, offsets_, problem_.row_elements(), problem_.data_range, x.data<T>(),
                       targets.data<T>(), rows.data<int>(), static_cast<CountedSum*>(run.workspace),
                       ticket_.get(), totals.data<float>());
    };
    switch (problem_.kind) {
      case PairMetricKind::kMeanAbsoluteError:
        return launch(pair_metric_kernel<PairMetricKind::kMeanAbsoluteError, T>);
      case PairMetricKind::kMeanSquaredError:
        return launch(pair_metric_kernel<PairMetricKind::kMeanSquaredError, T>);
      case PairMetricKind::kPsnr:
        return launch(pair_metric_kernel<PairMetricKind::kPsnr, T>);
    }
  }

 private:
  const Offsets offsets_ = Offsets(InnerElements(problem_));
  const loss_rows::Ticket ticket_;
};

std::optional<std::string> unsupported(const PairMetricProblem& problem, Pass) {
  if (problem.row_elements() <= ConfigReader::kMaxInteger &&
      problem.rows() <= ConfigReader::kMaxInteger) {
    return {};
  }
  return "takes fewer than 2^31 elements a row, and fewer than 2^31 rows";
}

}  // namespace

ImplEntry<PairMetricProblem> pair_metric_custom_block_per_row() {
  auto entry = gpu_entry<PairMetricCustomBlockPerRow>("custom_block_per_row", unsupported);
  entry.shared = true;
  return entry;
}

}  // namespace duet
