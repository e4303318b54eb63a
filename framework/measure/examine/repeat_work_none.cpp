// repeat_work.h in a build without CUDA: everything is done at once.
#include "measure/examine/repeat_work.h"

#include "measure/examine/repeat_work_cpu.h"

namespace duet {

void queue_variant(Context&, const Tensor& to, const void* from, const uint64_t* number) {
  write_variant(to, from, number);
}

void queue_step(Context&, uint64_t* to, uint64_t from, const uint64_t* number) {
  *to = from + *number;
}

void queue_count_differences(Context&, const void* a, const void* b, size_t bytes,
                             uint64_t* count) {
  count_differences(a, b, bytes, count);
}

void queue_fill_shared_memory(Context&) {}

}  // namespace duet
