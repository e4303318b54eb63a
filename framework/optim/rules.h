// The update rules, each written once for the CPU and the GPU: step numbers count from 1. `decay` of
// apply() is the rule's weight_decay, or 0 for parameters without.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace duet {

struct Powers {
  double first = 1.0, second = 1.0;
};
/// pow() of both, but in some 40 multiplications: those of pow() in double are most of a kernel's wait. Both at once, as each
/// multiplication waits for the one before.
DUET_HOST_DEVICE inline Powers powers(double first, double second, uint64_t exponent) {
  Powers result;
  for (; exponent > 0; exponent /= 2, first *= first, second *= second) {
    if (exponent % 2 == 1) result.first *= first, result.second *= second;
  }
  return result;
}

/// a * b with a rounding that is no compiler's choice, on a GPU either: rules are compiled in several kernels, which give the same bits.
DUET_HOST_DEVICE inline float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// share * s + rest * g^2, likewise.
DUET_HOST_DEVICE inline float averaged_square(float s, float share, float rest, float g) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(share, s, rest * g * g);
#else
  return share * s + rest * g * g;
#endif
}

/// w * (1 - rate * decay), likewise.
DUET_HOST_DEVICE inline float decayed(float w, float rate, float decay) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(w, __fmaf_rn(-rate, decay, 1.0f));
#else
  return w * (1.0f - rate * decay);
#endif
}

/// What apply() divides and takes roots by.
struct Arithmetic {
  DUET_HOST_DEVICE float quotient(float a, float b) const { return a / b; }
  DUET_HOST_DEVICE float root(float x) const { return sqrtf(x); }
};

/// torch.optim.SGD: g += weight_decay * w; v = momentum * v + g; w -= lr * (nesterov ? g + momentum
/// * v : v); without momentum w -= lr * g.
struct SgdRule {
  float momentum = 0.0f;
  float weight_decay = 0.0f;
  bool nesterov = false;

  struct Factors {
    float learning_rate;
  };
  DUET_HOST_DEVICE Factors factors(float learning_rate, uint64_t) const { return {learning_rate}; }
  DUET_HOST_DEVICE int states() const { return momentum != 0.0f ? 1 : 0; }
  template <class By = Arithmetic>
  DUET_HOST_DEVICE void apply(const Factors& f, float decay, float g, float& w, float (&state)[2],
                              By&& = By()) const {
    g += decay * w;
    if (momentum != 0.0f) {
      state[0] = momentum * state[0] + g;
      g = nesterov ? g + momentum * state[0] : state[0];
    }
    w -= f.learning_rate * g;
  }
};

/// torch.optim.Adam (Kingma & Ba 2015): g += weight_decay * w; m += (1-beta1)(g-m);
/// v = beta2 v + (1-beta2) g^2; w -= lr/(1-beta1^t) * m / (sqrt(v)/sqrt(1-beta2^t) + epsilon).
/// torch.optim.AdamW, if `decoupled`: first w *= 1 - lr * weight_decay, and g as it is.
struct AdamRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  float epsilon = 1e-8f;
  float weight_decay = 0.0f;
  float rate = 1.0f;  // times the learning rate
  bool decoupled = false;

  struct Factors {
    float learning_rate;
    float step_size;
    float root_correction2;
    float one_minus_beta1, beta2, one_minus_beta2;
  };
  DUET_HOST_DEVICE Factors factors(float learning_rate, uint64_t step) const {
    learning_rate *= rate;
    const Powers of_betas = powers(beta1, beta2, step);
    return {learning_rate,
            static_cast<float>(learning_rate / (1.0 - of_betas.first)),
            static_cast<float>(sqrt(1.0 - of_betas.second)),
            static_cast<float>(1.0 - beta1),
            static_cast<float>(beta2),
            static_cast<float>(1.0 - beta2)};
  }
  DUET_HOST_DEVICE int states() const { return 2; }
  template <class By = Arithmetic>
  DUET_HOST_DEVICE void apply(const Factors& f, float decay, float g, float& w, float (&state)[2],
                              By&& by = By()) const {
    const float l2 = decoupled ? 0.0f : decay;
    w = decoupled ? decayed(w, f.learning_rate, decay) : w;
    g += l2 * w;
    state[0] += f.one_minus_beta1 * (g - state[0]);
    state[1] = averaged_square(state[1], f.beta2, f.one_minus_beta2, g);
    w -= by.quotient(f.step_size * state[0],
                     by.quotient(by.root(state[1]), f.root_correction2) + epsilon);
  }
};

/// torch.optim.RMSprop: g += weight_decay * w; v = alpha v + (1-alpha) g^2; g /= sqrt(v) + epsilon;
/// with momentum b = momentum * b + g and w -= lr * b, else w -= lr * g.
struct RmspropRule {
  double alpha = 0.99;
  float epsilon = 1e-8f;
  float momentum = 0.0f;
  float weight_decay = 0.0f;

  struct Factors {
    float learning_rate, alpha, one_minus_alpha;
  };
  DUET_HOST_DEVICE Factors factors(float learning_rate, uint64_t) const {
    return {learning_rate, static_cast<float>(alpha), static_cast<float>(1.0 - alpha)};
  }
  DUET_HOST_DEVICE int states() const { return momentum != 0.0f ? 2 : 1; }
  template <class By = Arithmetic>
  DUET_HOST_DEVICE void apply(const Factors& f, float decay, float g, float& w, float (&state)[2],
                              By&& by = By()) const {
    g += decay * w;
    state[0] = averaged_square(state[0], f.alpha, f.one_minus_alpha, g);
    g = by.quotient(g, by.root(state[0]) + epsilon);
    if (momentum != 0.0f) {
      state[1] = momentum * state[1] + g;
      g = state[1];
    }
    w -= f.learning_rate * g;
  }
};

}  // namespace duet
