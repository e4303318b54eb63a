// What the passes of a linear layer multiply, for implementations that compute all three by one
// kernel.
#pragma once

#include "layers/linear/linear.h"
#include "layers/linear/linear_register_tiled.cuh"

namespace duet::linear {

/// Blocks of `of` that hold `count`.
inline int blocks_of(int64_t count, int64_t of) { return static_cast<int>((count + of - 1) / of); }

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
    p.relu = problem_.relu;
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
