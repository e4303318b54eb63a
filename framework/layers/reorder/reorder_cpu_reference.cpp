// Reorder, cpu_reference: four loops.
#include "layers/reorder/reorder.h"

namespace duet {
namespace {

template <class T>
class ReorderCpuReference : public ReorderImpl {
 public:
  using ReorderImpl::ReorderImpl;

  void reorder(const Run&, const Tensor& from, const Tensor& to) override {
    const Shape& s = from.shape();
    for (int64_t n = 0; n < s[0]; ++n) {
      for (int64_t c = 0; c < s[1]; ++c) {
        for (int64_t h = 0; h < s[2]; ++h) {
          for (int64_t w = 0; w < s[3]; ++w) {
            to.data<T>()[offset_of(to.desc, n, c, h, w)] =
                from.data<T>()[offset_of(from.desc, n, c, h, w)];
          }
        }
      }
    }
  }
};

}  // namespace

ImplEntry<ReorderProblem> reorder_cpu_reference() { return reference_entry<ReorderCpuReference>(); }

}  // namespace duet
