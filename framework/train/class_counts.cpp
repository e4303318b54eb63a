#include "train/class_counts.h"

#include "core/storage.h"

namespace duet {
namespace {

template <class T>
void count_rows(const T* x, const int32_t* labels, int64_t columns, int64_t n, int64_t c,
                uint64_t* counts) {
  const ClassCounts at{c};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = labels[i * columns];
    if (label < 0 || label >= c) continue;
    const T* row = x + i * c;
    int64_t largest = 0, above = 0;
    bool has_nan = false;
    for (int64_t j = 0; j < c; ++j) {
      has_nan |= row[j] != row[j];
      if (row[j] > row[largest]) largest = j;
      above += row[j] > row[label] || (row[j] == row[label] && j < label);
    }
    ++counts[at.labelled(label)];
    if (has_nan) continue;
    ++counts[at.predicted(largest)];
    counts[at.right(label)] += largest == label;
    if (at.pairs() > 0) ++counts[at.pair(label, largest)];
    counts[at.in_top5()] += above < 5;
  }
}

}  // namespace

void count_classes(Context& context, const Tensor& outputs, const Tensor& labels, uint64_t* counts,
                   StepState* state, const StepEnd& end) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) {
    return count_classes_gpu(context, outputs, labels, counts, state, end);
  }
#endif
  (void)context;
  const Shape& shape = outputs.desc.shape;
  visit_storage(outputs.desc.dtype, [&]<class T>(T) {
    count_rows(outputs.data<T>(), labels.data<int32_t>(), labels.elements() / shape[0], shape[0],
               shape[1], counts);
  });
  if (state) advance_state(*state, end);
}

}  // namespace duet
