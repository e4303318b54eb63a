// conv2d cpu_blas: each image is spread into a matrix with a column for each output (im2col), so
// that a convolution becomes one matrix product an image and group.
//
//   nchw:  Y [K x PQ] = W [K x CRS] * X [CRS x PQ]       nhwc:  Y [PQ x K] = X [PQ x RSC] * W' [RSC
//   x K]
//
// The batch is cut into slices that threads take; inside a slice BLAS runs on one thread, because
// products of one image are too small to share. The sum over the batch in backward_filter
// is kept by slice and added in the order of the slices, so it is the same for any number of
// threads.
#include <algorithm>

#include "core/arena.h"
#include "core/parallel.h"
#include "core/single_threaded_blas.h"
#include "layers/conv2d/conv2d.h"

namespace duet {
namespace {

/// Most slices of the batch: enough for the cores of a workstation, few enough that a copy of the
/// weights' gradient for each is cheap.
constexpr int kMaxSlices = 16;

/// The outputs [first, last) whose input position output * stride + offset lies in [0, size).
struct Range {
  int first, last;
};
Range inside(int64_t offset, int stride, int size, int outputs) {
  const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t last = offset >= size ? 0 : (size - 1 - offset) / stride + 1;
  const int64_t clamped_first = std::min<int64_t>(first, outputs);
  return {static_cast<int>(clamped_first),
          static_cast<int>(std::clamp<int64_t>(last, clamped_first, outputs))};
}

/// A row-major matrix inside a larger one.
struct Matrix {
  float* data;
  int64_t stride;
};

/// c [m x n] = op(a) [m x k] * op(b) [k x n] + beta * c
void multiply(CBLAS_TRANSPOSE op_a, CBLAS_TRANSPOSE op_b, int m, int n, int k, Matrix a, Matrix b,
              float beta, Matrix c) {
  cblas_sgemm(CblasRowMajor, op_a, op_b, m, n, k, 1.0f, a.data, static_cast<int>(a.stride), b.data,
              static_cast<int>(b.stride), beta, c.data, static_cast<int>(c.stride));
}

class Conv2dCpuBlas : public Conv2dImpl {
 public:
  explicit Conv2dCpuBlas(const Conv2dProblem& problem)
      : Conv2dImpl(problem),
        outputs_(problem.p * problem.q),
        taps_(problem.channels_per_group() * problem.r * problem.s),
        filters_(problem.k / problem.groups),
        nhwc_(problem.layout == Layout::kNHWC),
        in_place_(problem.r == 1 && problem.s == 1 && problem.stride_h == 1 &&
                  problem.stride_w == 1 && problem.pad_h == 0 && problem.pad_w == 0),
        slices_(std::min(problem.n, kMaxSlices)) {}

  size_t workspace_bytes(Pass pass) const override {
    const size_t slice = columns_bytes() + (pass == Pass::kBackwardFilter ? filter_bytes() : 0);
    return product_of({slices_, static_cast<int64_t>(slice)});
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    for_each_image(run, [&](int, int n, int group, float* columns) {
      const Matrix from = x_matrix(x, n, group, columns);
      if (!in_place_) im2col(x, n, group, from);
      const Matrix to = y_matrix(y, n, group), weights = w_matrix(w, group);
      if (b) fill_with_bias(b.data<float>() + group * filters_, to);
      const float beta = b ? 1.0f : 0.0f;
      if (nhwc_) {
        multiply(CblasNoTrans, CblasTrans, outputs_, filters_, taps_, from, weights, beta, to);
      } else {
        multiply(CblasNoTrans, CblasNoTrans, filters_, outputs_, taps_, weights, from, beta, to);
      }
    });
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    for_each_image(run, [&](int, int n, int group, float* columns) {
      const Matrix from = y_matrix(dy, n, group), weights = w_matrix(w, group);
      const Matrix to = x_matrix(dx, n, group, columns);
      if (nhwc_) {
        multiply(CblasNoTrans, CblasNoTrans, outputs_, taps_, filters_, from, weights, 0.0f, to);
      } else {
        multiply(CblasTrans, CblasNoTrans, taps_, outputs_, filters_, weights, from, 0.0f, to);
      }
      if (!in_place_) {
        if (group == 0) std::fill_n(image(dx, n), dx.elements() / problem_.n, 0.0f);
        add_columns(to, dx, n, group);
      }
    });
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    for_each_image(run, [&](int slice, int n, int group, float* columns) {
      const Matrix from = x_matrix(x, n, group, columns), gradient = y_matrix(dy, n, group);
      if (!in_place_) im2col(x, n, group, from);
      const Matrix to = {slice_filter(run, slice) + int64_t{group} * filters_ * taps_, taps_};
      const float beta = n == first_image(slice) ? 0.0f : 1.0f;
      if (nhwc_) {
        multiply(CblasTrans, CblasNoTrans, filters_, taps_, outputs_, gradient, from, beta, to);
      } else {
        multiply(CblasNoTrans, CblasTrans, filters_, taps_, outputs_, gradient, from, beta, to);
      }
    });
    float* sum = dw.data<float>();
    parallel_ranges(dw.elements(), slices_, [&](int64_t first, int64_t last) {
      std::copy(slice_filter(run, 0) + first, slice_filter(run, 0) + last, sum + first);
      for (int slice = 1; slice < slices_; ++slice) {
        const float* part = slice_filter(run, slice);
        for (int64_t i = first; i < last; ++i) sum[i] += part[i];
      }
    });
    if (db) sum_of_outputs(dy, db);
  }

 private:
  /// Calls work(slice, n, group, columns) for every image and group, the groups of an image in
  /// order; `columns` is the slice's own scratch memory.
  template <class Work>
  void for_each_image(const Run& run, Work&& work) const {
    char* scratch = static_cast<char*>(run.workspace);
    const SingleThreadedBlas single;
    parallel_for(slices_, products(), [&](int64_t index) {
      const int slice = static_cast<int>(index);
      float* columns = reinterpret_cast<float*>(scratch + slice * columns_bytes());
      for (int n = first_image(slice); n < first_image(slice + 1); ++n) {
        for (int group = 0; group < problem_.groups; ++group) work(slice, n, group, columns);
      }
    });
  }

  int64_t products() const { return problem_.products(); }
  int first_image(int slice) const {
    return static_cast<int>(int64_t{problem_.n} * slice / slices_);
  }
  size_t columns_bytes() const {
    return in_place_ ? 0 : align_up(product_of({sizeof(float), taps_, outputs_}));
  }
  size_t filter_bytes() const { return align_up(problem_.w_desc().bytes()); }
  float* slice_filter(const Run& run, int slice) const {
    return reinterpret_cast<float*>(static_cast<char*>(run.workspace) + slices_ * columns_bytes() +
                                    slice * filter_bytes());
  }

  static float* image(const Tensor& t, int n) {
    return t.data<float>() + t.elements() / t.shape()[0] * n;
  }
  /// The images' part of one group, as the matrix that multiplies the weights: `columns`, or the
  /// image itself for a 1x1 kernel.
  Matrix x_matrix(const Tensor& x, int n, int group, float* columns) const {
    if (!in_place_) return {columns, nhwc_ ? taps_ : outputs_};
    const int64_t first = int64_t{group} * problem_.channels_per_group();
    return nhwc_ ? Matrix{image(x, n) + first, problem_.c}
                 : Matrix{image(x, n) + first * outputs_, outputs_};
  }
  Matrix y_matrix(const Tensor& y, int n, int group) const {
    const int64_t first = int64_t{group} * filters_;
    return nhwc_ ? Matrix{image(y, n) + first, problem_.k}
                 : Matrix{image(y, n) + first * outputs_, outputs_};
  }
  Matrix w_matrix(const Tensor& w, int group) const {
    return {w.data<float>() + int64_t{group} * filters_ * taps_, taps_};
  }

  void fill_with_bias(const float* bias, Matrix y) const {
    const int rows = nhwc_ ? outputs_ : filters_;
    for (int i = 0; i < rows; ++i) {
      float* row = y.data + i * y.stride;
      if (nhwc_) {
        std::copy_n(bias, filters_, row);
      } else {
        std::fill_n(row, outputs_, bias[i]);
      }
    }
  }

  void im2col(const Tensor& x, int n, int group, Matrix columns) const {
    nhwc_ ? im2row(x, n, group, columns) : im2col_nchw(x, n, group, columns);
  }
  void add_columns(Matrix columns, const Tensor& dx, int n, int group) const {
    nhwc_ ? add_rows(columns, dx, n, group) : add_columns_nchw(columns, dx, n, group);
  }

  /// Calls visit(c, r, row, ps, qs, offset) for every row (c, r, s) of the columns: the outputs ps
  /// x qs read inside the image there, output q at column q * stride_w + offset.
  template <class Visit>
  void for_each_row(Visit&& visit) const {
    int row = 0;
    for (int c = 0; c < problem_.channels_per_group(); ++c) {
      for (int r = 0; r < problem_.r; ++r) {
        const Range ps = inside(int64_t{r} * problem_.dilation_h - problem_.pad_h,
                                problem_.stride_h, problem_.h, problem_.p);
        for (int s = 0; s < problem_.s; ++s, ++row) {
          const int64_t offset = int64_t{s} * problem_.dilation_w - problem_.pad_w;
          const Range qs = inside(offset, problem_.stride_w, problem_.w, problem_.q);
          visit(c, r, row, ps, qs, offset);
        }
      }
    }
  }

  void im2col_nchw(const Tensor& x, int n, int group, Matrix columns) const {
    const float* plane0 =
        image(x, n) + int64_t{group} * problem_.channels_per_group() * problem_.h * problem_.w;
    for_each_row([&](int c, int r, int row, Range ps, Range qs, int64_t offset) {
      const float* plane = plane0 + int64_t{c} * problem_.h * problem_.w;
      float* to = columns.data + row * columns.stride;
      std::fill_n(to, int64_t{ps.first} * problem_.q, 0.0f);
      for (int p = ps.first; p < ps.last; ++p) {
        const int h = p * problem_.stride_h + r * problem_.dilation_h - problem_.pad_h;
        const float* from = plane + int64_t{h} * problem_.w + offset;
        float* line = to + int64_t{p} * problem_.q;
        std::fill(line, line + qs.first, 0.0f);
        if (problem_.stride_w == 1) {
          std::copy(from + qs.first, from + qs.last, line + qs.first);
        } else {
          for (int q = qs.first; q < qs.last; ++q) line[q] = from[int64_t{q} * problem_.stride_w];
        }
        std::fill(line + qs.last, line + problem_.q, 0.0f);
      }
      std::fill_n(to + int64_t{ps.last} * problem_.q, int64_t{problem_.p - ps.last} * problem_.q,
                  0.0f);
    });
  }

  void add_columns_nchw(Matrix columns, const Tensor& dx, int n, int group) const {
    float* plane0 =
        image(dx, n) + int64_t{group} * problem_.channels_per_group() * problem_.h * problem_.w;
    for_each_row([&](int c, int r, int row, Range ps, Range qs, int64_t offset) {
      float* plane = plane0 + int64_t{c} * problem_.h * problem_.w;
      for (int p = ps.first; p < ps.last; ++p) {
        const int h = p * problem_.stride_h + r * problem_.dilation_h - problem_.pad_h;
        float* to = plane + int64_t{h} * problem_.w + offset;
        const float* line = columns.data + row * columns.stride + int64_t{p} * problem_.q;
        for (int q = qs.first; q < qs.last; ++q) to[int64_t{q} * problem_.stride_w] += line[q];
      }
    });
  }

  /// Calls visit(columns position, x position or -1) for every run of the group's channels.
  template <class Visit>
  void for_each_pixel(int64_t row_stride, int group, Visit&& visit) const {
    const int64_t channels = problem_.channels_per_group();
    for (int p = 0; p < problem_.p; ++p) {
      for (int q = 0; q < problem_.q; ++q) {
        int64_t to = (int64_t{p} * problem_.q + q) * row_stride;
        for (int r = 0; r < problem_.r; ++r) {
          const int64_t h =
              int64_t{p} * problem_.stride_h + int64_t{r} * problem_.dilation_h - problem_.pad_h;
          for (int s = 0; s < problem_.s; ++s, to += channels) {
            const int64_t w =
                int64_t{q} * problem_.stride_w + int64_t{s} * problem_.dilation_w - problem_.pad_w;
            const bool in_image = h >= 0 && h < problem_.h && w >= 0 && w < problem_.w;
            visit(to, in_image ? (h * problem_.w + w) * problem_.c + group * channels : -1);
          }
        }
      }
    }
  }

  void im2row(const Tensor& x, int n, int group, Matrix columns) const {
    const int channels = problem_.channels_per_group();
    const float* from = image(x, n);
    for_each_pixel(columns.stride, group, [&](int64_t to, int64_t position) {
      if (position < 0) {
        std::fill_n(columns.data + to, channels, 0.0f);
      } else {
        std::copy_n(from + position, channels, columns.data + to);
      }
    });
  }

  void add_rows(Matrix columns, const Tensor& dx, int n, int group) const {
    const int channels = problem_.channels_per_group();
    float* to = image(dx, n);
    for_each_pixel(columns.stride, group, [&](int64_t from, int64_t position) {
      if (position < 0) return;
      for (int c = 0; c < channels; ++c) to[position + c] += columns.data[from + c];
    });
  }

  /// db[k] = sum of dy over n, p, q, in double: as long a sum as float32 can spoil.
  void sum_of_outputs(const Tensor& dy, const Tensor& db) const {
    const int64_t rows = int64_t{problem_.n} * outputs_;
    float* sums = db.data<float>();
    parallel_for(problem_.k, dy.elements(), [&](int64_t k) {
      double sum = 0.0;
      if (nhwc_) {
        const float* from = dy.data<float>() + k;
        for (int64_t row = 0; row < rows; ++row) sum += from[row * problem_.k];
      } else {
        for (int n = 0; n < problem_.n; ++n) {
          const float* from = image(dy, n) + int64_t{k} * outputs_;
#pragma omp simd reduction(+ : sum)
          for (int i = 0; i < outputs_; ++i) sum += from[i];
        }
      }
      sums[k] = static_cast<float>(sum);
    });
  }

  const int outputs_;  // P*Q of one image
  const int taps_;     // products an output is made of: C/groups * R * S
  const int filters_;  // of one group
  const bool nhwc_;
  const bool in_place_;  // a 1x1 kernel reads the image as it lies
  const int slices_;
};

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass) {
  const int64_t limit = int64_t{1} << 31;
  if (int64_t{problem.channels_per_group()} * problem.r * problem.s >= limit ||
      int64_t{problem.p} * problem.q >= limit || int64_t{problem.h} * problem.w >= limit) {
    return "BLAS counts rows and columns in 32 bits";
  }
  return {};
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_cpu_blas() {
  return impl_entry<Conv2dCpuBlas>("cpu_blas", unsupported);
}

}  // namespace duet
