// conv2d cpu_reference: the definition as loops, float or double; everything a convolution can do.
#include <algorithm>

#include "core/parallel.h"
#include "layers/conv2d/conv2d_impls.h"

namespace duet {
namespace {

/// Calls visit(k, c, r, s, p, q, h, w) for every product that image n's outputs of the filters
/// [k_begin, k_end) are made of; c counts within the group, products with x outside the image are
/// left out.
template <class Visit>
void for_each_product(const Conv2dProblem& problem, int k_begin, int k_end, Visit&& visit) {
  for (int k = k_begin; k < k_end; ++k) {
    for (int c = 0; c < problem.channels_per_group(); ++c) {
      for (int r = 0; r < problem.r; ++r) {
        for (int s = 0; s < problem.s; ++s) {
          for (int p = 0; p < problem.p; ++p) {
            const int64_t h =
                int64_t{p} * problem.stride_h + int64_t{r} * problem.dilation_h - problem.pad_h;
            if (h < 0 || h >= problem.h) continue;
            for (int q = 0; q < problem.q; ++q) {
              const int64_t w =
                  int64_t{q} * problem.stride_w + int64_t{s} * problem.dilation_w - problem.pad_w;
              if (w < 0 || w >= problem.w) continue;
              visit(k, c, r, s, p, q, h, w);
            }
          }
        }
      }
    }
  }
}

class Conv2dCpuReference : public Conv2dImpl {
 public:
  using Conv2dImpl::Conv2dImpl;

  void forward(Context&, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    for_dtype([&](auto zero) {
      using T = decltype(zero);
      parallel_for(problem_.n, problem_.products(), [&](int64_t n) {
        for (int k = 0; k < problem_.k; ++k) {
          for (int p = 0; p < problem_.p; ++p) {
            for (int q = 0; q < problem_.q; ++q) {
              y.data<T>()[offset_of(y.desc, n, k, p, q)] = b ? b.data<T>()[k] : zero;
            }
          }
        }
        for_each_product(problem_, 0, problem_.k,
                         [&](int k, int c, int r, int s, int p, int q, int64_t h, int64_t column) {
                           y.data<T>()[offset_of(y.desc, n, k, p, q)] +=
                               x.data<T>()[offset_of(x.desc, n, first_channel(k) + c, h, column)] *
                               w.data<T>()[offset_of(w.desc, k, c, r, s)];
                         });
      });
    });
  }

  void backward_data(Context&, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    for_dtype([&](auto zero) {
      using T = decltype(zero);
      std::fill_n(dx.data<T>(), dx.elements(), zero);
      parallel_for(problem_.n, problem_.products(), [&](int64_t n) {
        for_each_product(problem_, 0, problem_.k,
                         [&](int k, int c, int r, int s, int p, int q, int64_t h, int64_t column) {
                           dx.data<T>()[offset_of(dx.desc, n, first_channel(k) + c, h, column)] +=
                               dy.data<T>()[offset_of(dy.desc, n, k, p, q)] *
                               w.data<T>()[offset_of(w.desc, k, c, r, s)];
                         });
      });
    });
  }

  void backward_filter(Context&, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    for_dtype([&](auto zero) {
      using T = decltype(zero);
      std::fill_n(dw.data<T>(), dw.elements(), zero);
      parallel_for(problem_.k, problem_.products(), [&](int64_t item) {
        const int filter = static_cast<int>(item);
        T bias_gradient = zero;
        for (int n = 0; n < problem_.n; ++n) {
          for_each_product(
              problem_, filter, filter + 1,
              [&](int k, int c, int r, int s, int p, int q, int64_t h, int64_t column) {
                dw.data<T>()[offset_of(dw.desc, k, c, r, s)] +=
                    dy.data<T>()[offset_of(dy.desc, n, k, p, q)] *
                    x.data<T>()[offset_of(x.desc, n, first_channel(k) + c, h, column)];
              });
          for (int p = 0; p < problem_.p; ++p) {
            for (int q = 0; q < problem_.q; ++q) {
              bias_gradient += dy.data<T>()[offset_of(dy.desc, n, filter, p, q)];
            }
          }
        }
        if (db) db.data<T>()[filter] = bias_gradient;
      });
    });
  }

 private:
  /// The first input channel that filter k sees.
  int first_channel(int k) const {
    return k / (problem_.k / problem_.groups) * problem_.channels_per_group();
  }

  template <class Loops>
  void for_dtype(Loops&& loops) {
    problem_.dtype == DType::kFloat64 ? loops(0.0) : loops(0.0f);
  }
};

}  // namespace

ImplEntry<Conv2dProblem> conv2d_cpu_reference() {
  return {"cpu_reference", supports_all, make_implementation<Conv2dCpuReference>};
}

}  // namespace duet
