// class_counts: which class each row of outputs predicts, counted by class; the end of a batch's evaluation.
// Mapping:  warp = 1 row; one thread moves the state on.
// Traffic:  x once; up to five atomic additions of whole numbers a row.
// Limits:   fp32 or bf16; the counts do not depend on the order of the additions.
#include <climits>

#include "core/storage.h"
#include "device/check.h"
#include "device/launch.h"
#include "train/evaluate/class_counts.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    class_counts_kernel(int64_t n, int64_t c, const T* __restrict__ x,
                        const int* __restrict__ labels, int64_t columns, int ignored,
                        ClassCounts at, unsigned long long* counts, StepState* state,
                        const __grid_constant__ StepEnd end) {
  wait_for_primary();
  if (state && blockIdx.x == 0 && threadIdx.x == 0) advance_state(*state, end);
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (i >= n) return;
  const int label = labels[i * columns];
  if (label < 0 || label >= c || label == ignored) return;
  const int lane = threadIdx.x % 32;
  const T* row = x + i * c;
  const float target = row[label];
  float value = -INFINITY;
  int largest = INT_MAX, above = 0;
  bool has_nan = false;
  for (int j = lane; j < c; j += 32) {
    const float v = row[j];
    has_nan |= v != v;
    if (v > value || (v == value && j < largest)) {
      value = v;
      largest = j;
    }
    above += v > target || (v == target && j < label);
  }
  for (int step = 16; step > 0; step /= 2) {
    const float v = __shfl_xor_sync(0xFFFFFFFFu, value, step);
    const int j = __shfl_xor_sync(0xFFFFFFFFu, largest, step);
    if (v > value || (v == value && j < largest)) {
      value = v;
      largest = j;
    }
    above += __shfl_xor_sync(0xFFFFFFFFu, above, step);
  }
  has_nan = __any_sync(0xFFFFFFFFu, has_nan);
  if (lane != 0) return;
  atomicAdd(counts + at.labelled(label), 1ull);
  if (has_nan) return;
  atomicAdd(counts + at.predicted(largest), 1ull);
  if (largest == label) atomicAdd(counts + at.right(label), 1ull);
  if (at.pairs() > 0) atomicAdd(counts + at.pair(label, largest), 1ull);
  if (above < 5) atomicAdd(counts + at.in_top5(), 1ull);
}

}  // namespace

void count_classes_gpu(Context& context, const LabelledRows& rows, uint64_t* counts,
                       StepState* state, const StepEnd& end) {
  const int64_t n = rows.count(), c = rows.classes();
  const auto blocks = static_cast<unsigned>((n * 32 + kThreads - 1) / kThreads);
  visit_gpu_storage(rows.outputs.desc.dtype, [&]<class T>(T) {
    launch_following({blocks, kThreads, 0, context.stream()}, class_counts_kernel<T>, n, c,
                     rows.outputs.data<T>(), rows.labels.data<int>(), rows.label_columns(),
                     rows.ignored, ClassCounts{c}, reinterpret_cast<unsigned long long*>(counts),
                     state, end);
  });
}

}  // namespace duet
