// linear custom_naive: the definition, one output a thread.
// Mapping:  thread = 1 element of y, dx or dw; block = 256. The bias gradient is the dw column of an
//           input that is always 1, so it is column `in` of the same kernel.
// Traffic:  every operand is read once an output: x out times, w n times; all reuse is the caches'.
//           In forward neighbouring threads read w `in` floats apart (uncoalesced).
// Limits:   fp32 or bf16, any size.
#include "device/check.h"
#include "layers/activation/activation.h"
#include "layers/linear/linear.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

__device__ int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// region forward
template <class T>
__global__ void linear_forward_naive_kernel(LinearProblem p, const T* x, const Accumulator<T>* w,
                                            const Accumulator<T>* b, T* y) {
  const int64_t index = global_thread();
  const int64_t n = index / p.out, o = index % p.out;
  if (n >= p.n) return;
  Accumulator<T> sum = b ? b[o] : Accumulator<T>(0);
  for (int64_t i = 0; i < p.in; ++i) sum += x[n * p.in + i] * w[o * p.in + i];
  y[index] = T(p.relu ? ReluFunction{}.forward(sum) : sum);
}
// end forward

template <class T>
__global__ void linear_backward_data_naive_kernel(LinearProblem p, const T* dy,
                                                  const Accumulator<T>* w, T* dx) {
  const int64_t index = global_thread();
  const int64_t n = index / p.in, i = index % p.in;
  if (n >= p.n) return;
  Accumulator<T> sum = 0;
  for (int64_t o = 0; o < p.out; ++o) sum += dy[n * p.out + o] * w[o * p.in + i];
  dx[index] = T(sum);
}

template <class T>
__global__ void linear_backward_filter_naive_kernel(LinearProblem p, const T* x, const T* dy,
                                                    Accumulator<T>* dw, Accumulator<T>* db) {
  const int64_t columns = p.in + (db ? 1 : 0);
  const int64_t index = global_thread();
  const int64_t o = index / columns, i = index % columns;
  if (o >= p.out) return;
  Accumulator<T> sum = 0;
  if (i < p.in) {
    for (int64_t n = 0; n < p.n; ++n) sum += dy[n * p.out + o] * x[n * p.in + i];
    dw[o * p.in + i] = sum;
  } else {
    for (int64_t n = 0; n < p.n; ++n) sum += dy[n * p.out + o];
    db[o] = sum;
  }
}

unsigned blocks(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

template <class T>
class LinearCustomNaive : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;
  using Sum = Accumulator<T>;

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    linear_forward_naive_kernel<<<blocks(y.elements()), kThreads, 0, run.stream()>>>(
        problem_, x.data<T>(), w.data<Sum>(), b.data<Sum>(), y.data<T>());
    DUET_LAUNCHED();
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    linear_backward_data_naive_kernel<<<blocks(dx.elements()), kThreads, 0, run.stream()>>>(
        problem_, dy.data<T>(), w.data<Sum>(), dx.data<T>());
    DUET_LAUNCHED();
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    const int64_t threads = dw.elements() + db.elements() * (db ? 1 : 0);
    linear_backward_filter_naive_kernel<<<blocks(threads), kThreads, 0, run.stream()>>>(
        problem_, x.data<T>(), dy.data<T>(), dw.data<Sum>(), db.data<Sum>());
    DUET_LAUNCHED();
  }
};

}  // namespace

std::unique_ptr<Implementation> make_linear_gpu_reference(const LinearProblem& problem) {
  return std::make_unique<LinearCustomNaive<double>>(problem);
}

ImplEntry<LinearProblem> linear_custom_naive() {
  return gpu_entry<LinearCustomNaive>("custom_naive", supports_all);
}

}  // namespace duet
