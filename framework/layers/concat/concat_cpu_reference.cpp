// Concat, cpu_reference: copies row by row.
#include <cstring>

#include "layers/concat/concat.h"

namespace duet {
namespace {

class ConcatCpuReference : public ConcatImpl {
 public:
  using ConcatImpl::ConcatImpl;

  void join(const Run&, const std::vector<Tensor>& x, const Tensor& y) override {
    for_each_piece(x, y,
                   [](char* whole, char* part, size_t bytes) { std::memcpy(whole, part, bytes); });
  }
  void cut(const Run&, const Tensor& dy, const std::vector<Tensor>& dx) override {
    for_each_piece(dx, dy,
                   [](char* whole, char* part, size_t bytes) { std::memcpy(part, whole, bytes); });
  }

 private:
  /// Calls visit(piece of the whole, the same piece of its part, bytes).
  template <class Visit>
  void for_each_piece(const std::vector<Tensor>& parts, const Tensor& whole, Visit&& visit) {
    char* at = whole.data<char>();
    for (int64_t row = 0; row < problem_.rows(); ++row) {
      for (size_t k = 0; k < parts.size(); ++k) {
        const size_t bytes = problem_.x[k].bytes() / static_cast<size_t>(problem_.rows());
        if (parts[k]) visit(at, parts[k].data<char>() + static_cast<size_t>(row) * bytes, bytes);
        at += bytes;
      }
    }
  }
};

}  // namespace

ImplEntry<ConcatProblem> concat_cpu_reference() {
  return impl_entry<ConcatCpuReference>("cpu_reference", supports_all, reference_dtypes());
}

}  // namespace duet
