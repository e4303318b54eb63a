// max_pool2d, avg_pool2d and global_avg_pool2d: layer types of their own with lists of their own,
// which share keys, sizes, the shape rule and the interface.
//
// Output (p, q) looks at the window of R x S pixels whose first is (p*stride_h - pad_h,
// q*stride_w - pad_w). Sizes: P = (H + 2*pad_h - R) / stride_h + 1, rounded down, Q likewise.
// Keys: kernel (required; k or [r, s]), stride (default: kernel), padding 0 (at most half the
// kernel, so that every window holds a pixel of the image).
//
// max_pool2d: y = the largest value of each window, as torch.nn.MaxPool2d (without dilation and
// ceil_mode). Padding counts as -infinity. dy goes to the pixel that was the largest: of equal ones
// to the first in row-major order; where there are NaNs, y is NaN and dy goes to the last of them.
//
// avg_pool2d: y = the sum of each window / R*S, as torch.nn.AvgPool2d (without ceil_mode and
// divisor_override). Padding counts as 0 and is counted; with count_include_pad: false, y = the sum
// / the number of pixels of the image in the window.
//
// global_avg_pool2d: y = the mean of each channel of each image, N x C x 1 x 1, as
// torch.nn.AdaptiveAvgPool2d(1); dx = dy / (H*W). No keys: its one window is the image.
#pragma once

#include "core/host_device.h"
#include "layers/layer.h"

namespace duet {

enum class PoolKind { kMax, kAverage, kGlobalAverage };

struct Pool2dParams {
  std::pair<int64_t, int64_t> kernel = {1, 1};  // {R, S}
  std::pair<int64_t, int64_t> stride = {1, 1};  // {height, width}
  std::pair<int64_t, int64_t> padding = {0, 0};
  bool count_include_pad = true;  // averages: divide by R*S everywhere

  /// The keys' names begin with `prefix`.
  static Pool2dParams read(ConfigReader& reader, PoolKind kind, const std::string& prefix = "");
  /// As Layer::change_option().
  bool change_option(size_t number, PoolKind kind);
};

/// A range of rows and one of columns, ends excluded.
struct PixelRange {
  int h_begin, h_end;
  int w_begin, w_end;
};

/// All sizes of one pooling. Tensors: x N,C,H,W; y N,C,P,Q, both in `layout`; each has fewer than
/// 2^31 elements. Kernels take it as it is.
struct Pool2dProblem {
  PoolKind kind = PoolKind::kMax;
  int n = 1, c = 1, h = 1, w = 1;
  int r = 1, s = 1;
  int p = 1, q = 1;
  int stride_h = 1, stride_w = 1;
  int pad_h = 0, pad_w = 0;
  bool count_include_pad = true;
  Layout layout = Layout::kNCHW;
  DType dtype = DType::kFloat32;

  TensorDesc x_desc() const { return {{n, c, h, w}, dtype, layout}; }
  TensorDesc y_desc() const { return {{n, c, p, q}, dtype, layout}; }
  DUET_HOST_DEVICE int window() const { return r * s; }
  std::string to_string() const;

  /// The pixels of x that output (p, q) looks at; never empty.
  DUET_HOST_DEVICE PixelRange pixels_of(int row, int column) const {
    const int top = row * stride_h - pad_h, left = column * stride_w - pad_w;
    return {top > 0 ? top : 0, top + r < h ? top + r : h, left > 0 ? left : 0,
            left + s < w ? left + s : w};
  }
  /// The outputs whose windows hold pixel (row, column); may be empty.
  DUET_HOST_DEVICE PixelRange outputs_of(int row, int column) const {
    const int y = row + pad_h, x = column + pad_w;
    const int row_end = y / stride_h + 1, column_end = x / stride_w + 1;
    return {y < r ? 0 : (y - r) / stride_h + 1, row_end < p ? row_end : p,
            x < s ? 0 : (x - s) / stride_w + 1, column_end < q ? column_end : q};
  }
  /// What an average divides by.
  DUET_HOST_DEVICE int divisor(const PixelRange& pixels) const {
    return count_include_pad ? r * s
                             : (pixels.h_end - pixels.h_begin) * (pixels.w_end - pixels.w_begin);
  }
};

/// True if `x` takes the place of the largest value so far. Of equal values the first stays; a NaN
/// always takes it, so that of several NaNs the last has it, as in PyTorch.
template <class T>
DUET_HOST_DEVICE inline bool takes_over(T x, T largest) {
  return x > largest || x != x;
}

/// Shapes as Pool2dProblem says.
using Pool2dImpl = MapImpl<Pool2dProblem>;
using Pool2dImpls = std::vector<ImplEntry<Pool2dProblem>>;

/// The shape rule alone, for layers that contain a pooling. Throws ShapeError.
Pool2dProblem pool2d_problem(PoolKind kind, const Pool2dParams& params, const TensorDesc& x);
/// cuDNN's letters for the keys of a pooling.
std::vector<ShapeWord> pool2d_shape_words();

/// A layer type that pools by `kind`, with a list of its own.
class Pool2dLayer : public LayerOf<Pool2dLayer, Pool2dProblem> {
 public:
  Pool2dLayer(ConfigReader& reader, PoolKind kind);

  bool change_option(size_t number) override { return params_.change_option(number, kind_); }

 protected:
  Pool2dProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions& options) override;

 private:
  PoolKind kind_;
  Pool2dParams params_;
};

const LayerType& max_pool2d_type();
const LayerType& avg_pool2d_type();
const LayerType& global_avg_pool2d_type();

Pool2dImpls& max_pool2d_impls();
Pool2dImpls& avg_pool2d_impls();
Pool2dImpls& global_avg_pool2d_impls();

/// custom_naive in double, for blocks' references on a GPU; in no list (layers/gpu_reference.h).
std::unique_ptr<Implementation> make_max_pool2d_gpu_reference(const Pool2dProblem& problem);

}  // namespace duet
