// linear custom_split_k: custom_vectorised with its sum cut into ranges, so that a product of few
//           tiles has work for every multiprocessor. The kernel is in linear_vectorised.cuh.
// Mapping:  block = a tile of custom_vectorised over one range of k; a second kernel, thread = 1
//           output, adds the parts, always in the same order: the same bits in every run.
// Traffic:  as custom_vectorised; the parts, 4 bytes an output and range, are also written and read.
// Limits:   as custom_vectorised.
#include "kernels/split_reduction.cuh"
#include "layers/linear/linear_vectorised.cuh"

namespace duet {
namespace {

using linear::StoredProduct;

template <class T>
class LinearCustomSplitK : public linear::StoredProductImpl<T, LinearCustomSplitK<T>> {
  using Base = linear::StoredProductImpl<T, LinearCustomSplitK>;

 public:
  LinearCustomSplitK(const LinearProblem& problem, Context& context)
      : Base(problem),
        forward_(split(problem.n, problem.out, problem.in, context)),
        backward_data_(split(problem.n, problem.in, problem.out, context)),
        backward_filter_(split(problem.out, problem.in, problem.n, context)) {}

  size_t workspace_bytes(Pass pass) const override {
    const LinearProblem& p = this->problem_;
    if (pass == Pass::kForward) return parts_bytes(forward_, p.n, p.out);
    if (pass == Pass::kBackwardData) return parts_bytes(backward_data_, p.n, p.in);
    return parts_bytes(backward_filter_, p.out, p.in);
  }
  std::string detail(Pass pass) const override {
    const SplitPlan& plan = pass == Pass::kForward        ? forward_
                            : pass == Pass::kBackwardData ? backward_data_
                                                          : backward_filter_;
    return "split-K " + std::to_string(plan.splits);
  }

  template <bool kInnerA, bool kInnerB, class TA, class TB, class TC>
  void multiply(const StoredProduct<TA, TB, TC>& p, const Run& run) {
    const SplitPlan& plan = !kInnerA ? backward_filter_ : kInnerB ? forward_ : backward_data_;
    if (plan.splits == 1) {
      return linear::launch_vectorised<kInnerA, kInnerB>(p, 1, p.k, 0, run);
    }
    // region parts
    auto* const parts = static_cast<float*>(run.workspace);
    const auto stride = static_cast<int64_t>(partial_stride(p.m, p.n));
    const int outputs = p.m * p.n;
    const StoredProduct<TA, TB, float> part = {.m = p.m,
                                               .n = p.n,
                                               .k = p.k,
                                               .a = p.a,
                                               .b = p.b,
                                               .c = parts,
                                               .row_sums = p.row_sums ? parts + outputs : nullptr};
    linear::launch_vectorised<kInnerA, kInnerB>(part, plan.splits, plan.depth_per_split, stride,
                                                run);
    if constexpr (kInnerA) {  // y and dx: the bias is added to the sum, which is rounded once
      launch_sum_images<Layout::kNHWC>(parts, plan.splits, stride, outputs, p.n, 1, p.bias, p.c,
                                       run.stream());
    } else {  // dw and, behind each of its parts, db
      const int count = outputs + (p.row_sums ? p.m : 0);
      launch_reduce_splits(parts, plan.splits, stride, count, outputs, p.c, p.row_sums,
                           run.stream());
    }
    // end parts
  }

 private:
  /// So many ranges as give a multiprocessor four blocks, which are eight warps. A range is at least
  /// four slices long: those are as many bytes as its part takes to write and read.
  static SplitPlan split(int m, int n, int k, const Context& context) {
    using Tile = linear::VectorisedTile;
    const int64_t tiles = int64_t{ceil_div(m, Tile::kSize)} * ceil_div(n, Tile::kSize);
    const int64_t ranges = std::min<int64_t>(
        {4 * multiprocessor_count() / tiles, k / (4 * Tile::kDepth),
         static_cast<int64_t>(context.workspace_limit() / sizeof(float) / partial_stride(m, n))});
    if (ranges < 2) return {};
    const int few = static_cast<int>(tiles);  // at most four a multiprocessor
    return plan_split(few, k, Tile::kDepth, static_cast<int>(ranges) * few);
  }
  static size_t parts_bytes(const SplitPlan& plan, int m, int n) {
    return plan.splits == 1 ? 0 : sizeof(float) * plan.splits * partial_stride(m, n);
  }

  const SplitPlan forward_, backward_data_, backward_filter_;
};

}  // namespace

ImplEntry<LinearProblem> linear_custom_split_k() {
  return gpu_entry<LinearCustomSplitK>("custom_split_k", linear::vectorised_unsupported);
}

}  // namespace duet
