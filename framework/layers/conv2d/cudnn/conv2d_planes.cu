// Into planes with zeros around, and back.
// Mapping:  thread = one element of the planes, or of the tensor; neighbours in a warp are
//           neighbours where they are written.
// Traffic:  reads the tensor and writes the planes once, and the other way round. In NHWC what is read
//           lies C floats apart.
// Limits:   float32, 32-bit element numbers.
#include "device/check.h"
#include "device/launch.h"
#include "kernels/integers.cuh"
#include "layers/conv2d/cudnn/conv2d_planes.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

struct Geometry {
  int channels, height, width, top, left, rows, columns;
  bool nchw;
  FastDivisor by_channels, by_height, by_width, by_rows, by_columns;

  explicit Geometry(const Planes& at)
      : channels(static_cast<int>(at.desc.shape[1])),
        height(static_cast<int>(at.desc.shape[2])),
        width(static_cast<int>(at.desc.shape[3])),
        top(at.top),
        left(at.left),
        rows(at.rows),
        columns(at.columns),
        nchw(at.desc.layout == Layout::kNCHW),
        by_channels(channels),
        by_height(height),
        by_width(width),
        by_rows(rows),
        by_columns(columns) {}
};

__global__ void __launch_bounds__(kThreads)
    into_planes_kernel(const __grid_constant__ Geometry g, const float* from, int count,
                       float* planes) {
  wait_for_primary();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  int line, column, plane, row, image, channel;
  g.by_columns.divmod(i, line, column);
  g.by_rows.divmod(line, plane, row);
  const int h = row - g.top, w = column - g.left;
  float value = 0.0f;
  if (h >= 0 && h < g.height && w >= 0 && w < g.width) {
    g.by_channels.divmod(plane, image, channel);
    value = from[g.nchw ? (plane * g.height + h) * g.width + w
                        : ((image * g.height + h) * g.width + w) * g.channels + channel];
  }
  planes[i] = value;
}

__global__ void __launch_bounds__(kThreads)
    from_planes_kernel(const __grid_constant__ Geometry g, const float* planes, float scale,
                       const float* bias, int count, float* to) {
  wait_for_primary();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  int rest = i, image, channel = 0, line, h, w;
  if (!g.nchw) g.by_channels.divmod(i, rest, channel);
  g.by_width.divmod(rest, line, w);
  g.by_height.divmod(line, image, h);  // in NCHW the plane
  if (g.nchw) g.by_channels.divmod(image, image, channel);
  const int at = ((image * g.channels + channel) * g.rows + h + g.top) * g.columns + w + g.left;
  to[i] = fmaf(planes[at], scale, bias ? bias[channel] : 0.0f);
}

}  // namespace

void queue_into_planes(const Planes& at, const Tensor& from, float* planes, const Run& run) {
  const int count = static_cast<int>(at.elements());
  launch_following({ceil_div(count, kThreads), kThreads, 0, run.stream()}, into_planes_kernel,
                   Geometry(at), from.data<float>(), count, planes);
}

void queue_from_planes(const Planes& at, const float* planes, float scale, const float* bias,
                       const Tensor& to, const Run& run) {
  const int count = static_cast<int>(to.elements());
  launch_following({ceil_div(count, kThreads), kThreads, 0, run.stream()}, from_planes_kernel,
                   Geometry(at), planes, scale, bias, count, to.data<float>());
}

}  // namespace duet
