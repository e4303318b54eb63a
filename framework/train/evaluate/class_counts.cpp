#include "train/evaluate/class_counts.h"

#include "core/storage.h"

namespace duet {
namespace {

template <class T>
void count_rows(const LabelledRows& rows, uint64_t* counts) {
  const int64_t c = rows.classes(), n = rows.count(), columns = rows.label_columns();
  const T* const x = rows.outputs.data<T>();
  const ClassCounts at{c};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = rows.labels.data<int32_t>()[i * columns];
    if (label < 0 || label >= c || label == rows.ignored) continue;
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

void count_classes(Context& context, const LabelledRows& rows, uint64_t* counts, StepState* state,
                   const StepEnd& end) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) {
    return count_classes_gpu(context, rows, counts, state, end);
  }
#endif
  (void)context;
  visit_storage(rows.outputs.desc.dtype, [&]<class T>(T) { count_rows<T>(rows, counts); });
  if (state) advance_state(*state, end);
}

}  // namespace duet
