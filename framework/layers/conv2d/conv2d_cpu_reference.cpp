// conv2d cpu_reference: the definition as loops; everything a convolution can do.
#include <algorithm>

#include "core/parallel.h"
#include "layers/conv2d/conv2d.h"
#include "layers/rounded_sums.h"

namespace duet {
namespace {

/// Calls visit(row) for all rows of products that image n's outputs of the filters [k_begin, k_end)
/// are made of: one for each filter's weight and row of outputs.
struct Row {
  int k, c, r, s;         // the weight; c counts within the group
  int p, q_begin, q_end;  // the outputs whose pixel is in the image
  int64_t h, w_begin;     // the pixel of q_begin; that of the next output is stride_w further
};
template <class Visit>
void for_each_row(const Conv2dProblem& problem, int k_begin, int k_end, Visit&& visit) {
  for (int k = k_begin; k < k_end; ++k) {
    for (int c = 0; c < problem.channels_per_group(); ++c) {
      for (int r = 0; r < problem.r; ++r) {
        for (int s = 0; s < problem.s; ++s) {
          const int64_t left = int64_t{s} * problem.dilation_w - problem.pad_w;  // w of q = 0
          int q_begin = 0, q_end = problem.q;
          while (q_begin < q_end && left + int64_t{q_begin} * problem.stride_w < 0) ++q_begin;
          while (q_end > q_begin && left + int64_t{q_end - 1} * problem.stride_w >= problem.w) {
            --q_end;
          }
          for (int p = 0; p < problem.p; ++p) {
            const int64_t h =
                int64_t{p} * problem.stride_h + int64_t{r} * problem.dilation_h - problem.pad_h;
            if (h < 0 || h >= problem.h) continue;
            visit(
                Row{k, c, r, s, p, q_begin, q_end, h, left + int64_t{q_begin} * problem.stride_w});
          }
        }
      }
    }
  }
}

/// Distance in memory of pixels that are neighbours in a row.
int64_t pixel_step(const TensorDesc& desc) {
  return desc.layout == Layout::kNCHW ? 1 : desc.shape[1];
}

template <class T>
class Conv2dCpuReference : public Conv2dImpl {
 public:
  using Conv2dImpl::Conv2dImpl;
  using Sum = Accumulator<T>;

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward        ? sum_bytes(problem_.y_desc())
           : pass == Pass::kBackwardData ? sum_bytes(problem_.x_desc())
                                         : 0;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    Sum* sums = sums_of<T>(y, run);
    parallel_for(problem_.n, problem_.products(), [&](int64_t n) {
      for (int k = 0; k < problem_.k; ++k) {
        for (int p = 0; p < problem_.p; ++p) {
          for (int q = 0; q < problem_.q; ++q) {
            sums[offset_of(y.desc, n, k, p, q)] = b ? b.data<Sum>()[k] : Sum(0);
          }
        }
      }
      for_each_row(problem_, 0, problem_.k, [&](const Row& row) {
        const auto [x_row, x_step] = input_row(x.data<T>(), x.desc, n, row);
        const auto [y_row, y_step] = output_row(sums, y.desc, n, row);
        const Sum weight = w.data<Sum>()[offset_of(w.desc, row.k, row.c, row.r, row.s)];
        for (int64_t i = 0; i < row.q_end - row.q_begin; ++i) {
          y_row[i * y_step] += x_row[i * x_step] * weight;
        }
      });
    });
    store_sums<T>(sums, y);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    Sum* sums = sums_of<T>(dx, run);
    std::fill_n(sums, dx.elements(), Sum(0));
    parallel_for(problem_.n, problem_.products(), [&](int64_t n) {
      for_each_row(problem_, 0, problem_.k, [&](const Row& row) {
        const auto [dx_row, dx_step] = input_row(sums, dx.desc, n, row);
        const auto [dy_row, dy_step] = output_row(dy.data<T>(), dy.desc, n, row);
        const Sum weight = w.data<Sum>()[offset_of(w.desc, row.k, row.c, row.r, row.s)];
        for (int64_t i = 0; i < row.q_end - row.q_begin; ++i) {
          dx_row[i * dx_step] += dy_row[i * dy_step] * weight;
        }
      });
    });
    store_sums<T>(sums, dx);
  }

  void backward_filter(const Run&, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    std::fill_n(dw.data<Sum>(), dw.elements(), Sum(0));
    parallel_for(problem_.k, problem_.products(), [&](int64_t item) {
      const int filter = static_cast<int>(item);
      Sum bias_gradient = 0;
      for (int n = 0; n < problem_.n; ++n) {
        for_each_row(problem_, filter, filter + 1, [&](const Row& row) {
          const auto [x_row, x_step] = input_row(x.data<T>(), x.desc, n, row);
          const auto [dy_row, dy_step] = output_row(dy.data<T>(), dy.desc, n, row);
          Sum& gradient = dw.data<Sum>()[offset_of(dw.desc, row.k, row.c, row.r, row.s)];
          Sum sum = gradient;
          for (int64_t i = 0; i < row.q_end - row.q_begin; ++i) {
            sum += dy_row[i * dy_step] * x_row[i * x_step];
          }
          gradient = sum;
        });
        for (int p = 0; p < problem_.p; ++p) {
          for (int q = 0; q < problem_.q; ++q) {
            bias_gradient += dy.data<T>()[offset_of(dy.desc, n, filter, p, q)];
          }
        }
      }
      if (db) db.data<Sum>()[filter] = bias_gradient;
    });
  }

 private:
  /// The first input channel that filter k sees.
  int first_channel(int k) const {
    return k / (problem_.k / problem_.groups) * problem_.channels_per_group();
  }

  /// The first pixel of a row of products in x (or dx), and the distance to the next one's.
  template <class V>
  std::pair<V*, int64_t> input_row(V* x, const TensorDesc& desc, int64_t n, const Row& row) const {
    const int64_t c = first_channel(row.k) + row.c;
    return {x + offset_of(desc, n, c, row.h, row.w_begin), problem_.stride_w * pixel_step(desc)};
  }
  /// The same in y (or dy).
  template <class V>
  std::pair<V*, int64_t> output_row(V* y, const TensorDesc& desc, int64_t n, const Row& row) const {
    return {y + offset_of(desc, n, row.k, row.p, row.q_begin), pixel_step(desc)};
  }
};

}  // namespace

ImplEntry<Conv2dProblem> conv2d_cpu_reference() { return reference_entry<Conv2dCpuReference>(); }

}  // namespace duet
