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
// which was never best. cublasSgemv takes float32 alone; where dy is bfloat16 the first of the two
// sums is cublasGemmEx with one column, which leaves float32, and cudnnConvolutionBackwardBias,
// which would round db, is not taken.
#include "layers/conv2d/cudnn/conv2d_bias_gradient.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "device/graph_time.h"
#include "device/tuning_cache.h"

namespace duet {
namespace {

constexpr float kOne = 1.0f, kZero = 0.0f;

/// Sums of a row-major matrix by products with ones. cuBLAS is column-major: to it, the matrix is
/// its own transpose, columns x rows. `ones` are as many as the longest sum has terms, in float32,
/// and behind them as many in bfloat16.
class Sums {
 public:
  Sums(Context& context, const void* ones, size_t count)
      : cublas_(context.cublas()),
        ones_(static_cast<const float*>(ones)),
        narrow_ones_(reinterpret_cast<const bfloat16*>(ones_ + count)) {}
  ~Sums() { (void)cublasSetMathMode(cublas_, CUBLAS_DEFAULT_MATH); }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;

  void of_rows(DType dtype, const void* matrix, int rows, int columns, float* sums) const {
    multiply(CUBLAS_OP_T, dtype, matrix, rows, columns, sums);
  }
  void of_columns(DType dtype, const void* matrix, int rows, int columns, float* sums) const {
    multiply(CUBLAS_OP_N, dtype, matrix, rows, columns, sums);
  }

 private:
  void multiply(cublasOperation_t op, DType dtype, const void* matrix, int rows, int columns,
                float* sums) const {
    if (dtype == DType::kFloat32) {
      DUET_CUBLAS(cublasSetMathMode(cublas_, CUBLAS_PEDANTIC_MATH));
      DUET_CUBLAS(cublasSgemv(cublas_, op, columns, rows, &kOne, static_cast<const float*>(matrix),
                              columns, ones_, 1, &kZero, sums, 1));
      return;
    }
    DUET_CUBLAS(cublasSetMathMode(cublas_, CUBLAS_DEFAULT_MATH));
    const bool of_rows = op == CUBLAS_OP_T;
    const int results = of_rows ? rows : columns, terms = of_rows ? columns : rows;
    DUET_CUBLAS(cublasGemmEx(cublas_, op, CUBLAS_OP_N, results, 1, terms, &kOne, matrix,
                             CUDA_R_16BF, columns, narrow_ones_, CUDA_R_16BF, terms, &kZero, sums,
                             CUDA_R_32F, results, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  }

  cublasHandle_t cublas_;
  const float* ones_;
  const bfloat16* narrow_ones_;
};

}  // namespace

Conv2dBiasGradient::Conv2dBiasGradient(const Conv2dProblem& problem)
    : problem_(problem),
      dy_(problem.y_desc()),
      db_(gpu::per_channel_descriptor(problem.k, accumulator_of(problem.dtype), problem.layout)) {}

void Conv2dBiasGradient::prepare(Context& context) {
  const size_t images = problem_.n, pixels = static_cast<size_t>(problem_.p) * problem_.q;
  const bool at_once = problem_.layout == Layout::kNHWC;
  ones_count_ = at_once ? images * pixels : std::max(images, pixels);
  const std::vector<float> ones(ones_count_, 1.0f);
  const std::vector<bfloat16> narrow_ones(narrow() ? ones_count_ : 0, bfloat16(1.0f));
  const size_t bytes = ones.size() * sizeof(float), narrow_bytes = narrow_ones.size() * 2;
  ones_ = Buffer(Device::kGpu, bytes + narrow_bytes);
  copy_bytes(ones_.data(), Device::kGpu, ones.data(), Device::kCpu, bytes);
  if (narrow()) {
    copy_bytes(ones_.at(bytes), Device::kGpu, narrow_ones.data(), Device::kCpu, narrow_bytes);
  }

  // Another way may round in another order, so the choice is kept, as the algorithms' are.
  static TuningCache cache(TuningCache::path_of("cudnn_algorithms.json"));
  int cublas_version = 0;
  DUET_CUBLAS(cublasGetVersion(context.cublas(), &cublas_version));
  const std::string key = "bias gradient | " + problem_.y_desc().to_string() + " | " + gpu_name() +
                          " | cuDNN " + std::to_string(cudnnGetVersion()) + " | cuBLAS " +
                          std::to_string(cublas_version);
  if (const auto entry = cache.find(key)) {
    const auto way = entry->find("way");
    if (way != entry->end() && way->second >= (narrow() ? 1 : 0) &&
        way->second < std::ssize(kWays)) {
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

  Way best = kWays[narrow() ? 1 : 0];
  double least = std::numeric_limits<double>::infinity();
  for (const Way way : kWays) {
    if (narrow() && way == Way::kBackwardBias) continue;
    const auto queue = [&] {
      run(way, context, dy.data(), static_cast<float*>(db.data()), workspace.data());
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

void Conv2dBiasGradient::run(Way way, Context& context, const void* dy, float* db,
                             void* workspace) const {
  if (way == Way::kBackwardBias) {
    DUET_CUDNN(
        cudnnConvolutionBackwardBias(context.cudnn(), &kOne, dy_.get(), dy, &kZero, db_.get(), db));
    return;
  }
  const int n = problem_.n, k = problem_.k, pixels = problem_.p * problem_.q;
  auto* between = static_cast<float*>(workspace);
  constexpr DType kFloat = DType::kFloat32;
  const Sums sums(context, ones_.data(), ones_count_);
  if (way == Way::kImagesFirst) {
    sums.of_columns(problem_.dtype, dy, n, k * pixels, between);
    if (problem_.layout == Layout::kNCHW) {
      sums.of_rows(kFloat, between, k, pixels, db);
    } else {
      sums.of_columns(kFloat, between, pixels, k, db);
    }
  } else if (problem_.layout == Layout::kNCHW) {
    sums.of_rows(problem_.dtype, dy, n * k, pixels, between);
    sums.of_columns(kFloat, between, n, k, db);
  } else {
    sums.of_columns(problem_.dtype, dy, n * pixels, k, db);
  }
}

std::vector<std::string> Conv2dBiasGradient::calls() const {
  if (way_ == Way::kBackwardBias) return {"cudnnConvolutionBackwardBias"};
  const bool at_once = way_ == Way::kPixelsFirst && problem_.layout == Layout::kNHWC;
  std::vector<std::string> calls(at_once ? 1 : 2, "cublasSgemv");
  if (narrow()) calls.front() = "cublasGemmEx";
  return calls;
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
