// activation custom_scalar: the plainest kernel, one element a thread.
// Mapping:  thread = 1 element; block = 256.
// Traffic:  forward x once, y once; backward x, y, dy once, dx once; 4-byte accesses.
// Limits:   fp32, any size and layout.
#include "device/check.h"
#include "layers/activation/activation.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

template <class F>
__global__ void activation_forward_scalar_kernel(F f, int64_t count, const float* x, float* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = f.forward(x[i]);
}

template <class F>
__global__ void activation_backward_scalar_kernel(F f, int64_t count, const float* x,
                                                  const float* y, const float* dy, float* dx) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) dx[i] = dy[i] * f.gradient(x[i], y[i]);
}

class ActivationCustomScalar : public ActivationImpl {
 public:
  using ActivationImpl::ActivationImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y) override {
    visit_activation(problem_, [&](auto f) {
      activation_forward_scalar_kernel<<<blocks(x), kThreads, 0, run.stream()>>>(
          f, x.elements(), x.data<float>(), y.data<float>());
      DUET_LAUNCHED();
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override {
    visit_activation(problem_, [&](auto f) {
      activation_backward_scalar_kernel<<<blocks(x), kThreads, 0, run.stream()>>>(
          f, x.elements(), x.data<float>(), y.data<float>(), dy.data<float>(), dx.data<float>());
      DUET_LAUNCHED();
    });
  }

 private:
  static unsigned blocks(const Tensor& x) {
    return static_cast<unsigned>((x.elements() + kThreads - 1) / kThreads);
  }
};

}  // namespace

ImplEntry<ActivationProblem> activation_custom_scalar() {
  return {"custom_scalar", supports_all, make_implementation<ActivationCustomScalar>};
}

}  // namespace duet
