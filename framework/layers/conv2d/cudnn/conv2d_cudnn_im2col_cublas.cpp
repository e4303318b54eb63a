// conv2d cudnn_im2col_cublas: the im2col matrix of custom_im2col, multiplied by cuBLAS, as Caffe did
// it (Y. Jia: Learning Semantic Image Representations at a Large Scale, 2014). With T taps and M
// positions, to a column-major cuBLAS each row-major matrix is its own transpose:
//
//              NCHW, M = P*Q an image                      NHWC, M = N*P*Q
//   columns X  M x T of each image, lines N*P*Q apart      T x M
//   forward    y  (M x K) = X w (w is T x K)               y  (K x M) = w^T X
//   dX         (M x T) = dy w^T                            (T x M) = w dy
//   dw         (T x K) = sum over images of X^T dy         (T x K) = X dy^T
//
// The images of a batch are one strided batched product, but for dw, whose sum over them is a
// product an image, each added to those before. The bias is added by cudnnAddTensor.
#include <optional>

#include "core/arena.h"
#include "layers/conv2d/cudnn/conv2d_bias_gradient.h"
#include "layers/conv2d/ladder/conv2d_im2col.h"

namespace duet {
namespace {

constexpr float kOne = 1.0f, kZero = 0.0f;

/// A column-major matrix of each image: the distance of its columns, and of the images.
struct Matrices {
  float* data;
  int pitch;
  int64_t stride;
};

class Conv2dCudnnIm2colCublas : public Conv2dImpl {
 public:
  explicit Conv2dCudnnIm2colCublas(const Conv2dProblem& problem)
      : Conv2dImpl(problem),
        y_(problem.y_desc()),
        b_(gpu::per_channel_descriptor(problem.k, problem.dtype, problem.layout)) {
    if (problem.bias) bias_gradient_.emplace(problem);
  }

  void prepare(Pass pass, Context& context) override {
    if (pass == Pass::kBackwardFilter && bias_gradient_) bias_gradient_->prepare(context);
    check_im2col_workspace(context, "cudnn_im2col_cublas", workspace_bytes(pass));
  }
  /// The bias's gradient comes behind the product and takes its place.
  size_t workspace_bytes(Pass pass) const override {
    const size_t columns = static_cast<size_t>(im2col_elements(problem_)) * sizeof(float);
    if (pass != Pass::kBackwardFilter || !bias_gradient_) return columns;
    return std::max(columns, bias_gradient_->workspace_bytes());
  }
  std::string detail(Pass pass) const override {
    const size_t columns = static_cast<size_t>(im2col_elements(problem_)) * sizeof(float);
    const std::string text =
        "own im2col, " + std::to_string((columns >> 20) + 1) + " MiB of columns";
    if (pass != Pass::kBackwardFilter || !bias_gradient_) return text;
    return text + "; " + bias_gradient_->detail();
  }
  std::vector<std::string> calls(Pass pass) const override {
    const bool each = pass == Pass::kBackwardFilter && !nhwc_;
    std::vector<std::string> all = {each ? "cublasGemmEx" : "cublasGemmStridedBatchedEx"};
    if (pass == Pass::kForward && problem_.bias) all.emplace_back("cudnnAddTensor");
    if (pass == Pass::kBackwardFilter && bias_gradient_) {
      const auto bias = bias_gradient_->calls();
      all.insert(all.end(), bias.begin(), bias.end());
    }
    return all;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    queue_im2col(problem_, x, run.workspace, run);
    if (nhwc_) {
      multiply(run, CUBLAS_OP_T, CUBLAS_OP_N, problem_.k, positions_, taps_, weights(w),
               columns(run), outputs(y));
    } else {
      multiply(run, CUBLAS_OP_N, CUBLAS_OP_N, positions_, problem_.k, taps_, columns(run),
               weights(w), outputs(y));
    }
    if (!b) return;
    DUET_CUDNN(
        cudnnAddTensor(run.context.cudnn(), &kOne, b_.get(), b.memory, &kOne, y_.get(), y.memory));
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    if (nhwc_) {
      multiply(run, CUBLAS_OP_N, CUBLAS_OP_N, taps_, positions_, problem_.k, weights(w),
               outputs(dy), columns(run));
    } else {
      multiply(run, CUBLAS_OP_N, CUBLAS_OP_T, positions_, taps_, problem_.k, outputs(dy),
               weights(w), columns(run));
    }
    queue_col2im(problem_, static_cast<const float*>(run.workspace), dx, run);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    queue_im2col(problem_, x, run.workspace, run);
    if (nhwc_) {
      multiply(run, CUBLAS_OP_N, CUBLAS_OP_T, taps_, problem_.k, positions_, columns(run),
               outputs(dy), weights(dw));
    } else {
      const Matrices x_of = columns(run), dy_of = outputs(dy);
      for (int n = 0; n < images_; ++n) {
        const float beta = n == 0 ? 0.0f : 1.0f;
        DUET_CUBLAS(cublasGemmEx(run.context.cublas(), CUBLAS_OP_T, CUBLAS_OP_N, taps_, problem_.k,
                                 positions_, &kOne, x_of.data + n * x_of.stride, CUDA_R_32F,
                                 x_of.pitch, dy_of.data + n * dy_of.stride, CUDA_R_32F, dy_of.pitch,
                                 &beta, dw.memory, CUDA_R_32F, taps_, compute(),
                                 CUBLAS_GEMM_DEFAULT));
      }
    }
    if (db) bias_gradient_->run(run.context, dy.memory, db.data<float>(), run.workspace);
  }

 private:
  /// c [m x n] = op(a) op(b) of each image.
  void multiply(const Run& run, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                const Matrices& a, const Matrices& b, const Matrices& c) const {
    DUET_CUBLAS(cublasGemmStridedBatchedEx(run.context.cublas(), op_a, op_b, m, n, k, &kOne, a.data,
                                           CUDA_R_32F, a.pitch, a.stride, b.data, CUDA_R_32F,
                                           b.pitch, b.stride, &kZero, c.data, CUDA_R_32F, c.pitch,
                                           c.stride, images_, compute(), CUBLAS_GEMM_DEFAULT));
  }
  /// The ordinary type leaves cuBLAS free to leave fp32.
  cublasComputeType_t compute() const {
    return problem_.math == Math::kTF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                        : CUBLAS_COMPUTE_32F_PEDANTIC;
  }

  Matrices columns(const Run& run) const {
    return {static_cast<float*>(run.workspace), nhwc_ ? taps_ : problem_.n * positions_,
            positions_};
  }
  Matrices outputs(const Tensor& y) const {
    return {y.data<float>(), nhwc_ ? problem_.k : positions_, int64_t{problem_.k} * positions_};
  }
  Matrices weights(const Tensor& w) const { return {w.data<float>(), taps_, 0}; }

  const bool nhwc_ = problem_.layout == Layout::kNHWC;
  const int images_ = nhwc_ ? 1 : problem_.n;  // of a batch of products
  const int positions_ = im2col_positions(problem_) / images_, taps_ = im2col_taps(problem_);
  const gpu::TensorDescriptor y_, b_;
  std::optional<Conv2dBiasGradient> bias_gradient_;
};

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass) {
  return im2col_unsupported(problem);
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_cudnn_im2col_cublas() {
  return impl_entry<Conv2dCudnnIm2colCublas>("cudnn_im2col_cublas", unsupported);
}

}  // namespace duet
