#include "layers/pool2d/pool2d.h"

namespace duet {

// In the file of the last part of its name.
ImplEntry<Pool2dProblem> pool2d_cpu_reference();
ImplEntry<Pool2dProblem> max_pool2d_custom_vectorized();
ImplEntry<Pool2dProblem> avg_pool2d_custom_vectorized();
ImplEntry<Pool2dProblem> max_pool2d_custom_naive();
ImplEntry<Pool2dProblem> avg_pool2d_custom_naive();
ImplEntry<Pool2dProblem> global_avg_pool2d_custom_reduction();
ImplEntry<Pool2dProblem> global_avg_pool2d_custom_naive();
ImplEntry<Pool2dProblem> pool2d_cudnn();

Pool2dImpls& max_pool2d_impls() {
  static Pool2dImpls list = {
    pool2d_cpu_reference(),
#if DUET_WITH_CUDA
    max_pool2d_custom_vectorized(),
    max_pool2d_custom_naive(),
    pool2d_cudnn(),
#endif
  };
  return list;
}

Pool2dImpls& avg_pool2d_impls() {
  static Pool2dImpls list = {
    pool2d_cpu_reference(),
#if DUET_WITH_CUDA
    avg_pool2d_custom_vectorized(),
    avg_pool2d_custom_naive(),
    pool2d_cudnn(),
#endif
  };
  return list;
}

/// The CPU and cuDNN take it as an average.
Pool2dImpls& global_avg_pool2d_impls() {
  static Pool2dImpls list = {
    pool2d_cpu_reference(),
#if DUET_WITH_CUDA
    global_avg_pool2d_custom_reduction(),
    global_avg_pool2d_custom_naive(),
    pool2d_cudnn(),
#endif
  };
  return list;
}

namespace {

constexpr int64_t kMostWindow = 1 << 24;  // a float counts to here

std::string by(int64_t a, int64_t b) { return std::to_string(a) + "x" + std::to_string(b); }

std::string_view name_of(PoolKind kind) {
  return kind == PoolKind::kMax       ? "max_pool2d"
         : kind == PoolKind::kAverage ? "avg_pool2d"
                                      : "global_avg_pool2d";
}
Pool2dImpls& impls_of(PoolKind kind) {
  return kind == PoolKind::kMax       ? max_pool2d_impls()
         : kind == PoolKind::kAverage ? avg_pool2d_impls()
                                      : global_avg_pool2d_impls();
}

}  // namespace

Pool2dParams Pool2dParams::read(ConfigReader& reader, PoolKind kind, const std::string& prefix) {
  Pool2dParams params;
  params.kernel = reader.integer_pair(prefix + "kernel", {}, 1);
  const auto [kernel_h, kernel_w] = params.kernel;
  if (reader.has(prefix + "stride") || kernel_h == kernel_w) {
    params.stride = reader.integer_pair(prefix + "stride", kernel_h, 1);
  } else {
    reader.raw(prefix + "stride");  // known, and absent
    params.stride = params.kernel;
  }
  params.padding = reader.integer_pair(prefix + "padding", 0, 0);
  if (params.padding.first > kernel_h / 2 || params.padding.second > kernel_w / 2) {
    reader.error(prefix + "padding", "at most half the kernel (" + by(kernel_h, kernel_w) +
                                         "), found " +
                                         by(params.padding.first, params.padding.second));
  }
  if (kind == PoolKind::kAverage) {
    params.count_include_pad = reader.flag("count_include_pad", true);
  }
  return params;
}

bool Pool2dParams::change_option(size_t number, PoolKind kind) {
  if (kind == PoolKind::kGlobalAverage) return false;
  switch (number) {
    case 0:
      make_uneven(stride);
      return true;
    case 1:
      make_uneven(kernel);
      return true;
    case 2:
      make_uneven(padding);
      return true;
    case 3:
      count_include_pad = !count_include_pad;
      return kind == PoolKind::kAverage;
    default:
      return false;
  }
}

std::string Pool2dProblem::to_string() const {
  const auto field = [](const char* name, int value) {
    return std::string(name) + "=" + std::to_string(value) + " ";
  };
  std::string text = field("n", n) + field("c", c) + field("h", h) + field("w", w);
  if (kind != PoolKind::kGlobalAverage) {
    text += field("r", r) + field("s", s) + field("p", p) + field("q", q) +
            "stride=" + by(stride_h, stride_w) + " pad=" + by(pad_h, pad_w) + " ";
  }
  if (kind == PoolKind::kAverage) {
    text += std::string("count_include_pad=") + (count_include_pad ? "true " : "false ");
  }
  return text + std::string(duet::to_string(layout)) + " " + std::string(duet::to_string(dtype));
}

std::vector<ShapeWord> pool2d_shape_words() {
  return {{"r", "kernel", 0}, {"s", "kernel", 1}, {"pad", "padding"}};
}

Pool2dProblem pool2d_problem(PoolKind kind, const Pool2dParams& params, const TensorDesc& x) {
  if (x.shape.rank() != 4) {
    throw ShapeError("takes images (N x C x H x W), not " + x.shape.to_string());
  }
  const auto [r, s] = params.kernel;
  const auto [pad_h, pad_w] = params.padding;
  const int64_t h = x.shape[2], w = x.shape[3];
  if (pad_h > r / 2 || pad_w > s / 2) {
    throw ShapeError("padding " + by(pad_h, pad_w) + " is more than half the kernel " + by(r, s));
  }
  if (r > h + 2 * pad_h || s > w + 2 * pad_w) {
    throw ShapeError("kernel " + by(r, s) + " is larger than the input of " + by(h, w) +
                     " with padding " + by(pad_h, pad_w));
  }
  if (r > kMostWindow || s > kMostWindow || r * s > kMostWindow) {
    throw ShapeError("kernel " + by(r, s) +
                     " is too large; windows of up to 2^24 pixels are possible");
  }
  if (h + 2 * pad_h > ConfigReader::kMaxInteger || w + 2 * pad_w > ConfigReader::kMaxInteger) {
    throw ShapeError("padding " + by(pad_h, pad_w) + " around an input of " + by(h, w) +
                     " makes more than 2^31-1 rows or columns");
  }
  const int64_t p = (h + 2 * pad_h - r) / params.stride.first + 1;
  const int64_t q = (w + 2 * pad_w - s) / params.stride.second + 1;
  if (x.elements() > ConfigReader::kMaxInteger ||
      Shape{x.shape[0], x.shape[1], p, q}.elements() > ConfigReader::kMaxInteger) {
    throw ShapeError("takes fewer than 2^31 elements, not " + x.shape.to_string());
  }
  return {.kind = kind,
          .n = static_cast<int>(x.shape[0]),
          .c = static_cast<int>(x.shape[1]),
          .h = static_cast<int>(h),
          .w = static_cast<int>(w),
          .r = static_cast<int>(r),
          .s = static_cast<int>(s),
          .p = static_cast<int>(p),
          .q = static_cast<int>(q),
          .stride_h = static_cast<int>(params.stride.first),
          .stride_w = static_cast<int>(params.stride.second),
          .pad_h = static_cast<int>(pad_h),
          .pad_w = static_cast<int>(pad_w),
          .count_include_pad = params.count_include_pad,
          .layout = x.layout,
          .dtype = x.dtype};
}

Pool2dLayer::Pool2dLayer(ConfigReader& reader, PoolKind kind)
    : LayerOf(name_of(kind), impls_of(kind)), kind_(kind) {
  if (kind != PoolKind::kGlobalAverage) params_ = Pool2dParams::read(reader, kind);
}

Pool2dProblem Pool2dLayer::infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) {
  Pool2dParams params = params_;
  const Shape& x = inputs[0].shape;
  if (kind_ == PoolKind::kGlobalAverage && x.rank() == 4) {
    params.kernel = params.stride = {x[2], x[3]};
  }
  const Pool2dProblem problem = pool2d_problem(kind_, params, inputs[0]);
  outputs_ = {problem.y_desc()};
  return problem;
}

const LayerType& max_pool2d_type() {
  static const LayerType type = layer_type<Pool2dLayer, max_pool2d_impls, PoolKind::kMax>(
      "max_pool2d", "the largest value of each window", pool2d_shape_words());
  return type;
}
const LayerType& avg_pool2d_type() {
  static const LayerType type = layer_type<Pool2dLayer, avg_pool2d_impls, PoolKind::kAverage>(
      "avg_pool2d", "the mean of each window", pool2d_shape_words());
  return type;
}
const LayerType& global_avg_pool2d_type() {
  static const LayerType type =
      layer_type<Pool2dLayer, global_avg_pool2d_impls, PoolKind::kGlobalAverage>(
          "global_avg_pool2d", "the mean of each channel of an image");
  return type;
}

}  // namespace duet
