// ssim, cpu_reference: an image and a channel at a time.
#include "layers/ssim/ssim.h"

namespace duet {
namespace {

template <class T>
class SsimCpuReference : public SsimImpl {
 public:
  using SsimImpl::SsimImpl;
  using Value = Accumulator<T>;

  size_t workspace_bytes(Pass) const override {
    return static_cast<size_t>(problem_.width()) * sizeof(SsimMoments);
  }

  void forward(const Run& run, const Tensor& x, const Tensor& targets, const Tensor& rows,
               const Tensor& totals) override {
    double sum = 0;
    int64_t counted = 0;
    for (int64_t i = 0; i < problem_.images(); ++i) {
      if (rows.data<int32_t>()[i] < 0) continue;
      const int64_t image = i * (problem_.x.elements() / problem_.images());
      sum += of_image(x.data<T>() + image, targets.data<T>() + image,
                      static_cast<SsimMoments*>(run.workspace));
      ++counted;
    }
    totals.data<Value>()[0] = static_cast<Value>(sum);
    totals.data<Value>()[1] = static_cast<Value>(counted);
  }

 private:
  double of_image(const T* x, const T* targets, SsimMoments* columns) const {
    const SsimFormula formula = problem_.formula();
    const InnerPixels pixels(problem_);
    double sum = 0;
    for (int64_t c = 0; c < problem_.channels(); ++c) {
      const int64_t first = pixels.first + c * pixels.channel;
      const auto of = [&](const T* values) {
        return [&pixels, plane = values + first](int64_t row, int64_t column) {
          return double{Value(plane[row * pixels.row + column * pixels.column])};
        };
      };
      sum += ssim_sum(formula, problem_.height(), problem_.width(), of(x), of(targets), columns);
    }
    return sum / static_cast<double>(problem_.windows());
  }
};

}  // namespace

ImplEntry<SsimProblem> ssim_cpu_reference() { return reference_entry<SsimCpuReference>(); }

}  // namespace duet
