// muon: what a GPU does for a matrix; the products are cuBLAS's, in float32.
// Mapping:  thread = 1 element.
// Traffic:  take reads dw and m, writes m and x, and reads x twice more for its norm; apply reads x,
//           reads and writes w.
// Limits:   fp32.
#include <cublas_v2.h>

#include "device/check.h"
#include "device/launch.h"
#include "optim/muon.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

// x is filled up with zeros to a multiple of four elements.
__global__ void __launch_bounds__(kThreads)
    muon_take_kernel(MuonRule rule, int64_t count, const float* __restrict__ dw, const float* scale,
                     float* __restrict__ m, float* __restrict__ x, const StepState* state,
                     const float* loss) {
  wait_for_primary();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= (count + 3) / 4 * 4 || !updates(*state, *loss)) return;
  x[i] = i < count ? rule.average((scale ? *scale : 1.0f) * dw[i], m[i]) : 0.0f;
}

__global__ void __launch_bounds__(kThreads)
    muon_scale_kernel(int64_t count, const float* scale, float* x) {
  wait_for_primary();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) x[i] *= *scale;
}

__global__ void __launch_bounds__(kThreads)
    muon_apply_kernel(int64_t count, float weight_decay, float ratio, const float* __restrict__ x,
                      float* __restrict__ w, float* __restrict__ ema, float ema_share,
                      const StepState* state, const float* loss) {
  wait_for_primary();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count || !updates(*state, *loss)) return;
  const float rate = state->learning_rate;
  w[i] = w[i] * (1.0f - rate * weight_decay) - rate * ratio * x[i];
  if (ema) ema[i] = averaged(ema[i], w[i], ema_share, state->step);
}

unsigned blocks(int64_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

class MuonGpu : public MuonDevice {
 public:
  MuonGpu(Context& context, const OptimizerTensors& tensors, const MuonRule& rule,
          const UpdateExtras& extras)
      : context_(context),
        tensors_(tensors),
        rule_(rule),
        extras_(extras),
        norm_(Device::kGpu, norm_bytes_gpu()) {
    fill_bytes(norm_.data(), Device::kGpu, 0, norm_.bytes());
  }

  void take(const MuonMatrix& matrix, const StepState* state, const float* loss,
            float* x) override {
    const int64_t count = matrix.elements();
    launch_following({blocks(count + 3), kThreads, 0, context_.stream()}, muon_take_kernel, rule_,
                     count, tensors_.dw.data<float>() + matrix.offset, extras_.scale,
                     tensors_.state[0].data<float>() + matrix.offset, x, state, loss);
    queue_norm_gpu(context_, x, (count + 3) / 4, NormScale{}, norm_.data());
    launch_following({blocks(count), kThreads, 0, context_.stream()}, muon_scale_kernel, count,
                     static_cast<const float*>(norm_.data()), x);
  }

  void multiply(int m, int n, int k, float alpha, const Operand& a, const Operand& b, float beta,
                float* c) override {
    const auto op = [](const Operand& operand) {
      return operand.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    DUET_CUBLAS(cublasSgemm(context_.cublas(), op(a), op(b), m, n, k, &alpha, a.data, a.stride,
                            b.data, b.stride, &beta, c, m));
  }

  void apply(const MuonMatrix& matrix, const StepState* state, const float* loss,
             const float* x) override {
    const int64_t count = matrix.elements();
    launch_following({blocks(count), kThreads, 0, context_.stream()}, muon_apply_kernel, count,
                     rule_.weight_decay, matrix.ratio, x, tensors_.w.data<float>() + matrix.offset,
                     extras_.ema ? extras_.ema + matrix.offset : nullptr, extras_.ema_share, state,
                     loss);
  }

 private:
  Context& context_;
  const OptimizerTensors& tensors_;
  const MuonRule& rule_;
  const UpdateExtras extras_;
  Buffer norm_;
};

}  // namespace

std::unique_ptr<MuonDevice> make_muon_gpu(Context& context, const OptimizerTensors& tensors,
                                          const MuonRule& rule, const UpdateExtras& extras) {
  return std::make_unique<MuonGpu>(context, tensors, rule, extras);
}

}  // namespace duet
