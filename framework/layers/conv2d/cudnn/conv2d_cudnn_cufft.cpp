// conv2d cudnn_cufft: a convolution is a product of spectra (M. Mathieu, M. Henaff, Y. LeCun: Fast
// Training of Convolutional Networks through FFTs, 2014). Transforms are cuFFT's, products cuBLAS's.
//
// Each channel of each image, and each of each filter, becomes a plane of at least the padded
// image's size, so that nothing wraps around. Per frequency f the planes' spectra are matrices, X
// (N x C), W (K x C) and Y (N x K), and a pass is a complex product of two; * is the conjugate:
//
//   forward           Y[n,k]  = sum over c of X[n,c] W*[k,c]      cropped to P x Q
//   backward_data    dX[n,c]  = sum over k of dY[n,k] W[k,c]      cropped to the image in its padding
//   backward_filter  dW[k,c]  = sum over n of X[n,c] dY*[n,k]     cropped to R x S
//
// However many taps a filter has, an element of a product costs the same. Spectra lie by frequency, as
// cuFFT can write them, so that all frequencies are one strided batched product; to a column-major
// cuBLAS each row-major matrix is its own transpose.
#include <algorithm>
#include <map>
#include <optional>

#include "core/arena.h"
#include "core/error.h"
#include "device/cufft_plan.h"
#include "layers/conv2d/cudnn/conv2d_bias_gradient.h"
#include "layers/conv2d/cudnn/conv2d_planes.h"

namespace duet {
namespace {

/// The next number that has no prime factors beyond 7, for which cuFFT has kernels of its own.
int transform_size(int least, int unit) {
  for (int size = (least + unit - 1) / unit * unit;; size += unit) {
    int rest = size;
    for (int prime : {2, 3, 5, 7}) {
      while (rest % prime == 0) rest /= prime;
    }
    if (rest == 1) return size;
  }
}

/// x, w and y in their planes.
struct PlanesOf {
  Planes x, w, y;

  explicit PlanesOf(const Conv2dProblem& d) {
    const int rows = transform_size(d.h + 2 * d.pad_h, 1);
    const int columns = transform_size(d.w + 2 * d.pad_w, 2);
    x = {d.x_desc(), d.pad_h, d.pad_w, rows, columns};
    w = {d.w_desc(), 0, 0, rows, columns};
    y = {d.y_desc(), 0, 0, rows, columns};
  }
  int frequencies() const { return x.rows * (x.columns / 2 + 1); }
};

/// What a pass makes of two tensors: D (m x n) = op(A) op(B) of each frequency, column-major, packed;
/// the sum is over k.
struct SpectrumProduct {
  const Planes &a, &b, &d;
  cublasOperation_t op_a, op_b;
  int m, n, k;
};

class Conv2dCudnnCufft : public Conv2dImpl {
 public:
  explicit Conv2dCudnnCufft(const Conv2dProblem& problem) : Conv2dImpl(problem), planes_(problem) {
    if (problem.bias) bias_gradient_.emplace(problem);
  }

  void prepare(Pass pass, Context& context) override {
    if (pass == Pass::kBackwardFilter && bias_gradient_) bias_gradient_->prepare(context);
    const SpectrumProduct product = product_of(pass);
    transforms_.erase(pass);
    Transforms& made = transforms_.try_emplace(pass, product).first->second;
    if (made.memory.bytes() <= context.workspace_limit()) return;
    throw UnsupportedError("conv2d cudnn_cufft: stores spectra and takes " +
                           std::to_string((made.memory.bytes() >> 20) + 1) +
                           " MiB of workspace; raise workspace_limit_mib, or take another");
  }
  /// The bias's gradient comes behind the product and takes its place.
  size_t workspace_bytes(Pass pass) const override {
    const size_t bytes = transforms_.at(pass).memory.bytes();
    if (pass != Pass::kBackwardFilter || !bias_gradient_) return bytes;
    return std::max(bytes, bias_gradient_->workspace_bytes());
  }
  std::string detail(Pass pass) const override {
    const std::string text =
        "planes of " + std::to_string(planes_.x.rows) + "x" + std::to_string(planes_.x.columns) +
        ", " + std::to_string((transforms_.at(pass).memory.bytes() >> 20) + 1) + " MiB of spectra";
    if (pass != Pass::kBackwardFilter || !bias_gradient_) return text;
    return text + "; " + bias_gradient_->detail();
  }
  std::vector<std::string> calls(Pass pass) const override {
    std::vector<std::string> all = {"cufftExecR2C", "cufftExecR2C", "cublasGemmStridedBatchedEx",
                                    "cufftExecC2R"};
    if (pass == Pass::kBackwardFilter && bias_gradient_) {
      const auto bias = bias_gradient_->calls();
      all.insert(all.end(), bias.begin(), bias.end());
    }
    return all;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    multiply(Pass::kForward, run, w, x, b.data<float>(), y);
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    multiply(Pass::kBackwardData, run, w, dy, nullptr, dx);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    multiply(Pass::kBackwardFilter, run, x, dy, nullptr, dw);
    if (db) bias_gradient_->run(run.context, dy.memory, db.data<float>(), run.workspace);
  }

 private:
  /// The transforms of a pass, and its workspace: real planes, of one tensor after the other, three
  /// spectra and what cuFFT needs.
  struct Transforms {
    explicit Transforms(const SpectrumProduct& p)
        : a(CUFFT_R2C, p.a.rows, p.a.columns, p.a.count()),
          b(CUFFT_R2C, p.b.rows, p.b.columns, p.b.count()),
          d(CUFFT_C2R, p.d.rows, p.d.columns, p.d.count()) {
      const int64_t most = std::max({p.a.elements(), p.b.elements(), p.d.elements()});
      planes = memory.reserve(static_cast<size_t>(most) * sizeof(float));
      const auto spectra = [&](const Planes& of) {
        const size_t frequencies = static_cast<size_t>(of.rows) * (of.columns / 2 + 1);
        return memory.reserve(of.count() * frequencies * sizeof(cufftComplex));
      };
      a_spectra = spectra(p.a), b_spectra = spectra(p.b), d_spectra = spectra(p.d);
      scratch =
          memory.reserve(std::max({a.workspace_bytes(), b.workspace_bytes(), d.workspace_bytes()}));
    }

    gpu::CufftPlan a, b, d;
    ArenaPlan memory;
    size_t planes, a_spectra, b_spectra, d_spectra, scratch;  // offsets
  };

  SpectrumProduct product_of(Pass pass) const {
    const int n = problem_.n, c = problem_.c, k = problem_.k;
    const auto &x = planes_.x, &w = planes_.w, &y = planes_.y;
    switch (pass) {
      case Pass::kBackwardData:  // the spectra of dy are as y's
        return {w, y, x, CUBLAS_OP_N, CUBLAS_OP_N, c, n, k};
      case Pass::kBackwardFilter:
        return {x, y, w, CUBLAS_OP_N, CUBLAS_OP_C, c, k, n};
      default:
        return {w, x, y, CUBLAS_OP_C, CUBLAS_OP_N, k, n, c};
    }
  }

  void multiply(Pass pass, const Run& run, const Tensor& a, const Tensor& b, const float* bias,
                const Tensor& d) {
    Transforms& t = transforms_.at(pass);
    const SpectrumProduct p = product_of(pass);
    char* const memory = static_cast<char*>(run.workspace);
    auto* const planes = reinterpret_cast<float*>(memory + t.planes);
    const auto spectra = [&](size_t offset) {
      return reinterpret_cast<cufftComplex*>(memory + offset);
    };
    void* const scratch = memory + t.scratch;
    queue_into_planes(p.a, a, planes, run);
    t.a.to_spectra(planes, spectra(t.a_spectra), scratch, run.stream());
    queue_into_planes(p.b, b, planes, run);
    t.b.to_spectra(planes, spectra(t.b_spectra), scratch, run.stream());
    const cuComplex one = {1.0f, 0.0f}, zero = {0.0f, 0.0f};
    const int lda = p.op_a == CUBLAS_OP_N ? p.m : p.k, ldb = p.op_b == CUBLAS_OP_N ? p.k : p.n;
    DUET_CUBLAS(cublasGemmStridedBatchedEx(
        run.context.cublas(), p.op_a, p.op_b, p.m, p.n, p.k, &one, spectra(t.a_spectra), CUDA_C_32F,
        lda, p.a.count(), spectra(t.b_spectra), CUDA_C_32F, ldb, p.b.count(), &zero,
        spectra(t.d_spectra), CUDA_C_32F, p.m, p.d.count(), planes_.frequencies(),
        CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_DEFAULT));
    t.d.to_planes(spectra(t.d_spectra), planes, scratch, run.stream());
    const float scale = 1.0f / (static_cast<float>(p.d.rows) * static_cast<float>(p.d.columns));
    queue_from_planes(p.d, planes, scale, bias, d, run);
  }

  const PlanesOf planes_;
  std::map<Pass, Transforms> transforms_;
  std::optional<Conv2dBiasGradient> bias_gradient_;
};

std::optional<std::string> unsupported(const Conv2dProblem& d, Pass) {
  if (d.groups != 1) return "takes no groups";
  if (d.stride_h != 1 || d.stride_w != 1) return "takes stride 1 only";
  if (d.dilation_h != 1 || d.dilation_w != 1) return "takes dilation 1 only";
  constexpr int kMostPadded = 1024, kMostFrequencies = 65535;  // of a batch of products
  if (d.h + int64_t{2} * d.pad_h > kMostPadded || d.w + int64_t{2} * d.pad_w > kMostPadded ||
      PlanesOf(d).frequencies() > kMostFrequencies) {
    return "takes images of at most 1024 rows and columns with padding, and 65535 frequencies";
  }
  // An element errs by a share of its whole plane: with fewer, by nearly what its few terms may.
  if (d.r * d.s < 9) return "takes filters of 9 taps or more";
  const PlanesOf planes(d);
  constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
  for (const Planes& each : {planes.x, planes.w, planes.y}) {
    const int64_t elements =
        saturated_product_of({each.desc.shape[0], each.desc.shape[1], each.rows, each.columns});
    if (elements > kMost) return "its planes have more than 2^31 elements; use a smaller batch";
  }
  return {};
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_cudnn_cufft() {
  return impl_entry<Conv2dCudnnCufft>("cudnn_cufft", unsupported);
}

}  // namespace duet
