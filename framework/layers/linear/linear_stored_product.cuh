// The three passes of a linear layer as products of matrices that are read and written as they are
// stored: what the first rungs of the ladder have in common.
//   forward          A = x  (k inner)  B = w (k inner)  the bias is added to every row
//   backward_data    A = dy (k inner)  B = w (k outer)
//   backward_filter  A = dy (k outer)  B = x (k outer)  the row sums of A are the bias gradient
#pragma once

#include "device/check.h"
#include "layers/linear/linear.h"

namespace duet::linear {

/// C (m x n, row-major) = A (m x k) B (k x n), stored in TA, TB and TC.
template <class TA, class TB, class TC>
struct StoredProduct {
  int m, n, k;
  const TA* a;
  const TB* b;
  const float* bias;  // n, added to every row; may be nullptr
  TC* c;
  float* row_sums;  // m, the sums of A over k; nullptr but where both operands have k outer
};

/// The passes, each by Derived::multiply<kInnerA, kInnerB>(StoredProduct, Run): k is the inner
/// dimension of A and B in memory, or the outer one. x, y and their gradients are stored in T.
template <class T, class Derived>
class StoredProductImpl : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    self().template multiply<true, true>(StoredProduct<T, float, T>{.m = problem_.n,
                                                                    .n = problem_.out,
                                                                    .k = problem_.in,
                                                                    .a = x.data<T>(),
                                                                    .b = w.data<float>(),
                                                                    .bias = b.data<float>(),
                                                                    .c = y.data<T>()},
                                         run);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    self().template multiply<true, false>(StoredProduct<T, float, T>{.m = problem_.n,
                                                                     .n = problem_.in,
                                                                     .k = problem_.out,
                                                                     .a = dy.data<T>(),
                                                                     .b = w.data<float>(),
                                                                     .c = dx.data<T>()},
                                          run);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    self().template multiply<false, false>(StoredProduct<T, T, float>{.m = problem_.out,
                                                                      .n = problem_.in,
                                                                      .k = problem_.n,
                                                                      .a = dy.data<T>(),
                                                                      .b = x.data<T>(),
                                                                      .c = dw.data<float>(),
                                                                      .row_sums = db.data<float>()},
                                           run);
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

}  // namespace duet::linear
