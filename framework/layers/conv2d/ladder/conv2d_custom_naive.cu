// conv2d custom_naive: the definition, one thread for each value that a pass produces.
// Mapping:  forward: thread = one y; backward_data: thread = one dx; backward_filter: thread = one
//           dw, block = one db; neighbours in a warp are neighbours in memory.
// Traffic:  every product loads both its operands; only the caches save it from DRAM.
// Limits:   fp32 or bf16, fp32 FMA, any kernel, stride, padding, dilation, groups and layout.
#include "device/check.h"
#include "layers/conv2d/conv2d.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

/// Logical index (n, c, h, w) in a tensor of logical sizes C, H, W; for filters (k, c, r, s).
struct Position {
  int n, c, h, w;
};

template <Layout L>
__device__ int64_t offset_at(Position i, int sizes_c, int sizes_h, int sizes_w) {
  const int64_t n = i.n;
  return L == Layout::kNCHW ? ((n * sizes_c + i.c) * sizes_h + i.h) * sizes_w + i.w
                            : ((n * sizes_h + i.h) * sizes_w + i.w) * sizes_c + i.c;
}

/// The inverse: which element lies at `offset`.
template <Layout L>
__device__ Position position_of(int64_t offset, int sizes_c, int sizes_h, int sizes_w) {
  const int inner = L == Layout::kNCHW ? sizes_w : sizes_c;
  const int middle = L == Layout::kNCHW ? sizes_h : sizes_w;
  const int outer = L == Layout::kNCHW ? sizes_c : sizes_h;
  const int i3 = static_cast<int>(offset % inner);
  offset /= inner;
  const int i2 = static_cast<int>(offset % middle);
  offset /= middle;
  const int i1 = static_cast<int>(offset % outer);
  const int n = static_cast<int>(offset / outer);
  return L == Layout::kNCHW ? Position{n, i1, i2, i3} : Position{n, i3, i1, i2};
}

__device__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

template <Layout L, class T>
__global__ void conv2d_forward_naive_kernel(Conv2dProblem pr, int64_t count, const T* x,
                                            const Accumulator<T>* w, const Accumulator<T>* b,
                                            T* y) {
  const int64_t i = thread_index();
  if (i >= count) return;
  // region forward
  const auto [n, k, p, q] = position_of<L>(i, pr.k, pr.p, pr.q);
  const int channels = pr.c / pr.groups;
  const int first_channel = k / (pr.k / pr.groups) * channels;
  Accumulator<T> sum = b ? b[k] : Accumulator<T>(0);
  for (int c = 0; c < channels; ++c) {
    for (int r = 0; r < pr.r; ++r) {
      const int h = p * pr.stride_h + r * pr.dilation_h - pr.pad_h;
      if (h < 0 || h >= pr.h) continue;
      for (int s = 0; s < pr.s; ++s) {
        const int col = q * pr.stride_w + s * pr.dilation_w - pr.pad_w;
        if (col < 0 || col >= pr.w) continue;
        sum += x[offset_at<L>({n, first_channel + c, h, col}, pr.c, pr.h, pr.w)] *
               w[offset_at<L>({k, c, r, s}, channels, pr.r, pr.s)];
      }
    }
  }
  // end forward
  y[i] = T(sum);
}

// An input is read by output p through kernel row r where p * stride + r * dilation = h + pad. So
// for each r the thread asks whether there is such a p, rather than adding to dx from every output,
// which would need atomics and an order that changes from run to run.
template <Layout L, class T>
__global__ void conv2d_backward_data_naive_kernel(Conv2dProblem pr, int64_t count, const T* dy,
                                                  const Accumulator<T>* w, T* dx) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const auto [n, c, h, col] = position_of<L>(i, pr.c, pr.h, pr.w);
  const int channels = pr.c / pr.groups;
  const int filters = pr.k / pr.groups;
  const int first_filter = c / channels * filters;
  Accumulator<T> sum = 0;
  for (int r = 0; r < pr.r; ++r) {
    const int top = h + pr.pad_h - r * pr.dilation_h;
    const int p = top / pr.stride_h;
    if (top < 0 || top % pr.stride_h != 0 || p >= pr.p) continue;
    for (int s = 0; s < pr.s; ++s) {
      const int left = col + pr.pad_w - s * pr.dilation_w;
      const int q = left / pr.stride_w;
      if (left < 0 || left % pr.stride_w != 0 || q >= pr.q) continue;
      for (int k = first_filter; k < first_filter + filters; ++k) {
        sum += dy[offset_at<L>({n, k, p, q}, pr.k, pr.p, pr.q)] *
               w[offset_at<L>({k, c % channels, r, s}, channels, pr.r, pr.s)];
      }
    }
  }
  dx[i] = T(sum);
}

template <Layout L, class T>
__global__ void conv2d_backward_filter_naive_kernel(Conv2dProblem pr, int64_t count, const T* x,
                                                    const T* dy, Accumulator<T>* dw) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const int channels = pr.c / pr.groups;
  const auto [k, c, r, s] = position_of<L>(i, channels, pr.r, pr.s);
  const int channel = k / (pr.k / pr.groups) * channels + c;
  Accumulator<T> sum = 0;
  for (int n = 0; n < pr.n; ++n) {
    for (int p = 0; p < pr.p; ++p) {
      const int h = p * pr.stride_h + r * pr.dilation_h - pr.pad_h;
      if (h < 0 || h >= pr.h) continue;
      Accumulator<T> row = 0;  // a sum of sums loses fewer bits than one over the whole batch
      for (int q = 0; q < pr.q; ++q) {
        const int col = q * pr.stride_w + s * pr.dilation_w - pr.pad_w;
        if (col < 0 || col >= pr.w) continue;
        row += dy[offset_at<L>({n, k, p, q}, pr.k, pr.p, pr.q)] *
               x[offset_at<L>({n, channel, h, col}, pr.c, pr.h, pr.w)];
      }
      sum += row;
    }
  }
  dw[i] = sum;
}

// db alone takes a block for each filter: there are few filters, and each sums the whole batch.
template <Layout L, class T>
__global__ void conv2d_backward_bias_naive_kernel(Conv2dProblem pr, const T* dy,
                                                  Accumulator<T>* db) {
  __shared__ Accumulator<T> sums[kThreads];
  const int k = blockIdx.x;
  const int64_t image = static_cast<int64_t>(pr.p) * pr.q;
  Accumulator<T> sum = 0;
  for (int64_t i = threadIdx.x; i < pr.n * image; i += kThreads) {
    const int64_t n = i / image, pixel = i % image;
    sum += dy[L == Layout::kNCHW ? (n * pr.k + k) * image + pixel : i * pr.k + k];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) db[k] = sums[0];
}

template <Layout L, class T>
class Conv2dCustomNaive : public Conv2dImpl {
 public:
  using Conv2dImpl::Conv2dImpl;
  using Sum = Accumulator<T>;

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    conv2d_forward_naive_kernel<L><<<blocks(y), kThreads, 0, run.stream()>>>(
        problem_, y.elements(), x.data<T>(), w.data<Sum>(), b.data<Sum>(), y.data<T>());
    DUET_LAUNCHED();
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    conv2d_backward_data_naive_kernel<L><<<blocks(dx), kThreads, 0, run.stream()>>>(
        problem_, dx.elements(), dy.data<T>(), w.data<Sum>(), dx.data<T>());
    DUET_LAUNCHED();
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    conv2d_backward_filter_naive_kernel<L><<<blocks(dw), kThreads, 0, run.stream()>>>(
        problem_, dw.elements(), x.data<T>(), dy.data<T>(), dw.data<Sum>());
    DUET_LAUNCHED();
    if (!db) return;
    conv2d_backward_bias_naive_kernel<L>
        <<<problem_.k, kThreads, 0, run.stream()>>>(problem_, dy.data<T>(), db.data<Sum>());
    DUET_LAUNCHED();
  }

 private:
  static unsigned blocks(const Tensor& t) {
    return static_cast<unsigned>((t.elements() + kThreads - 1) / kThreads);
  }
};

template <class T>
using Nchw = Conv2dCustomNaive<Layout::kNCHW, T>;
template <class T>
using Nhwc = Conv2dCustomNaive<Layout::kNHWC, T>;

}  // namespace

std::unique_ptr<Implementation> make_conv2d_gpu_reference(const Conv2dProblem& problem) {
  if (problem.layout == Layout::kNCHW) return std::make_unique<Nchw<double>>(problem);
  return std::make_unique<Nhwc<double>>(problem);
}

ImplEntry<Conv2dProblem> conv2d_custom_naive() {
  return layouts_entry<Nchw, Nhwc>("custom_naive", supports_all);
}

}  // namespace duet
