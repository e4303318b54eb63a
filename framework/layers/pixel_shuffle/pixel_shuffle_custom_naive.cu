// pixel_shuffle custom_naive: one value a thread, counted in the order of y.
// Mapping:  thread = 1 element of y (backward: of dy); block = 256.
// Traffic:  forward y once, coalesced; x once from memory, by sectors (32 bytes) of which a warp
//           uses a part and leaves the rest to the cache. Backward likewise: dy coalesced, dx in
//           parts of sectors.
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 elements.
#include "device/check.h"
#include "layers/pixel_shuffle/pixel_shuffle.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

struct Sizes {
  unsigned elements, channels, height, width, scale;  // channels of y; height and width of x
  bool nhwc;
};

// Where element i of y stands in x. A row of y is one of an image (nhwc) or of a channel, and
// row / scale is that of x.
__device__ unsigned place_in_x(const Sizes& s, unsigned i) {
  const unsigned r = s.scale, c = s.nhwc ? i % s.channels : 0;
  const unsigned pixel = s.nhwc ? i / s.channels : i;
  const unsigned column = pixel % (s.width * r), row = pixel / (s.width * r);
  const unsigned w = column / r, part = row % r * r + column % r;  // i*r + j
  if (s.nhwc) return ((row / r * s.width + w) * s.channels + c) * r * r + part;
  const unsigned h = row / r % s.height, plane = row / r / s.height;
  return ((plane * r * r + part) * s.height + h) * s.width + w;
}

template <bool forward, class T>
__global__ void pixel_shuffle_naive_kernel(Sizes s, const T* from, T* to) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= s.elements) return;
  const unsigned in_x = place_in_x(s, i);
  to[forward ? i : in_x] = from[forward ? in_x : i];
}

template <class T>
class PixelShuffleCustomNaive : public PixelShuffleImpl {
 public:
  using PixelShuffleImpl::PixelShuffleImpl;

  void shuffle(const Run& run, const Tensor& x, const Tensor& y) override { move<true>(run, x, y); }
  void unshuffle(const Run& run, const Tensor& dy, const Tensor& dx) override {
    move<false>(run, dy, dx);
  }

 private:
  template <bool forward>
  void move(const Run& run, const Tensor& from, const Tensor& to) {
    const Shape& x = problem_.x.shape;
    const Sizes sizes{.elements = static_cast<unsigned>(problem_.x.elements()),
                      .channels = static_cast<unsigned>(problem_.y.shape[1]),
                      .height = static_cast<unsigned>(x[2]),
                      .width = static_cast<unsigned>(x[3]),
                      .scale = static_cast<unsigned>(problem_.scale),
                      .nhwc = problem_.x.layout == Layout::kNHWC};
    const unsigned blocks = (sizes.elements + kThreads - 1) / kThreads;
    pixel_shuffle_naive_kernel<forward>
        <<<blocks, kThreads, 0, run.stream()>>>(sizes, from.data<T>(), to.data<T>());
    DUET_LAUNCHED();
  }
};

}  // namespace

ImplEntry<PixelShuffleProblem> pixel_shuffle_custom_naive() {
  return gpu_entry<PixelShuffleCustomNaive>("custom_naive");
}

}  // namespace duet
