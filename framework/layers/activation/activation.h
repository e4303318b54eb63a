// Element-wise activations share one problem and one interface; relu, leaky_relu, sigmoid and tanh
// are layer types of their own with lists of their own.
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

enum class ActivationKind { kRelu, kLeakyRelu, kSigmoid, kTanh };

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
  }
}

/// x, y, dx and dy have the same desc; any layout.
class ActivationImpl : public Implementation {
 public:
  explicit ActivationImpl(const ActivationProblem& problem) : problem_(problem) {}

  virtual void forward(const Run& run, const Tensor& x, const Tensor& y) = 0;
  /// dx = dy * gradient(x, y)
  virtual void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.y[0]);
    } else if (t.dx[0]) {
      backward(run, t.x[0], t.y[0], t.dy[0], t.dx[0]);
    }
  }

 protected:
  const ActivationProblem problem_;
};

/// A layer type whose output is kind(x). `name` and `list` are the type's own.
class ActivationLayer : public LayerOf<ActivationProblem> {
 public:
  ActivationLayer(std::string_view name, const ImplList& list, ActivationKind kind,
                  float slope = 0.0f)
      : LayerOf(list), name_(name), kind_(kind), slope_(slope) {}

  std::string_view type() const override { return name_; }
  const std::vector<Pass>& passes() const override { return two_passes(); }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<ActivationLayer>(*this); }

 protected:
  ActivationProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    outputs_ = {inputs[0]};
    return {.kind = kind_, .slope = slope_, .x = inputs[0], .dtype = inputs[0].dtype};
  }

 private:
  std::string_view name_;
  ActivationKind kind_;
  float slope_;
};

// Entries shared by the lists of the activation layers; each computes any kind.
ImplEntry<ActivationProblem> activation_cpu_reference();
ImplEntry<ActivationProblem> activation_custom_scalar();
ImplEntry<ActivationProblem> activation_custom_vectorized();
ImplEntry<ActivationProblem> activation_cudnn();

}  // namespace duet
