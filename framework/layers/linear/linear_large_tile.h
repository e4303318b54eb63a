// Products of linear layers by large tiles: the plan and the launch. custom_large_tile computes
// everything so, custom_register_tiled what the plan says is faster so.
#pragma once

#include <limits>

#include "layers/linear/linear_impls.h"
#include "layers/linear/linear_register_tiled.cuh"

namespace duet::linear {

/// Blocks of `of` that hold `count`.
inline int blocks_of(int64_t count, int64_t of) { return static_cast<int>((count + of - 1) / of); }

/// How the tiles of a product are dealt to the blocks.
struct Cut {
  int tiles_n;       // tiles along n; tile t is at row t / tiles_n, column t % tiles_n
  int slices;        // of a tile, along k
  int split;         // the first tiles, cut: their slices, in order, in shares of `each`
  int each;          // slices a block; at least 1
  int whole;         // the tiles after those, dealt in turn
  float* row_parts;  // sums of A over half a slice, 2 * slices times m; for row_sums
};

struct LargePlan {
  void (*kernel)(Product, Cut) = nullptr;
  size_t shared_bytes = 0;
  Cut cut{};
  int blocks = 0;
  size_t parts = 0;                                       // floats of the parts of the cut tiles
  size_t workspace = 0;                                   // bytes, row sums included
  double cost = std::numeric_limits<double>::infinity();  // microseconds on an H200
};

/// Why large tiles cannot do this, if so.
std::optional<std::string> large_tile_unsupported(const LinearProblem& problem, Pass pass);

/// The cost is infinite if it is not possible: unsupported, too little workspace, or not enough
/// shared memory on this GPU.
LargePlan plan_large(const LinearProblem& problem, Pass pass, size_t workspace_limit);

/// "tile 128x128, 68 of 200 cut for 132 blocks"
std::string describe(const LargePlan& plan);

void launch_large(const LargePlan& plan, Product product, const Run& run);

/// What a pass multiplies, without its matrices.
inline Product product_of(const LinearProblem& problem, Pass pass) {
  const int n = problem.n, in = problem.in, out = problem.out;
  if (pass == Pass::kForward) return {.m = n, .n = out, .k = in};
  if (pass == Pass::kBackwardData) return {.m = n, .n = in, .k = out};
  return {.m = out, .n = in, .k = n};
}

/// An implementation whose passes are a product each.
class ProductImpl : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    Product p = product_of(problem_, Pass::kForward);
    p.a = x.data<float>(), p.b = w.data<float>(), p.bias = b.data<float>(), p.c = y.data<float>();
    multiply(Pass::kForward, p, run);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    Product p = product_of(problem_, Pass::kBackwardData);
    p.a = dy.data<float>(), p.b = w.data<float>(), p.c = dx.data<float>();
    multiply(Pass::kBackwardData, p, run);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    Product p = product_of(problem_, Pass::kBackwardFilter);
    p.a = dy.data<float>(), p.b = x.data<float>(), p.c = dw.data<float>();
    p.row_sums = db.data<float>();
    multiply(Pass::kBackwardFilter, p, run);
  }

 protected:
  /// C = A B, with the epilogue of `pass`.
  virtual void multiply(Pass pass, const Product& product, const Run& run) = 0;
};

}  // namespace duet::linear
