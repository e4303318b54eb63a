// linear custom_large_tile: tiles of 128x128 dealt to all multiprocessors, cut along k where
//           they do not divide. The product is in linear_large_tile.cuh; here are the deal, its
//           cost and the launch, which custom_register_tiled uses too.
// Mapping:  block = an equal share of the slices of all tiles, one block a multiprocessor; lane =
//           8x16 sums of half of a slice's k.
// Traffic:  an operand is read once for each 128 rows or columns of the other; the parts of cut
//           tiles are written and read, up to two of 64 KiB a block.
// Limits:   fp32, lines that start on 16 bytes, 2^31 floats an operand, 128 KiB of shared memory.
// Measured: 3200 -> 256 at batch 1024 on an H200: forward 46.1 us, backward_filter 45.2,
//           backward_data 48.7, beside 45.0, 47.2, 49.3 of cudnn_cublas in the same run.
#include <algorithm>

#include "core/error.h"
#include "device/attribute.h"
#include "device/check.h"
#include "device/launch.h"
#include "layers/linear/linear_large_tile.cuh"

namespace duet {
namespace linear {
namespace {

/// Microseconds on an H200, fitted to the times of twelve products, off by 3% on average: the start
/// and end of a block, its slices at `rate` of the FMA at 1.9 GHz, the output; where there is a
/// second kernel, its launch and the parts of the cut tiles.
double cost(double rate, const Product& p, const LargePlan& plan, int slices, bool second) {
  const double fma = double{LargeTile::kM} * LargeTile::kN * LargeTile::kUnit * slices;
  return 3.9 + fma / (128 * 1900.0) / rate + 0.3 * 4e-6 * p.m * p.n +
         (second ? 1.1 + 0.2 * 4e-6 * plan.parts : 0);
}

template <bool kInnerA, bool kInnerB>
void set_kernel(LargePlan& plan) {
  plan.kernel = linear_large_tile_kernel<kInnerA, kInnerB>;
  plan.shared_bytes = large_shared_bytes<kInnerA, kInnerB>();
}

}  // namespace

std::optional<std::string> large_tile_unsupported(const LinearProblem& problem, Pass pass) {
  if (problem.in % 4 != 0 || (pass != Pass::kForward && problem.out % 4 != 0)) {
    return "copies 16 bytes at a time, and a row does not divide into them";
  }
  const Product p = product_of(problem, pass);
  if (int64_t{std::max(p.m, p.n)} * p.k > std::numeric_limits<int>::max()) {
    return "counts the floats of an operand in 31 bits";
  }
  return fp32_only(problem, pass);
}

LargePlan plan_large(const LinearProblem& problem, Pass pass, size_t workspace_limit) {
  LargePlan plan;
  if (large_tile_unsupported(problem, pass)) return plan;
  const Product p = product_of(problem, pass);
  const bool row_sums = pass == Pass::kBackwardFilter && problem.bias;
  const int sms = gpu_attribute(cudaDevAttrMultiProcessorCount);
  Cut& cut = plan.cut;
  cut.tiles_n = blocks_of(p.n, LargeTile::kN);
  cut.slices = blocks_of(p.k, LargeTile::kUnit);
  const int64_t tiles = int64_t{cut.tiles_n} * blocks_of(p.m, LargeTile::kM);
  if (tiles * cut.slices > std::numeric_limits<int>::max() / 2) return plan;
  cut.split = static_cast<int>(tiles % sms);
  cut.whole = static_cast<int>(tiles - cut.split);
  cut.each = std::max(1, blocks_of(int64_t{cut.split} * cut.slices, sms));
  const int sharers = blocks_of(int64_t{cut.split} * cut.slices, cut.each);
  plan.blocks = cut.whole > 0 ? sms : sharers;
  if (cut.split > 0) plan.parts = size_t{4} * LargeTile::kFloat4s * (sharers + cut.split);
  const size_t row_parts = row_sums ? size_t{LargeTile::kGroups} * cut.slices * p.m : 0;
  plan.workspace = sizeof(float) * (plan.parts + row_parts);
  double rate = 0.735;
  if (pass == Pass::kForward) {
    set_kernel<true, true>(plan);
    rate = 0.70;
  } else if (pass == Pass::kBackwardData) {
    set_kernel<true, false>(plan);
  } else {
    set_kernel<false, false>(plan);
  }
  const auto most_shared =
      static_cast<size_t>(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  if (plan.workspace > workspace_limit || plan.shared_bytes > most_shared) return {};
  DUET_CUDA(cudaFuncSetAttribute(plan.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(plan.shared_bytes)));
  const int slices = cut.whole / sms * cut.slices + (cut.split > 0 ? cut.each : 0);
  plan.cost = cost(rate, p, plan, slices, cut.split > 0 || row_sums);
  return plan;
}

std::string describe(const LargePlan& plan) {
  return "tile 128x128, " + std::to_string(plan.cut.split) + " of " +
         std::to_string(plan.cut.split + plan.cut.whole) + " cut for " +
         std::to_string(plan.blocks) + " blocks";
}

void launch_large(const LargePlan& plan, Product p, const Run& run) {
  Cut cut = plan.cut;
  p.partials = static_cast<float*>(run.workspace);
  cut.row_parts = p.row_sums ? p.partials + plan.parts : nullptr;
  plan.kernel<<<plan.blocks, LargeTile::kThreads, plan.shared_bytes, run.stream()>>>(p, cut);
  DUET_LAUNCHED();
  const int blocks = cut.split * LargeTile::kSumBlocks + (p.row_sums ? blocks_of(p.m, 32) : 0);
  if (blocks == 0) return;
  launch({.gridDim = blocks, .blockDim = LargeTile::kSumThreads, .stream = run.stream()},
         {overlaps_primary()}, linear_sum_large_kernel, p, cut);
}

}  // namespace linear

namespace {

using linear::LargePlan;

class LinearCustomLargeTile : public linear::ProductImpl {
 public:
  LinearCustomLargeTile(const LinearProblem& problem, Context&) : ProductImpl(problem) {}

  void prepare(Pass pass, Context& context) override {
    plan(pass) = linear::plan_large(problem_, pass, context.workspace_limit());
    if (!plan(pass).kernel) {
      throw UnsupportedError(
          "linear custom_large_tile: too little shared memory on this GPU, or workspace");
    }
  }

  size_t workspace_bytes(Pass pass) const override { return plan(pass).workspace; }
  std::string detail(Pass pass) const override { return describe(plan(pass)); }

 private:
  void multiply(Pass pass, const linear::Product& product, const Run& run) override {
    launch_large(plan(pass), product, run);
  }

  LargePlan& plan(Pass pass) { return plans_[static_cast<size_t>(pass)]; }
  const LargePlan& plan(Pass pass) const { return plans_[static_cast<size_t>(pass)]; }

  LargePlan plans_[4];  // by Pass
};

}  // namespace

ImplEntry<LinearProblem> linear_custom_large_tile() {
  return {"custom_large_tile", linear::large_tile_unsupported,
          make_implementation<LinearCustomLargeTile>};
}

}  // namespace duet
