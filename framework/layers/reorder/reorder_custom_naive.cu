// reorder custom_naive: one element a thread, counted in the order of the source.
// Mapping:  thread = 1 element; block = 256.
// Traffic:  x once, coalesced; y once, each thread of a warp in a sector (32 bytes) of its own.
// Limits:   fp32 or bf16, fewer than 2^31 elements.
#include "device/check.h"
#include "layers/reorder/reorder.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

// region element
template <class T>
__global__ void reorder_naive_kernel(unsigned elements, unsigned rows, unsigned columns,
                                     const T* from, T* to) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  const unsigned column = i % columns;
  const unsigned row = i / columns % rows;
  const unsigned image = i / columns / rows;
  to[(image * columns + column) * rows + row] = from[i];
}
// end element

template <class T>
class ReorderCustomNaive : public ReorderImpl {
 public:
  using ReorderImpl::ReorderImpl;

  void reorder(const Run& run, const Tensor& from, const Tensor& to) override {
    const ReorderMatrix matrix(from.desc, to.desc.layout);
    const unsigned elements = static_cast<unsigned>(from.elements());
    reorder_naive_kernel<<<(elements + kThreads - 1) / kThreads, kThreads, 0, run.stream()>>>(
        elements, matrix.rows, matrix.columns, from.data<T>(), to.data<T>());
    DUET_LAUNCHED();
  }
};

}  // namespace

ImplEntry<ReorderProblem> reorder_custom_naive() {
  return gpu_entry<ReorderCustomNaive>("custom_naive");
}

}  // namespace duet
