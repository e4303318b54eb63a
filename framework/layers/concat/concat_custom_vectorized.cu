// concat custom_vectorized: all parts in one launch, 16 bytes at a time where every row allows it.
// Mapping:  thread = 16 neighbouring bytes of a row of the whole (1 element where a width is no
//           multiple of them), consecutive threads along the row; it looks up which part they
//           belong to.
// Traffic:  the whole once and every part once. More than 8 inputs: a launch for each 8.
// Limits:   fp32 or bf16, any size and layout; tensors start at multiples of 16 bytes, as every
//           arena's do.
#include <algorithm>

#include "device/check.h"
#include "device/launch.h"
#include "layers/concat/concat.h"

namespace duet {
namespace {

constexpr int kThreads = 256;
constexpr int kMostAtOnce = 8;

/// Neighbouring parts; all numbers are in units of what a thread moves.
struct Parts {
  void* part[kMostAtOnce];     // null: left out
  int64_t width[kMostAtOnce];  // of its rows
  int count = 0;
  int64_t span = 0;   // sum of the widths
  int64_t first = 0;  // where in a row of the whole they begin
};

template <class Unit, bool join>
__global__ void concat_vectorized_kernel(Parts parts, int64_t rows, int64_t pitch, Unit* whole) {
  wait_for_primary();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = i / parts.span;
  if (row >= rows) return;
  int64_t column = i - row * parts.span;
  Unit* const at = whole + row * pitch + parts.first + column;
  int k = 0;
  while (column >= parts.width[k]) column -= parts.width[k++];
  Unit* const part = static_cast<Unit*>(parts.part[k]);
  if (!part) return;
  if (join) {
    *at = part[row * parts.width[k] + column];
  } else {
    part[row * parts.width[k] + column] = *at;
  }
}

template <class T>
class ConcatCustomVectorized : public ConcatImpl {
 public:
  explicit ConcatCustomVectorized(const ConcatProblem& problem)
      : ConcatImpl(problem),
        wide_(std::all_of(problem.x.begin(), problem.x.end(), [&](const TensorDesc& x) {
          return problem.width(x) * static_cast<int64_t>(size_of(x.dtype)) % sizeof(float4) == 0;
        })) {}

  void join(const Run& run, const std::vector<Tensor>& x, const Tensor& y) override {
    move<true>(run, x, y);
  }
  void cut(const Run& run, const Tensor& dy, const std::vector<Tensor>& dx) override {
    move<false>(run, dx, dy);
  }

 private:
  template <bool join>
  void move(const Run& run, const std::vector<Tensor>& parts, const Tensor& whole) {
    wide_ ? move<float4, join>(run, parts, whole) : move<T, join>(run, parts, whole);
  }
  template <class Unit, bool join>
  void move(const Run& run, const std::vector<Tensor>& parts, const Tensor& whole) {
    const auto per_unit = static_cast<int64_t>(sizeof(Unit) / size_of(problem_.dtype));
    const int64_t rows = problem_.rows(), pitch = problem_.width(problem_.y) / per_unit;
    int64_t first = 0;
    for (size_t next = 0; next < parts.size();) {
      Parts some{.first = first};
      while (some.count < kMostAtOnce && next < parts.size()) {
        some.part[some.count] = parts[next].memory;
        some.width[some.count] = problem_.width(problem_.x[next++]) / per_unit;
        some.span += some.width[some.count++];
      }
      first += some.span;
      const auto blocks = static_cast<unsigned>((rows * some.span + kThreads - 1) / kThreads);
      launch_following({blocks, kThreads, 0, run.stream()}, concat_vectorized_kernel<Unit, join>,
                       some, rows, pitch, whole.data<Unit>());
    }
  }

  const bool wide_;
};

}  // namespace

ImplEntry<ConcatProblem> concat_custom_vectorized() {
  return gpu_entry<ConcatCustomVectorized>("custom_vectorized");
}

}  // namespace duet
