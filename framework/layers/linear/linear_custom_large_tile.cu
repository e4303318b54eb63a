// linear custom_large_tile: tiles of 128x128 dealt to all multiprocessors, cut along k where
//           they do not divide. The product is in linear_large_tile.cuh; here are the plan and the
//           launch.
// Mapping:  block = an equal share of the slices of all tiles, one block a multiprocessor; lane =
//           8x16 sums of half of a slice's k.
// Traffic:  an operand is read once for each 128 rows or columns of the other; the parts of cut
//           tiles are written and read, up to two of 64 KiB a block.
// Limits:   fp32, lines that start on 16 bytes, 2^31 floats an operand, 128 KiB of shared memory.
// Measured: 3200 -> 256 at batch 1024 on an H200: forward 46.1 us, backward_filter 45.2,
//           backward_data 48.7, beside 45.0, 47.2, 49.3 of cudnn_cublas in the same run.
#include <algorithm>
#include <limits>

#include "core/error.h"
#include "device/attribute.h"
#include "device/check.h"
#include "device/device.h"
#include "device/launch.h"
#include "device/likely_multiprocessors.h"
#include "kernels/few_rows.cuh"
#include "layers/linear/linear_large_tile.cuh"

namespace duet {
namespace {

using linear::blocks_of;
using linear::Cut;
using linear::LargeTile;
using linear::Product;

struct Plan {
  void (*kernel)(Product, Cut) = nullptr;
  size_t shared_bytes = 0;
  Cut cut{};
  int blocks = 0;
  size_t parts = 0;      // floats of the parts of the cut tiles
  size_t workspace = 0;  // bytes, row sums included
};

template <bool kInnerA, bool kInnerB>
void set_kernel(Plan& plan) {
  plan.kernel = linear::linear_large_tile_kernel<kInnerA, kInnerB>;
  plan.shared_bytes = linear::large_shared_bytes<kInnerA, kInnerB>();
}

/// For a GPU of `sms` multiprocessors. REQUIRES: the pass is supported.
Plan plan_of(const LinearProblem& problem, Pass pass, int sms) {
  Plan plan;
  const Product p = linear::product_of(problem, pass);
  const bool row_sums = pass == Pass::kBackwardFilter && problem.bias;
  Cut& cut = plan.cut;
  cut.tiles_n = blocks_of(p.n, LargeTile::kN);
  cut.slices = blocks_of(p.k, LargeTile::kUnit);
  const int64_t tiles = int64_t{cut.tiles_n} * blocks_of(p.m, LargeTile::kM);
  cut.split = static_cast<int>(tiles % sms);
  cut.whole = static_cast<int>(tiles - cut.split);
  cut.each = std::max(1, blocks_of(int64_t{cut.split} * cut.slices, sms));
  const int sharers = blocks_of(int64_t{cut.split} * cut.slices, cut.each);
  plan.blocks = cut.whole > 0 ? sms : sharers;
  if (cut.split > 0) plan.parts = size_t{4} * LargeTile::kFloat4s * (sharers + cut.split);
  const size_t row_parts = row_sums ? size_t{LargeTile::kGroups} * cut.slices * p.m : 0;
  plan.workspace = sizeof(float) * (plan.parts + row_parts);
  if (pass == Pass::kForward) {
    set_kernel<true, true>(plan);
  } else if (pass == Pass::kBackwardData) {
    set_kernel<true, false>(plan);
  } else {
    set_kernel<false, false>(plan);
  }
  return plan;
}

std::optional<std::string> unsupported(const LinearProblem& problem, Pass pass) {
  if (problem.in % 4 != 0 || (pass != Pass::kForward && problem.out % 4 != 0)) {
    return "copies 16 bytes at a time, and a row does not divide into them";
  }
  const Product p = linear::product_of(problem, pass);
  const int64_t longest = int64_t{std::max(p.m, p.n)} * p.k;
  const int64_t tiles = int64_t{blocks_of(p.m, LargeTile::kM)} * blocks_of(p.n, LargeTile::kN);
  constexpr int kMost = std::numeric_limits<int>::max();
  if (longest > kMost || tiles * blocks_of(p.k, LargeTile::kUnit) > kMost / 2) {
    return "counts the floats of an operand and the slices of a product in 31 bits";
  }
  if (gpu_available()) {
    const size_t takes = plan_of(problem, pass, likely_multiprocessor_count()).shared_bytes;
    const auto most = static_cast<size_t>(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    if (takes > most) {
      return "takes " + std::to_string(takes / 1024) +
             " KiB of shared memory a block, and this GPU has " + std::to_string(most / 1024);
    }
  }
  return {};
}

/// From here on at most 10% slower than custom_register_tiled, and mostly faster, by models of both
/// times on an H200 that were fitted to measurements (3200 -> 256 at batch 1024: 45.3, 49.4, 47.0
/// us for 48.7, 54.5, 55.6).
bool preferred(const LinearProblem& problem, Pass pass, size_t workspace_limit) {
  if (problem.math != Math::kFP32) return false;  // tensor cores are faster
  const Product p = linear::product_of(problem, pass);
  // dw of few rows custom_register_tiled writes without tiles.
  if (pass == Pass::kBackwardFilter && p.k <= kRowsAtOnce) return false;
  return std::min(p.m, p.n) >= LargeTile::kM && static_cast<double>(p.m) * p.n * p.k >= 600e6 &&
         plan_of(problem, pass, likely_multiprocessor_count()).workspace <= workspace_limit;
}

class LinearCustomLargeTile : public linear::ProductImpl {
 public:
  LinearCustomLargeTile(const LinearProblem& problem, Context&) : ProductImpl(problem) {}

  void prepare(Pass pass, Context& context) override {
    const Plan made = plan_of(problem_, pass, likely_multiprocessor_count());
    if (made.workspace > context.workspace_limit()) {
      throw UnsupportedError("linear custom_large_tile: takes " +
                             std::to_string((made.workspace >> 20) + 1) +
                             " MiB of workspace; raise workspace_limit_mib, or take "
                             "custom_register_tiled");
    }
    DUET_CUDA(cudaFuncSetAttribute(made.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(made.shared_bytes)));
    plans_[static_cast<size_t>(pass)] = made;
  }

  size_t workspace_bytes(Pass pass) const override { return plan(pass).workspace; }
  std::string detail(Pass pass) const override {
    const Cut& cut = plan(pass).cut;
    return "tile 128x128, " + std::to_string(cut.split) + " of " +
           std::to_string(cut.split + cut.whole) + " cut for " + std::to_string(plan(pass).blocks) +
           " blocks";
  }

 private:
  void multiply(Pass pass, const Product& product, const Run& run) override {
    const Plan& of = plan(pass);
    Product p = product;
    Cut cut = of.cut;
    p.partials = static_cast<float*>(run.workspace);
    cut.row_parts = p.row_sums ? p.partials + of.parts : nullptr;
    launch_following({of.blocks, LargeTile::kThreads, of.shared_bytes, run.stream()}, of.kernel, p,
                     cut);
    const int blocks = cut.split * LargeTile::kSumBlocks + (p.row_sums ? blocks_of(p.m, 32) : 0);
    if (blocks == 0) return;
    launch({.gridDim = blocks, .blockDim = LargeTile::kSumThreads, .stream = run.stream()},
           {overlaps_primary()}, linear::linear_sum_large_kernel, p, cut);
  }

  const Plan& plan(Pass pass) const { return plans_[static_cast<size_t>(pass)]; }

  Plan plans_[4];  // by Pass
};

}  // namespace

ImplEntry<LinearProblem> linear_custom_large_tile() {
  return {.id = "custom_large_tile",
          .unsupported = unsupported,
          .make = make_implementation<LinearCustomLargeTile>,
          .preferred = preferred};
}

}  // namespace duet
