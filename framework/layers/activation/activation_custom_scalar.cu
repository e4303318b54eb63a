// activation custom_scalar: the plainest kernel, one element a thread.
// Mapping:  thread = 1 element; block = 256.
// Traffic:  forward x once, y once; backward x, y, dy once, dx once; an
//           access an element.
// Limits:   fp32 or bf16, any size and layout.
#include "device/check.h"
#include "layers/activation/activation.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

template <class T, class F>
__global__ void activation_forward_scalar_kernel(F f, int64_t count, const T* x, T* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = T(f.forward(Accumulator<T>(x[i])));
}

template <class T, class F>
__global__ void activation_backward_scalar_kernel(F f, int64_t count, const T* x, const T* y,
                                                  const T* dy, T* dx) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Accumulator<T> value = x[i];
  dx[i] = T(dy[i] * f.gradient(value, output_of<T>(f, value, y[i])));
}

template <class T>
class ActivationCustomScalar : public ActivationImpl {
 public:
  using ActivationImpl::ActivationImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    visit_activation(problem_, [&](auto f) {
      activation_forward_scalar_kernel<<<blocks(x), kThreads, 0, run.stream()>>>(
          f, x.elements(), x.data<T>(), y.data<T>());
    });
    DUET_LAUNCHED();
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    visit_activation(problem_, [&](auto f) {
      activation_backward_scalar_kernel<<<blocks(x), kThreads, 0, run.stream()>>>(
          f, x.elements(), x.data<T>(), y.data<T>(), dy.data<T>(), dx.data<T>());
    });
    DUET_LAUNCHED();
  }

 private:
  static unsigned blocks(const Tensor& x) {
    return static_cast<unsigned>((x.elements() + kThreads - 1) / kThreads);
  }
};

}  // namespace

std::unique_ptr<Implementation> make_activation_gpu_reference(const ActivationProblem& problem) {
  return std::make_unique<ActivationCustomScalar<double>>(problem);
}

ImplEntry<ActivationProblem> activation_custom_scalar() {
  return gpu_entry<ActivationCustomScalar>("custom_scalar");
}

}  // namespace duet
