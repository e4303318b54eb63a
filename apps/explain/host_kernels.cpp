#include "host_kernels.h"

#include <map>

namespace duet {
namespace {

// They use on_gpu() and from_gpu() of the program, and its sizes and functions x_at(), w_at(), y_at(),
// kept(), target(), weight_of(), label_of().

constexpr const char* kConvert = R"(
/// Stands for a kernel of Duet's: the same values in another type.
template <class From, class To>
void convert(const From* from, To* to, size_t count) {
  const std::vector<double> values = from_gpu(from, count);
  put(std::vector<float>(values.begin(), values.end()), to);
}
)";

constexpr const char* kIm2colNchw = R"(
/// Stands for a kernel of Duet's: what each tap (row) reads at each output position (column).
void im2col(const float* x, float* columns) {
  const std::vector<double> values = from_gpu(x, size_t(N) * C * H * W);
  std::vector<float> matrix;
  for (int tap = 0; tap < C * R * S; ++tap) {
    const int c = tap / (R * S), r = tap / S % R, s = tap % S;
    for (int at = 0; at < N * P * Q; ++at) {
      const int n = at / (P * Q), h = at / Q % P * stride_h - pad_h + r * dilation_h;
      const int w = at % Q * stride_w - pad_w + s * dilation_w;
      const bool inside = h >= 0 && h < H && w >= 0 && w < W;
      matrix.push_back(inside ? float(values[x_at(n, c, h, w)]) : 0.0f);
    }
  }
  put(matrix, columns);
}
)";

constexpr const char* kIm2colNhwc = R"(
/// Stands for a kernel of Duet's: what each tap (column) reads at each output position (row).
void im2col(const float* x, float* columns) {
  const std::vector<double> values = from_gpu(x, size_t(N) * C * H * W);
  std::vector<float> matrix;
  for (int at = 0; at < N * P * Q; ++at) {
    for (int tap = 0; tap < R * S * C; ++tap) {
      const int c = tap % C, r = tap / (C * S), s = tap / C % S;
      const int n = at / (P * Q), h = at / Q % P * stride_h - pad_h + r * dilation_h;
      const int w = at % Q * stride_w - pad_w + s * dilation_w;
      const bool inside = h >= 0 && h < H && w >= 0 && w < W;
      matrix.push_back(inside ? float(values[x_at(n, c, h, w)]) : 0.0f);
    }
  }
  put(matrix, columns);
}
)";

constexpr const char* kCol2imNchw = R"(
/// Stands for a kernel of Duet's: adds up, for each pixel, what the taps that read it have.
void col2im(const float* columns, float* dx) {
  const std::vector<double> matrix = from_gpu(columns, size_t(C) * R * S * N * P * Q);
  std::vector<float> sums(size_t(N) * C * H * W, 0.0f);
  for (size_t i = 0; i < matrix.size(); ++i) {
    const int at = int(i % (N * P * Q)), tap = int(i / (N * P * Q));
    const int c = tap / (R * S), r = tap / S % R, s = tap % S;
    const int n = at / (P * Q), h = at / Q % P * stride_h - pad_h + r * dilation_h;
    const int w = at % Q * stride_w - pad_w + s * dilation_w;
    if (h >= 0 && h < H && w >= 0 && w < W) sums[x_at(n, c, h, w)] += float(matrix[i]);
  }
  put(sums, dx);
}
)";

constexpr const char* kCol2imNhwc = R"(
/// Stands for a kernel of Duet's: adds up, for each pixel, what the taps that read it have.
void col2im(const float* columns, float* dx) {
  const std::vector<double> matrix = from_gpu(columns, size_t(N) * P * Q * R * S * C);
  std::vector<float> sums(size_t(N) * C * H * W, 0.0f);
  for (size_t i = 0; i < matrix.size(); ++i) {
    const int tap = int(i % (R * S * C)), at = int(i / (R * S * C));
    const int c = tap % C, r = tap / (C * S), s = tap / C % S;
    const int n = at / (P * Q), h = at / Q % P * stride_h - pad_h + r * dilation_h;
    const int w = at % Q * stride_w - pad_w + s * dilation_w;
    if (h >= 0 && h < H && w >= 0 && w < W) sums[x_at(n, c, h, w)] += float(matrix[i]);
  }
  put(sums, dx);
}
)";

constexpr const char* kIntoPlanes = R"(
/// Stands for a kernel of Duet's: each channel of each image in a plane of its own, from row `top` and
/// column `left`, with zeros around it.
void into_planes(const float* from, Images images, int top, int left, float* planes) {
  const auto [count, channels, height, width, at] = images;
  const std::vector<double> values = from_gpu(from, size_t(count) * channels * height * width);
  std::vector<float> all(size_t(count) * channels * plane_rows * plane_columns, 0.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    const int w = int(i % width), h = int(i / width % height);
    const int c = int(i / (size_t(width) * height) % channels);
    const int n = int(i / (size_t(width) * height * channels));
    const size_t row = size_t(n * channels + c) * plane_rows + h + top;
    all[row * plane_columns + w + left] = float(values[at(n, c, h, w)]);
  }
  put(all, planes);
}
)";

constexpr const char* kFromPlanes = R"(
/// Stands for a kernel of Duet's: what the planes hold there, scaled, plus the bias of the channel.
void from_planes(const float* planes, float scale, const float* bias, Images images, int top,
                 int left, float* to) {
  const auto [count, channels, height, width, at] = images;
  const size_t elements = size_t(count) * channels * plane_rows * plane_columns;
  const std::vector<double> all = from_gpu(planes, elements);
  const std::vector<double> added = bias ? from_gpu(bias, channels) : std::vector<double>(channels);
  std::vector<float> values(size_t(count) * channels * height * width);
  for (size_t i = 0; i < values.size(); ++i) {
    const int w = int(i % width), h = int(i / width % height);
    const int c = int(i / (size_t(width) * height) % channels);
    const int n = int(i / (size_t(width) * height * channels));
    const size_t row = size_t(n * channels + c) * plane_rows + h + top;
    values[at(n, c, h, w)] = float(all[row * plane_columns + w + left] * scale + added[c]);
  }
  put(values, to);
}
)";

constexpr const char* kPick = R"(
/// Stands for a kernel of Duet's: the mean of -log_softmax at the targets, and how many rows are right.
void pick(const float* logits, const float* log_softmax, float* loss, int* hits, float* weight) {
  const std::vector<double> x = from_gpu(logits, rows * classes);
  const std::vector<double> logs = from_gpu(log_softmax, rows * classes);
  double sum = 0, weights = 0;
  int right = 0;
  for (size_t n = 0; n < rows; ++n) {
    size_t best = 0;
    for (size_t j = 0; j < classes; ++j) {
      sum -= target(n, j) * logs[n * classes + j];
      if (x[n * classes + j] > x[n * classes + best]) best = j;
    }
    weights += weight_of(n);
    right += best == label_of(n);
  }
  put({float(sum / weights)}, loss);
  put({float(right), float(rows)}, hits);
  put({float(weights)}, weight);
}
)";

constexpr const char* kUnpick = R"(
/// Stands for a kernel of Duet's: the gradient of log_softmax, -dloss / the weight of all rows * target.
void unpick(const float* weight, const float* dloss, float* d_log_softmax) {
  const double scale = from_gpu(dloss, 1)[0] / from_gpu(weight, 1)[0];
  std::vector<float> gradient;
  for (size_t i = 0; i < rows * classes; ++i) {
    gradient.push_back(float(-scale * target(i / classes, i % classes)));
  }
  put(gradient, d_log_softmax);
}
)";

constexpr const char* kDropout = R"(
/// Stands for a kernel of Duet's: from / (1 - the share) where it is kept, else 0.
void dropout(const float* from, float* to, size_t count) {
  const std::vector<double> values = from_gpu(from, count);
  std::vector<float> results;
  for (size_t i = 0; i < count; ++i) {
    results.push_back(kept(i) ? float(values[i] / (1 - double(dropped))) : 0.0f);
  }
  put(results, to);
}
)";

}  // namespace

std::string host_function(const std::string& kernel) {
  static const std::map<std::string, const char*> functions = {
      {"convert", kConvert},        {"im2col nchw", kIm2colNchw},
      {"im2col nhwc", kIm2colNhwc}, {"col2im nchw", kCol2imNchw},
      {"col2im nhwc", kCol2imNhwc}, {"into_planes", kIntoPlanes},
      {"from_planes", kFromPlanes}, {"pick", kPick},
      {"unpick", kUnpick},          {"dropout", kDropout}};
  const auto found = functions.find(kernel);
  return found == functions.end() ? "" : found->second;
}

}  // namespace duet
