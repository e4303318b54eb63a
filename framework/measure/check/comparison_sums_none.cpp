#include <stdexcept>

#include "measure/check/comparison_sums.h"

namespace duet {

ComparisonSums comparison_sums_on_gpu(const ExpectedValues&, const Tensor&, const Limit&,
                                      Context&) {
  throw std::logic_error("this build has no CUDA");
}

}  // namespace duet
