// Element-wise activations, of any shape and layout. They share one problem and every
// implementation, and are layer types of their own with lists of their own:
//   relu        y = max(x, 0); the gradient at 0 is 0. No keys.
//   leaky_relu  y = x for x > 0, slope * x otherwise; the gradient at 0 is `slope`. Keys: slope 0.01
//               (PyTorch's negative_slope).
//   sigmoid     y = 1 / (1 + exp(-x)); dx = dy * y * (1 - y). No keys.
//   tanh        y = tanh(x); dx = dy * (1 - y^2). No keys.
//   gelu        y = x * Phi(x), Phi the normal distribution's function, (1 + erf(x / sqrt(2))) / 2.
//               Keys: approximate none; tanh: y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
//               x^3))). D. Hendrycks, K. Gimpel: Gaussian Error Linear Units, 2016.
//   silu        y = x / (1 + exp(-x)). No keys.
#pragma once

#include <cmath>

#include "core/storage.h"
#include "layers/layer.h"

#ifdef __CUDACC__
#define DUET_ACTIVATION __host__ __device__ __forceinline__
#else
#define DUET_ACTIVATION inline
#endif

namespace duet {

enum class ActivationKind { kRelu, kLeakyRelu, kSigmoid, kTanh, kSilu, kGelu, kGeluTanh };

struct ActivationProblem {
  ActivationKind kind = ActivationKind::kRelu;
  float slope = 0.0f;  // kLeakyRelu: y = slope * x for x <= 0
  TensorDesc x;        // y, dx, dy have the same
  DType dtype = DType::kFloat32;

  std::string to_string() const;
};

/// The function of each kind as a type, so that kernels are compiled for it. `forward` is y(x);
/// `gradient` is dy/dx from x and y.
struct ReluFunction {
  template <class T>
  DUET_ACTIVATION T forward(T x) const {
    return x > T(0) || x != x ? x : T(0);  // NaN stays NaN, as in PyTorch
  }
  template <class T>
  DUET_ACTIVATION T gradient(T x, T) const {
    return x <= T(0) ? T(0) : T(1);  // 1 for a NaN, as in PyTorch
  }
};
struct LeakyReluFunction {
  float slope;
  template <class T>
  DUET_ACTIVATION T forward(T x) const {
    return x > T(0) ? x : T(slope) * x;
  }
  template <class T>
  DUET_ACTIVATION T gradient(T x, T) const {
    return x > T(0) ? T(1) : T(slope);
  }
};
struct SigmoidFunction {
  template <class T>
  DUET_ACTIVATION T forward(T x) const {
    return T(1) / (T(1) + std::exp(-x));
  }
  template <class T>
  DUET_ACTIVATION T gradient(T, T y) const {
    return y * (T(1) - y);
  }
};
struct TanhFunction {
  template <class T>
  DUET_ACTIVATION T forward(T x) const {
    return std::tanh(x);
  }
  template <class T>
  DUET_ACTIVATION T gradient(T, T y) const {
    return T(1) - y * y;
  }
};
struct SiluFunction {
  template <class T>
  DUET_ACTIVATION T forward(T x) const {
    return x / (T(1) + std::exp(-x));
  }
  template <class T>
  DUET_ACTIVATION T gradient(T x, T) const {
    const T share = T(1) / (T(1) + std::exp(-x));
    return share * (T(1) + x * (T(1) - share));
  }
};
struct GeluFunction {
  template <class T>
  DUET_ACTIVATION T forward(T x) const {
    return x * below(x);
  }
  template <class T>
  DUET_ACTIVATION T gradient(T x, T) const {
    constexpr double kDensityAtZero = 0.39894228040143267794;  // 1 / sqrt(2 pi)
    return below(x) + x * T(kDensityAtZero) * std::exp(T(-0.5) * x * x);
  }

 private:
  /// The share of the normal distribution below x.
  template <class T>
  static DUET_ACTIVATION T below(T x) {
    constexpr double kInverseRoot2 = 0.70710678118654752440;
    return T(0.5) * (T(1) + std::erf(x * T(kInverseRoot2)));
  }
};
struct GeluTanhFunction {
  static constexpr double kScale = 0.79788456080286535588;  // sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;

  template <class T>
  DUET_ACTIVATION T forward(T x) const {
    return T(0.5) * x * (T(1) + std::tanh(inner(x)));
  }
  template <class T>
  DUET_ACTIVATION T gradient(T x, T) const {
    const T t = std::tanh(inner(x));
    const T slope = T(kScale) * (T(1) + T(3 * kCubic) * x * x);
    return T(0.5) * (T(1) + t + x * (T(1) - t * t) * slope);
  }

 private:
  template <class T>
  static DUET_ACTIVATION T inner(T x) {
    return T(kScale) * (x + T(kCubic) * x * x * x);
  }
};

/// What a gradient is taken of: y as T stores it, or in full where the few digits of bfloat16 would
/// be most of an error in 1 - y * y.
template <class T, class Function>
DUET_ACTIVATION Accumulator<T> output_of(const Function& f, Accumulator<T> x, T y) {
  if constexpr (std::is_same_v<Accumulator<T>, T>) {
    return y;
  } else {
    return f.forward(x);
  }
}

/// Calls visit(function) with the function object of `problem`.
template <class Visit>
void visit_activation(const ActivationProblem& problem, Visit&& visit) {
  switch (problem.kind) {
    case ActivationKind::kRelu:
      return visit(ReluFunction{});
    case ActivationKind::kLeakyRelu:
      return visit(LeakyReluFunction{problem.slope});
    case ActivationKind::kSigmoid:
      return visit(SigmoidFunction{});
    case ActivationKind::kTanh:
      return visit(TanhFunction{});
    case ActivationKind::kSilu:
      return visit(SiluFunction{});
    case ActivationKind::kGelu:
      return visit(GeluFunction{});
    case ActivationKind::kGeluTanh:
      return visit(GeluTanhFunction{});
  }
}

/// x, y, dx and dy have the same desc; any layout. dx = dy * gradient(x, y).
using ActivationImpl = MapImpl<ActivationProblem>;
using ActivationImpls = std::vector<ImplEntry<ActivationProblem>>;

/// A layer type whose output is kind(x). `name` and `list` are the type's own.
class ActivationLayer : public LayerOf<ActivationLayer, ActivationProblem> {
 public:
  ActivationLayer(std::string_view name, const ImplList& list, ActivationKind kind,
                  float slope = 0.0f)
      : LayerOf(name, list), kind_(kind), slope_(slope) {}

  bool change_option(size_t number) override {
    const bool gelu = kind_ == ActivationKind::kGelu || kind_ == ActivationKind::kGeluTanh;
    if (gelu) {
      kind_ = kind_ == ActivationKind::kGelu ? ActivationKind::kGeluTanh : ActivationKind::kGelu;
    }
    slope_ += 0.125f;
    return number == 0 && (gelu || kind_ == ActivationKind::kLeakyRelu);
  }
  /// What the function's `gradient` takes.
  SavedTensors saved(Pass) const override {
    const bool from_y = kind_ == ActivationKind::kSigmoid || kind_ == ActivationKind::kTanh;
    return {.x = !from_y, .y = from_y};
  }

 protected:
  ActivationProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    outputs_ = {inputs[0]};
    return {.kind = kind_, .slope = slope_, .x = inputs[0], .dtype = inputs[0].dtype};
  }

 private:
  ActivationKind kind_;
  float slope_;
};

const LayerType& relu_type();
const LayerType& leaky_relu_type();
const LayerType& sigmoid_type();
const LayerType& tanh_type();
const LayerType& silu_type();
const LayerType& gelu_type();

ActivationImpls& relu_impls();
ActivationImpls& leaky_relu_impls();
ActivationImpls& sigmoid_impls();
ActivationImpls& tanh_impls();
ActivationImpls& silu_impls();
ActivationImpls& gelu_impls();

ImplEntry<ActivationProblem> activation_cpu_reference();

/// custom_scalar in double, for blocks' references on a GPU; in no list (layers/gpu_reference.h).
std::unique_ptr<Implementation> make_activation_gpu_reference(const ActivationProblem& problem);

}  // namespace duet
