// Concat, cudnn: cudnnTransformTensor, y = 1 * x + 0 * y, between a part and its place in the
// whole: descriptors of the same sizes, of which one has the whole's row as its stride.
#include "device/cudnn_descriptors.h"
#include "layers/concat/concat.h"

namespace duet {
namespace {

class ConcatCudnn : public ConcatImpl {
 public:
  explicit ConcatCudnn(const ConcatProblem& problem) : ConcatImpl(problem) {
    const int64_t row = problem.width(problem.y);
    for (const TensorDesc& x : problem.x) {
      const int64_t width = problem.width(x);
      parts_.emplace_back(problem.dtype, problem.rows(), width, width);
      places_.emplace_back(problem.dtype, problem.rows(), width, row);
    }
  }

  std::vector<std::string> calls(Pass) const override {
    return std::vector<std::string>(problem_.x.size(), "cudnnTransformTensor");
  }

  void join(const Run& run, const std::vector<Tensor>& x, const Tensor& y) override {
    char* place = y.data<char>();
    for (size_t k = 0; k < x.size(); ++k) {
      copy(run.context, parts_[k], x[k].memory, places_[k], place);
      place += row_bytes(k);
    }
  }
  void cut(const Run& run, const Tensor& dy, const std::vector<Tensor>& dx) override {
    char* place = dy.data<char>();
    for (size_t k = 0; k < dx.size(); ++k) {
      if (dx[k]) copy(run.context, places_[k], place, parts_[k], dx[k].memory);
      place += row_bytes(k);
    }
  }

 private:
  /// Of a row of part k.
  size_t row_bytes(size_t k) const {
    return problem_.x[k].bytes() / static_cast<size_t>(problem_.rows());
  }
  static void copy(Context& context, const gpu::RowsDescriptor& from_rows, const void* from,
                   const gpu::RowsDescriptor& to_rows, void* to) {
    const float one = 1.0f, zero = 0.0f;
    DUET_CUDNN(cudnnTransformTensor(context.cudnn(), &one, from_rows.get(), from, &zero,
                                    to_rows.get(), to));
  }

  std::vector<gpu::RowsDescriptor> parts_, places_;
};

}  // namespace

ImplEntry<ConcatProblem> concat_cudnn() {
  return impl_entry<ConcatCudnn>("cudnn", supports_all, gpu_dtypes());
}

}  // namespace duet
