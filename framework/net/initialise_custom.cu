// Initial values on a GPU: those of 138 million parameters (VGG-16) would take a CPU seconds.
// Mapping:  thread = 4 elements, the words of one Philox block; block = 256 threads.
// Traffic:  the parameter once; in nhwc 4 bytes at a time.
// Limits:   float32 or float64, fewer than 2^34 elements.
#include "device/check.h"
#include "net/initialise.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

/// Where an element lies, of `channels` x `pixels` values an image; 1 x 1 where memory has PyTorch's
/// order.
struct Order {
  int64_t channels = 1, pixels = 1;

  explicit Order(const TensorDesc& desc) {
    if (desc.shape.rank() != 4 || desc.layout == Layout::kNCHW) return;
    channels = desc.shape[1];
    pixels = desc.shape[2] * desc.shape[3];
  }
  __device__ int64_t place(int64_t i) const {
    if (channels == 1) return i;
    const int64_t plane = i / pixels, image = plane / channels;
    return (image * pixels + i % pixels) * channels + plane % channels;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    initial_values_kernel(InitialValues how, Order order, int64_t count, T* parameter) {
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (4 * block >= count) return;
  float values[4];
  initial_block(how, static_cast<uint32_t>(block), values);
  for (int j = 0; j < 4; ++j) {
    const int64_t i = 4 * block + j;
    if (i < count) parameter[order.place(i)] = values[j];
  }
}

}  // namespace

void queue_initial_values(Context& context, const InitialValues& how, const Tensor& parameter) {
  const int64_t count = parameter.elements();
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + 4 * kThreads - 1) / (4 * kThreads));
  const auto launch = [&](auto* values) {
    initial_values_kernel<<<blocks, kThreads, 0, context.stream()>>>(how, Order(parameter.desc),
                                                                     count, values);
    DUET_LAUNCHED();
  };
  parameter.desc.dtype == DType::kFloat64 ? launch(parameter.data<double>())
                                          : launch(parameter.data<float>());
}

}  // namespace duet
