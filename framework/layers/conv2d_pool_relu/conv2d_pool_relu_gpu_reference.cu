// conv2d_pool_relu reference on a GPU: conv2d's, then the definitions of pooling and relu in
// double, for sizes that take cpu_reference minutes.
// Mapping:  forward: thread = one window; backward: thread = one element of dz, which asks each of
//           its windows whether it was the largest.
// Traffic:  z and its gradient are stored, as is the place of each maximum (8 bytes).
// Limits:   double only; in no list (layers/gpu_reference.h).
#include <cmath>

#include "core/arena.h"
#include "layers/conv2d/conv2d_impls.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_impls.h"
#include "layers/gpu_reference.cuh"

namespace duet {
namespace {

using namespace gpu_reference;

/// Element i of a tensor n, c, rows, columns in `layout`, and where its channel of its image starts
/// in a tensor of as many channels and `pixels` pixels an image, whose pixels are `step` apart.
struct Place {
  int row, column;
  int64_t start, step;
};
__device__ Place place_of(const Pool2dProblem& t, int64_t i, int rows, int columns,
                          int64_t pixels) {
  const int64_t image = static_cast<int64_t>(rows) * columns;
  const bool nchw = t.layout == Layout::kNCHW;
  const int64_t c = nchw ? i / image % t.c : i % t.c, n = i / (image * t.c);
  const int64_t pixel = nchw ? i % image : i / t.c % image;
  return {static_cast<int>(pixel / columns), static_cast<int>(pixel % columns),
          nchw ? (n * t.c + c) * pixels : n * pixels * t.c + c, nchw ? 1 : t.c};
}

// places[i]: the offset in z of the element that window i chose.
__global__ void conv2d_pool_relu_reference_forward_kernel(Pool2dProblem t, int64_t count,
                                                          const double* z, double* y,
                                                          int64_t* places) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const Place at = place_of(t, i, t.p, t.q, static_cast<int64_t>(t.h) * t.w);
  const PixelRange pixels = t.pixels_of(at.row, at.column);
  double largest = -INFINITY;
  int64_t place = -1;
  for (int64_t h = pixels.h_begin; h < pixels.h_end; ++h) {
    for (int w = pixels.w_begin; w < pixels.w_end; ++w) {
      const int64_t offset = at.start + (h * t.w + w) * at.step;
      if (place >= 0 && !takes_over(z[offset], largest)) continue;
      largest = z[offset];
      place = offset;
    }
  }
  y[i] = largest <= 0 ? 0 : largest;  // a NaN stays
  places[i] = place;
}

__global__ void conv2d_pool_relu_reference_backward_kernel(Pool2dProblem t, int64_t count,
                                                           const double* y, const double* dy,
                                                           const int64_t* places, double* dz) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const Place at = place_of(t, i, t.h, t.w, static_cast<int64_t>(t.p) * t.q);
  const PixelRange outputs = t.outputs_of(at.row, at.column);
  double sum = 0;
  for (int64_t p = outputs.h_begin; p < outputs.h_end; ++p) {
    for (int q = outputs.w_begin; q < outputs.w_end; ++q) {
      const int64_t o = at.start + (p * t.q + q) * at.step;
      if (places[o] == i) sum += dy[o] * (y[o] == 0 ? 0.0 : 1.0);
    }
  }
  dz[i] = sum;
}

class Conv2dPoolReluGpuReference : public Conv2dPoolReluImpl {
 public:
  explicit Conv2dPoolReluGpuReference(const Conv2dPoolReluProblem& problem)
      : Conv2dPoolReluImpl(problem), conv_(make_conv2d_gpu_reference(problem.conv)) {
    z_offset_ = state_.reserve(problem.z_desc().bytes());
    dz_offset_ = state_.reserve(problem.z_desc().bytes());
    places_offset_ = state_.reserve(problem.y_desc().elements() * sizeof(int64_t));
  }

  size_t state_bytes() const override { return state_.bytes(); }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    LayerTensors t = {.x = {x}, .y = {z(state)}, .w = {w, b}};
    conv_->run(Pass::kForward, run, t);
    const int64_t count = y.elements();
    launch_threads(run.context, count, conv2d_pool_relu_reference_forward_kernel, problem_.pool,
                   count, z(state).data<double>(), y.data<double>(), places(state));
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    const int64_t count = problem_.z_desc().elements();
    launch_threads(run.context, count, conv2d_pool_relu_reference_backward_kernel, problem_.pool,
                   count, y.data<double>(), dy.data<double>(), places(state),
                   dz(state).data<double>());
    LayerTensors t = {.x = {x}, .dy = {dz(state)}, .w = std::vector<Tensor>(2), .dw = {dw, db}};
    conv_->run(Pass::kBackwardFilter, run, t);
  }

  void backward_data(const Run& run, const Tensor&, const Tensor&, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    LayerTensors t = {.dx = {dx}, .dy = {dz(state)}, .w = {w, Tensor{}}};
    conv_->run(Pass::kBackwardData, run, t);
  }

 private:
  Tensor z(const Tensor& state) const { return {problem_.z_desc(), at(state, z_offset_)}; }
  Tensor dz(const Tensor& state) const { return {problem_.z_desc(), at(state, dz_offset_)}; }
  int64_t* places(const Tensor& state) const {
    return static_cast<int64_t*>(at(state, places_offset_));
  }
  static void* at(const Tensor& state, size_t offset) { return state.data<char>() + offset; }

  std::unique_ptr<Implementation> conv_;
  ArenaPlan state_;
  size_t z_offset_ = 0, dz_offset_ = 0, places_offset_ = 0;
};

}  // namespace

std::unique_ptr<Implementation> make_conv2d_pool_relu_gpu_reference(
    const Conv2dPoolReluProblem& problem) {
  return std::make_unique<Conv2dPoolReluGpuReference>(problem);
}

}  // namespace duet
