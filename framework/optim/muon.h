// Muon, as torch.optim.Muon (Jordan et al. 2024): a matrix moves along its averaged gradient made
// nearly orthogonal. Parameters of two axes or more are matrices, a convolution's filter a row; the
// others move by AdamW.
//
//   m += (1-momentum)(g-m); x = nesterov ? g + momentum (m-g) : m; x /= max(|x|, 1e-7)
//   five times: a = x x^T; x = 3.4445 x + (-4.775 a + 2.0315 a a) x     (x transposed where tall)
//   w *= 1 - lr * weight_decay; w -= lr * ratio * x
//
// PyTorch rounds the products to bfloat16; here they are float32.
#pragma once

#include <memory>

#include "optim/optimizer.h"
#include "optim/update.h"

namespace duet {

struct MuonRule {
  float momentum = 0.95f;
  float weight_decay = 0.1f;
  bool nesterov = true;
  bool match_rms_adamw = false;  // ratio = 0.2 sqrt(max(rows, columns)), else sqrt(max(1, rows /
                                 // columns))
  AdamRule adamw;                // of the other parameters; its rate is in units of lr

  DUET_HOST_DEVICE float average(float g, float& m) const {
    m += (1.0f - momentum) * (g - m);
    return nesterov ? g + momentum * (m - g) : m;
  }
};

/// A parameter as a matrix, row-major.
struct MuonMatrix {
  int64_t offset = 0;  // in the flat buffers
  int rows = 0, columns = 0;
  float ratio = 1.0f;

  int64_t elements() const { return int64_t{rows} * columns; }
};

/// What a device does of it, in float32 and column-major as BLAS: a row-major matrix is then its
/// transpose.
class MuonDevice {
 public:
  virtual ~MuonDevice() = default;

  /// Averages the gradient; to `x` what is made orthogonal, of norm 1.
  virtual void take(const MuonMatrix& matrix, const StepState* state, const float* loss,
                    float* x) = 0;
  struct Operand {
    const float* data;
    int stride;
    bool transposed = false;
  };
  /// c (m x n, without gaps) = a b + beta c, with k products an element.
  virtual void multiply(int m, int n, int k, float alpha, const Operand& a, const Operand& b,
                        float beta, float* c) = 0;
  /// Moves the matrix along x.
  virtual void apply(const MuonMatrix& matrix, const StepState* state, const float* loss,
                     const float* x) = 0;
};

std::unique_ptr<MuonDevice> make_muon_cpu(const OptimizerTensors& tensors, const MuonRule& rule,
                                          const UpdateExtras& extras);
#if DUET_WITH_CUDA
std::unique_ptr<MuonDevice> make_muon_gpu(Context& context, const OptimizerTensors& tensors,
                                          const MuonRule& rule, const UpdateExtras& extras);
#endif

std::unique_ptr<Optimizer> make_muon(ConfigReader& reader);

}  // namespace duet
