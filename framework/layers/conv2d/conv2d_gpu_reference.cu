// conv2d reference on a GPU: the definition in double, for sizes that take cpu_reference minutes.
// Mapping:  forward: thread = one y; backward_data: thread = one dx; backward_filter: block = one
//           dw or one db, its threads share the sum over the batch.
// Traffic:  every product loads both its operands; only the caches save it from DRAM.
// Limits:   double only; in no list (layers/gpu_reference.h).
#include "layers/conv2d/conv2d.h"
#include "layers/gpu_reference.cuh"

namespace duet {
namespace {

using namespace gpu_reference;

/// A rank-4 tensor of doubles in either layout.
struct Image {
  double* data;
  int64_t sizes[4];  // n, c, h, w; of filters k, c, r, s
  int64_t steps[4];
  bool channels_last;

  explicit Image(const Tensor& t)
      : data(t.data<double>()), channels_last(t.desc.layout == Layout::kNHWC) {
    for (int i = 0; i < 4; ++i) {
      sizes[i] = t.shape()[i];
      steps[i] = offset_of(t.desc, i == 0, i == 1, i == 2, i == 3);
    }
  }
  __device__ double& at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return data[n * steps[0] + c * steps[1] + h * steps[2] + w * steps[3]];
  }
  /// The inverse: which element lies at `offset`. False beyond the last.
  __device__ bool find(int64_t offset, int64_t (&at)[4]) const {
    const int order[2][3] = {{3, 2, 1}, {1, 3, 2}};
    for (int i : order[channels_last]) {
      at[i] = offset % sizes[i];
      offset /= sizes[i];
    }
    at[0] = offset;
    return offset < sizes[0];
  }
};

/// The pixel that output `at` reads through kernel row (or column) `tap`; may be outside.
__device__ int64_t pixel_of(int64_t at, int stride, int64_t tap, int dilation, int pad) {
  return at * stride + tap * dilation - pad;
}
/// The output that reads `pixel` through `tap`, or -1.
__device__ int64_t output_of(int64_t pixel, int stride, int64_t tap, int dilation, int pad,
                             int outputs) {
  const int64_t from = pixel + pad - tap * dilation;
  return from >= 0 && from % stride == 0 && from / stride < outputs ? from / stride : -1;
}

__global__ void conv2d_reference_forward_kernel(Conv2dProblem pr, Image x, Image w, const double* b,
                                                Image y) {
  int64_t i[4];
  if (!y.find(thread_index(), i)) return;
  const auto [n, k, p, q] = i;
  const int channels = pr.c / pr.groups;
  const int64_t first_channel = k / (pr.k / pr.groups) * channels;
  double sum = b ? b[k] : 0.0;
  for (int c = 0; c < channels; ++c) {
    for (int r = 0; r < pr.r; ++r) {
      const int64_t row = pixel_of(p, pr.stride_h, r, pr.dilation_h, pr.pad_h);
      if (row < 0 || row >= pr.h) continue;
      for (int s = 0; s < pr.s; ++s) {
        const int64_t column = pixel_of(q, pr.stride_w, s, pr.dilation_w, pr.pad_w);
        if (column < 0 || column >= pr.w) continue;
        sum += x.at(n, first_channel + c, row, column) * w.at(k, c, r, s);
      }
    }
  }
  y.at(n, k, p, q) = sum;
}

__global__ void conv2d_reference_backward_data_kernel(Conv2dProblem pr, Image dy, Image w,
                                                      Image dx) {
  int64_t i[4];
  if (!dx.find(thread_index(), i)) return;
  const auto [n, c, row, column] = i;
  const int channels = pr.c / pr.groups, filters = pr.k / pr.groups;
  const int64_t first_filter = c / channels * filters;
  double sum = 0;
  for (int r = 0; r < pr.r; ++r) {
    const int64_t p = output_of(row, pr.stride_h, r, pr.dilation_h, pr.pad_h, pr.p);
    if (p < 0) continue;
    for (int s = 0; s < pr.s; ++s) {
      const int64_t q = output_of(column, pr.stride_w, s, pr.dilation_w, pr.pad_w, pr.q);
      if (q < 0) continue;
      for (int64_t k = first_filter; k < first_filter + filters; ++k) {
        sum += dy.at(n, k, p, q) * w.at(k, c % channels, r, s);
      }
    }
  }
  dx.at(n, c, row, column) = sum;
}

__global__ void conv2d_reference_backward_filter_kernel(Conv2dProblem pr, Image x, Image dy,
                                                        Image dw) {
  int64_t i[4];
  dw.find(blockIdx.x, i);
  const auto [k, c, r, s] = i;
  const int channels = pr.c / pr.groups;
  const int64_t channel = k / (pr.k / pr.groups) * channels + c;
  const int64_t image = static_cast<int64_t>(pr.p) * pr.q;
  double sum = 0;
  for (int64_t at = threadIdx.x; at < pr.n * image; at += kThreads) {
    const int64_t n = at / image, p = at % image / pr.q, q = at % pr.q;
    const int64_t row = pixel_of(p, pr.stride_h, r, pr.dilation_h, pr.pad_h);
    const int64_t column = pixel_of(q, pr.stride_w, s, pr.dilation_w, pr.pad_w);
    if (row < 0 || row >= pr.h || column < 0 || column >= pr.w) continue;
    sum += dy.at(n, k, p, q) * x.at(n, channel, row, column);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) dw.at(k, c, r, s) = sum;
}

__global__ void conv2d_reference_bias_kernel(Conv2dProblem pr, Image dy, double* db) {
  const int64_t image = static_cast<int64_t>(pr.p) * pr.q;
  double sum = 0;
  for (int64_t at = threadIdx.x; at < pr.n * image; at += kThreads) {
    sum += dy.at(at / image, blockIdx.x, at % image / pr.q, at % pr.q);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) db[blockIdx.x] = sum;
}

class Conv2dGpuReference : public Conv2dImpl {
 public:
  using Conv2dImpl::Conv2dImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    launch_threads(run.context, y.elements(), conv2d_reference_forward_kernel, problem_, Image(x),
                   Image(w), b.data<double>(), Image(y));
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    launch_threads(run.context, dx.elements(), conv2d_reference_backward_data_kernel, problem_,
                   Image(dy), Image(w), Image(dx));
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    launch_blocks(run.context, dw.elements(), conv2d_reference_backward_filter_kernel, problem_,
                  Image(x), Image(dy), Image(dw));
    if (!db) return;
    launch_blocks(run.context, problem_.k, conv2d_reference_bias_kernel, problem_, Image(dy),
                  db.data<double>());
  }
};

}  // namespace

std::unique_ptr<Implementation> make_conv2d_gpu_reference(const Conv2dProblem& problem) {
  return std::make_unique<Conv2dGpuReference>(problem);
}

}  // namespace duet
