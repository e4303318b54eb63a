#include "host_kernels.h"

#include "core/mixed_labels.h"
#include "core/number_text.h"
#include "layers/conv2d/conv2d.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"
#include "layers/softmax_dropout/softmax_dropout.h"
#include "program_data.h"
#include "program_text.h"

namespace duet {
namespace {

template <class P>
const P& problem_of(const RecordedLayer& recorded) {
  return dynamic_cast<const HasProblem<P>&>(*recorded.layer).problem();
}
bool is_nhwc(const RecordedLayer& recorded) {
  return recorded.layer->inputs()[0].layout == Layout::kNHWC;
}

constexpr const char* kConvert = R"(
/// Stands for a kernel of Duet's: the same values in another type.
template <class From, class To>
void convert(const From* from, To* to, size_t count) {
  const std::vector<double> values = from_gpu(from, count);
  put(std::vector<float>(values.begin(), values.end()), to);
}
)";

constexpr const char* kPixel = R"(
// Sizes by cuDNN's letters: x is N x C x H x W, w is K x C x R x S, y is N x K x P x Q.
constexpr int N = $n, C = $c, H = $h, W = $w, R = $r, S = $s, P = $p, Q = $q;
constexpr size_t pixels = size_t(N) * C * H * W, taps = size_t(N) * P * Q * C * R * S;

/// The pixel of x that element i of the matrix of all taps is; `pixels` if the tap is outside of x.
size_t pixel(size_t i) {
  const int $row = int(i / ($columns)), $column = int(i % ($columns));
  const int $split;
  const int n = at / (P * Q), h = at / Q % P * $stride_h - $pad_h + r * $dilation_h;
  const int w = at % Q * $stride_w - $pad_w + s * $dilation_w;
  if (h < 0 || h >= H || w < 0 || w >= W) return pixels;
  return $index;
}
)";

std::string pixel(const RecordedLayer& recorded) {
  const Conv2dProblem& d = problem_of<Conv2dProblem>(recorded);
  const bool nhwc = is_nhwc(recorded);
  return fill(kPixel, {{"n", d.n},
                       {"c", d.c},
                       {"h", d.h},
                       {"w", d.w},
                       {"r", d.r},
                       {"s", d.s},
                       {"p", d.p},
                       {"q", d.q},
                       {"stride_h", d.stride_h},
                       {"stride_w", d.stride_w},
                       {"pad_h", d.pad_h},
                       {"pad_w", d.pad_w},
                       {"dilation_h", d.dilation_h},
                       {"dilation_w", d.dilation_w},
                       {"row", nhwc ? "at" : "tap"},
                       {"column", nhwc ? "tap" : "at"},
                       {"columns", nhwc ? "R * S * C" : "N * P * Q"},
                       {"split", nhwc ? "c = tap % C, r = tap / (C * S), s = tap / C % S"
                                      : "c = tap / (R * S), r = tap / S % R, s = tap % S"},
                       {"index", nhwc ? "((size_t(n) * H + h) * W + w) * C + c"
                                      : "((size_t(n) * C + c) * H + h) * W + w"}});
}

constexpr const char* kIm2col = R"(
/// Stands for a kernel of Duet's: the matrix of what each tap reads at each output position.
void im2col(const float* x, float* columns) {
  const std::vector<double> values = from_gpu(x, pixels);
  std::vector<float> matrix(taps);
  for (size_t i = 0; i < taps; ++i) matrix[i] = pixel(i) < pixels ? float(values[pixel(i)]) : 0;
  put(matrix, columns);
}
)";

constexpr const char* kCol2im = R"(
/// Stands for a kernel of Duet's: for each pixel the sum over the taps that read it.
void col2im(const float* columns, float* dx) {
  const std::vector<double> matrix = from_gpu(columns, taps);
  std::vector<float> sums(pixels + 1);
  for (size_t i = 0; i < taps; ++i) sums[pixel(i)] += float(matrix[i]);
  sums.pop_back();
  put(sums, dx);
}
)";

constexpr const char* kPlane = R"(
constexpr int plane_rows = $rows, plane_columns = $columns;  // of the transforms
struct Images {
  int count, channels, height, width;
  size_t elements() const { return size_t(count) * channels * height * width; }
  size_t planes() const { return size_t(count) * channels; }
};
/// Where element i of images lies in planes. Each channel of each image has a plane, and begins
/// there at row `top` and column `left`.
size_t in_plane(size_t i, Images of, int top, int left) {
  $split;
  return (plane * plane_rows + h + top) * plane_columns + w + left;
}
)";

std::string plane(const RecordedLayer& recorded) {
  std::string rows = "1", columns = "1";
  for (const Record& record : recorded.records) {
    if (record.name != "cufftMakePlanMany") continue;
    rows = record.argument("n").value[0].dump();
    columns = record.argument("n").value[1].dump();
  }
  const char* const nhwc =
      "const size_t c = i % of.channels, w = i / of.channels % of.width;\n"
      "  const size_t h = i / of.channels / of.width % of.height;\n"
      "  const size_t plane = i / of.channels / of.width / of.height * of.channels + c";
  const char* const nchw =
      "const size_t w = i % of.width, h = i / of.width % of.height, plane = i / of.width / "
      "of.height";
  return fill(kPlane,
              {{"rows", rows}, {"columns", columns}, {"split", is_nhwc(recorded) ? nhwc : nchw}});
}

constexpr const char* kIntoPlanes = R"(
/// Stands for a kernel of Duet's: the images in planes, with zeros around them.
void into_planes(const float* from, Images images, int top, int left, float* planes) {
  const std::vector<double> values = from_gpu(from, images.elements());
  std::vector<float> all(images.planes() * plane_rows * plane_columns);
  for (size_t i = 0; i < values.size(); ++i) all[in_plane(i, images, top, left)] = float(values[i]);
  put(all, planes);
}
)";

constexpr const char* kFromPlanes = R"(
/// Stands for a kernel of Duet's: the images in the planes, scaled, plus the bias of the channel.
void from_planes(const float* planes, float scale, const float* bias, Images images, int top,
                 int left, float* to) {
  constexpr size_t size = size_t(plane_rows) * plane_columns;
  const std::vector<double> all = from_gpu(planes, images.planes() * size);
  const size_t channels = images.channels;
  const std::vector<double> added = bias ? from_gpu(bias, channels) : std::vector<double>(channels);
  std::vector<float> values(images.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t at = in_plane(i, images, top, left);
    values[i] = float(all[at] * scale + added[at / size % channels]);
  }
  put(values, to);
}
)";

constexpr const char* kTarget = R"(
constexpr size_t rows = $rows, classes = $classes;
const std::vector<float> labels_values = $labels;
const std::vector<double> class_weights$weights;
constexpr double smoothing = $smoothing;

/// The target of each class for the softmax of a row, and the weight of the row in the mean.
struct Target {
  std::vector<double> at = std::vector<double>(classes);
  double weight = 0;
  bool counts = true;
  size_t label = 0;  // with the larger share
};
Target target_of(size_t row) {
  $label;
  Target target;
  target.label = share >= 0.5 ? a : b;
  target.counts = $counts;
  for (size_t j = 0; j < classes && target.counts; ++j) {
    const double part = (j == a ? share : 0) + (j == b ? 1 - share : 0);
    target.at[j] = ((1 - smoothing) * part + smoothing / classes) * class_weights[j];
    target.weight += part * class_weights[j];
  }
  return target;
}
)";

std::string target(const RecordedLayer& recorded) {
  const auto& d = problem_of<SoftmaxCrossEntropyProblem>(recorded);
  std::string weights;
  for (const float weight : d.class_weights) {
    weights += (weights.empty() ? "" : ", ") + printed("%.9g", weight);
  }
  const std::string ignored = std::to_string(d.ignored_class);
  std::string labels;
  for (const NamedMemory& memory : recorded.memory) {
    if (memory.name == "labels") labels = input_of(recorded, memory).text;
  }
  return fill(
      kTarget,
      {{"rows", d.n},
       {"classes", d.c},
       {"labels", labels},
       {"weights", weights.empty() ? "(classes, 1)" : " = {" + weights + "}"},
       {"smoothing", printed("%.9g", d.label_smoothing)},
       {"label",
        d.mixed ? "const float* of = &labels_values[3 * row];\n"
                  "  const size_t a = size_t(of[0]), b = size_t(of[1]);\n"
                  "  const double share = of[2] / 65536"
                : "const size_t a = size_t(labels_values[row]), b = a;\n  const double share = 1"},
       {"counts",
        d.ignored_class == kNoClass ? "true" : "a != " + ignored + " && b != " + ignored}});
}

constexpr const char* kPick = R"(
/// Stands for a kernel of Duet's: the mean of -log_softmax at the targets; how many rows are right,
/// and how many count.
void pick(const float* logits, const float* log_softmax, float* loss, int* hits, float* weight) {
  const std::vector<double> x = from_gpu(logits, rows * classes);
  const std::vector<double> logs = from_gpu(log_softmax, rows * classes);
  double sum = 0, weights = 0;
  int right = 0, counted = 0;
  for (size_t n = 0; n < rows; ++n) {
    const Target target = target_of(n);
    for (size_t j = 0; j < classes; ++j) sum -= target.at[j] * logs[n * classes + j];
    const auto row = x.begin() + n * classes;
    weights += target.weight;
    counted += target.counts;
    right += target.counts && size_t(std::max_element(row, row + classes) - row) == target.label;
  }
  put({float(sum / weights)}, loss);
  put({float(right), float(counted)}, hits);
  put({float(weights)}, weight);
}
)";

constexpr const char* kUnpick = R"(
/// Stands for a kernel of Duet's: the gradient of log_softmax, -dloss / (weight of all rows) *
/// target.
void unpick(const float* weight, const float* dloss, float* d_log_softmax) {
  const double scale = from_gpu(dloss, 1)[0] / from_gpu(weight, 1)[0];
  std::vector<float> gradient;
  for (size_t n = 0; n < rows; ++n) {
    for (const double target : target_of(n).at) gradient.push_back(float(-scale * target));
  }
  put(gradient, d_log_softmax);
}
)";

constexpr const char* kDropout = R"(
/// Duet's mask at step 0, the same by every implementation: Philox4x32-10 makes four words of the
/// network's seed, the layer's number and a block of four elements, and no state is kept.
bool kept(size_t i) {
  const size_t element = $element;
  uint32_t c[] = {uint32_t(element / 4), $streamu, 0, 0};
  uint32_t key[] = {$lowu, $highu};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53) * c[0], b = uint64_t(0xCD9E8D57) * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = uint32_t(b >> 32) ^ c1 ^ key[0];
    c[1] = uint32_t(b);
    c[2] = uint32_t(a >> 32) ^ c3 ^ key[1];
    c[3] = uint32_t(a);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return float(c[element % 4] >> 8) / (1 << 24) >= float($share);
}

/// Stands for a kernel of Duet's: from / (1 - the share) where it is kept, else 0.
void dropout(const float* from, float* to, size_t count) {
  const std::vector<double> values = from_gpu(from, count);
  std::vector<float> results;
  for (size_t i = 0; i < count; ++i) {
    results.push_back(kept(i) ? float(values[i] / (1 - double(float($share)))) : 0.0f);
  }
  put(results, to);
}
)";

std::string dropout(const RecordedLayer& recorded) {
  const DropoutMask mask(problem_of<SoftmaxDropoutProblem>(recorded).dropout);
  const std::string element = fill(
      "(i / $channels / $pixels * $channels + i % $channels) * $pixels + i / $channels % $pixels",
      {{"channels", mask.channels}, {"pixels", mask.pixels}});
  return fill(kDropout, {{"element", mask.channels_last ? element : "i"},
                         {"stream", int64_t{mask.stream}},
                         {"low", int64_t{static_cast<uint32_t>(mask.seed)}},
                         {"high", static_cast<int64_t>(mask.seed >> 32)},
                         {"share", printed("%.9g", mask.p)}});
}

}  // namespace

std::string host_functions(const std::set<std::string>& kernels, const RecordedLayer& recorded) {
  const auto has = [&](const char* kernel) { return kernels.count(kernel) > 0; };
  std::string text;
  if (has("convert")) text += kConvert;
  if (has("im2col") || has("col2im")) text += pixel(recorded);
  if (has("im2col")) text += kIm2col;
  if (has("col2im")) text += kCol2im;
  if (has("into_planes") || has("from_planes")) text += plane(recorded);
  if (has("into_planes")) text += kIntoPlanes;
  if (has("from_planes")) text += kFromPlanes;
  if (has("pick") || has("unpick")) text += target(recorded);
  if (has("pick")) text += kPick;
  if (has("unpick")) text += kUnpick;
  if (has("dropout")) text += dropout(recorded);
  return text;
}

}  // namespace duet
