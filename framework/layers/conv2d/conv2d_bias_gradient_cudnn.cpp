// db[k] = sum over n,p,q of dy[n,k,p,q]: all the work is to read dy once, and yet cuDNN's own call
// takes 20 to 70 times as long as that for large batches. What the libraries offer (us on an H200,
// NCHW; dy is read at 4.3 TB/s in 41 and 15):
//
//   dy                                 1024x64x26x26   1024x128x11x11
//   cudnnConvolutionBackwardBias                 884              567
//   cudnnReduceTensor                            777              351    workspace as large as dy
//   cublasSgemv, over pixels first                58               27
//   cublasSgemv, over images first                50               20
//
// Sums of a matrix's rows or columns are products with ones. As N x (K*P*Q), dy is summed over
// images, and then each channel over its pixels; as (N*K) x (P*Q), over pixels, and then over
// images; in NHWC all its N*P*Q rows of K can be summed at once. Which is fastest depends on the
// sizes (for a small dy it is cuDNN's one kernel), so prepare() times them, save cudnnReduceTensor,
// which was never best.
#include "layers/conv2d/conv2d_bias_gradient.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "device/graph_time.h"
#include "device/tuning_cache.h"

namespace duet {
namespace {

constexpr float kOne = 1.0f, kZero = 0.0f;

/// Sums of a row-major matrix by products with ones. cuBLAS is column-major: to it, the matrix is
/// its own transpose, columns x rows.
class Sums {
 public:
  Sums(Context& context, const void* ones)
      : cublas_(context.cublas()), ones_(static_cast<const float*>(ones)) {
    DUET_CUBLAS(cublasSetMathMode(cublas_, CUBLAS_PEDANTIC_MATH));
  }
  ~Sums() { (void)cublasSetMathMode(cublas_, CUBLAS_DEFAULT_MATH); }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;

  void of_rows(const float* matrix, int rows, int columns, float* sums) const {
    gemv(CUBLAS_OP_T, matrix, rows, columns, sums);
  }
  void of_columns(const float* matrix, int rows, int columns, float* sums) const {
    gemv(CUBLAS_OP_N, matrix, rows, columns, sums);
  }

 private:
  void gemv(cublasOperation_t op, const float* matrix, int rows, int columns, float* sums) const {
    DUET_CUBLAS(
        cublasSgemv(cublas_, op, columns, rows, &kOne, matrix, columns, ones_, 1, &kZero, sums, 1));
  }

  cublasHandle_t cublas_;
  const float* ones_;
};

}  // namespace

Conv2dBiasGradient::Conv2dBiasGradient(const Conv2dProblem& problem)
    : problem_(problem),
      dy_(problem.y_desc()),
      db_(gpu::per_channel_descriptor(problem.k, problem.dtype, problem.layout)) {}

void Conv2dBiasGradient::prepare(Context& context) {
  const size_t images = problem_.n, pixels = static_cast<size_t>(problem_.p) * problem_.q;
  const bool at_once = problem_.layout == Layout::kNHWC;
  const std::vector<float> ones(at_once ? images * pixels : std::max(images, pixels), 1.0f);
  ones_ = Buffer(Device::kGpu, ones.size() * sizeof(float));
  copy_bytes(ones_.data(), Device::kGpu, ones.data(), Device::kCpu, ones_.bytes());

  // Another way may round in another order, so the choice is kept, as the algorithms' are.
  static TuningCache cache(TuningCache::path_of("cudnn_algorithms.json"));
  int cublas_version = 0;
  DUET_CUBLAS(cublasGetVersion(context.cublas(), &cublas_version));
  const std::string key = "bias gradient | " + problem_.y_desc().to_string() + " | " + gpu_name() +
                          " | cuDNN " + std::to_string(cudnnGetVersion()) + " | cuBLAS " +
                          std::to_string(cublas_version);
  if (const auto entry = cache.find(key)) {
    const auto way = entry->find("way");
    if (way != entry->end() && 0 <= way->second && way->second < std::ssize(kWays)) {
      way_ = static_cast<Way>(way->second);
      return;
    }
  }
  way_ = fastest(context);
  cache.insert(key, {{"way", static_cast<int64_t>(way_)}});
}

Conv2dBiasGradient::Way Conv2dBiasGradient::fastest(Context& context) const {
  size_t largest = 0;
  for (const Way way : kWays) largest = std::max(largest, workspace_bytes(way));
  const Buffer dy(Device::kGpu, problem_.y_desc().bytes()), workspace(Device::kGpu, largest);
  const Buffer db(Device::kGpu, problem_.b_desc().bytes());
  fill_bytes(dy.data(), Device::kGpu, 0x3c, dy.bytes());  // 0.0115 as a float

  Way best = Way::kBackwardBias;
  double least = std::numeric_limits<double>::infinity();
  for (const Way way : kWays) {
    const auto queue = [&] {
      run(way, context, static_cast<const float*>(dy.data()), static_cast<float*>(db.data()),
          workspace.data());
    };
    const double time = microseconds_in_graph(context, queue, least);
    if (time >= least) continue;
    least = time;
    best = way;
  }
  return best;
}

size_t Conv2dBiasGradient::workspace_bytes(Way way) const {
  const size_t pixels = static_cast<size_t>(problem_.p) * problem_.q;
  switch (way) {
    case Way::kBackwardBias:
      return 0;
    case Way::kPixelsFirst:  // N x K sums in between; none in NHWC
      return problem_.layout == Layout::kNHWC ? 0 : sizeof(float) * problem_.n * problem_.k;
    case Way::kImagesFirst:
      return sizeof(float) * problem_.k * pixels;
  }
  return 0;
}

void Conv2dBiasGradient::run(Way way, Context& context, const float* dy, float* db,
                             void* workspace) const {
  if (way == Way::kBackwardBias) {
    DUET_CUDNN(
        cudnnConvolutionBackwardBias(context.cudnn(), &kOne, dy_.get(), dy, &kZero, db_.get(), db));
    return;
  }
  const int n = problem_.n, k = problem_.k, pixels = problem_.p * problem_.q;
  auto* between = static_cast<float*>(workspace);
  const Sums sums(context, ones_.data());
  if (way == Way::kImagesFirst) {
    sums.of_columns(dy, n, k * pixels, between);
    if (problem_.layout == Layout::kNCHW) {
      sums.of_rows(between, k, pixels, db);
    } else {
      sums.of_columns(between, pixels, k, db);
    }
  } else if (problem_.layout == Layout::kNCHW) {
    sums.of_rows(dy, n * k, pixels, between);
    sums.of_columns(between, n, k, db);
  } else {
    sums.of_columns(dy, n * pixels, k, db);
  }
}

std::vector<std::string> Conv2dBiasGradient::calls() const {
  if (way_ == Way::kBackwardBias) return {"cudnnConvolutionBackwardBias"};
  const bool at_once = way_ == Way::kPixelsFirst && problem_.layout == Layout::kNHWC;
  return std::vector<std::string>(at_once ? 1 : 2, "cublasSgemv");
}

std::string Conv2dBiasGradient::detail() const {
  switch (way_) {
    case Way::kBackwardBias:
      return "bias gradient by cudnnConvolutionBackwardBias";
    case Way::kPixelsFirst:
      return problem_.layout == Layout::kNHWC ? "bias gradient by cuBLAS"
                                              : "bias gradient by cuBLAS, over pixels first";
    case Way::kImagesFirst:
      return "bias gradient by cuBLAS, over images first";
  }
  return "";
}

}  // namespace duet
