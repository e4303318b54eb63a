// What conv2d cudnn and cudnn_graph share: parameters that are rounded for cuDNN in bf16, and the
// gradient of the bias. Include only in files that are compiled with CUDA.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "kernels/convert.h"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/cudnn/conv2d_algorithms.h"
#include "layers/conv2d/cudnn/conv2d_bias_gradient.h"

namespace duet {

/// In bf16 the weights are rounded to the beginning of the workspace at each call, in inference once; the
/// bias and dw lie behind or there too where cuDNN has them in bfloat16.
class Conv2dByCudnn : public Conv2dImpl {
 public:
  explicit Conv2dByCudnn(const Conv2dProblem& problem) : Conv2dImpl(problem) {
    if (problem.bias) bias_gradient_.emplace(problem);
  }

  void prepare(Pass pass, Context& context) final {
    choose(pass, context);
    if (pass == Pass::kBackwardFilter && bias_gradient_) bias_gradient_->prepare(context);
  }
  size_t workspace_bytes(Pass pass) const final {
    const size_t bytes = converted_bytes(pass) + own_workspace_bytes(pass);
    const auto* bias = bias_gradient(pass);  // behind the product
    return bias ? std::max(bytes, bias->workspace_bytes()) : bytes;
  }
  std::string detail(Pass pass) const final {
    const auto* bias = bias_gradient(pass);
    return product_text(pass) + (bias ? "; " + bias->detail() : "");
  }
  std::vector<std::string> calls(Pass pass) const final {
    std::vector<std::string> calls = product_calls(pass);
    if (const auto* bias = bias_gradient(pass)) {
      const std::vector<std::string> more = bias->calls();
      calls.insert(calls.end(), more.begin(), more.end());
    }
    return calls;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) final {
    void* const prepared = run.ports.prepared_w.memory;
    void* const rounded = prepared ? prepared : run.workspace;
    if (!prepared) round_parameters(run, w, b, rounded);
    call(Pass::kForward, run,
         {x.memory, narrow() ? rounded : w.memory, b && narrow_bias() ? bias_in(rounded) : b.memory,
          y.memory});
  }
  std::vector<PortUse> ports(Pass pass, bool inference) const final {
    return prepared_for(pass, inference, [this] { return converted_bytes(Pass::kForward); });
  }
  void prepare_weights(const Run& run, const LayerTensors& t) final {
    round_parameters(run, t.w[0], problem_.bias ? t.w[1] : Tensor{}, run.ports.prepared_w.memory);
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) final {
    round_parameters(run, w, {}, run.workspace);
    call(Pass::kBackwardData, run,
         {dx.memory, narrow() ? run.workspace : w.memory, nullptr, dy.memory});
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) final {
    void* const gradient = narrow_dw() ? run.workspace : dw.memory;
    call(Pass::kBackwardFilter, run, {x.memory, gradient, nullptr, dy.memory});
    if (narrow_dw()) {
      queue_conversion(static_cast<const bfloat16*>(gradient), dw.data<float>(), dw.elements(),
                       run.stream());
    }
    if (db) bias_gradient_->run(run.context, dy.memory, db.data<float>(), run.workspace);
  }

 protected:
  bool narrow() const { return problem_.dtype == DType::kBFloat16; }
  /// What converted tensors take at the beginning of the workspace.
  virtual size_t converted_bytes(Pass pass) const {
    const bool weights = pass == Pass::kBackwardFilter ? narrow_dw() : narrow();
    return (weights ? narrow_weight_bytes() : 0) +
           (pass == Pass::kForward && problem_.bias && narrow_bias()
                ? align_up(stored_in(DType::kBFloat16, problem_.b_desc()).bytes())
                : 0);
  }

 private:
  /// Finds what runs the pass. May allocate and synchronise.
  virtual void choose(Pass pass, Context& context) = 0;
  // Of what was chosen. Whether forward takes the bias, and backward_filter gives dw, in bfloat16.
  virtual bool narrow_bias() const = 0;
  virtual bool narrow_dw() const = 0;
  virtual size_t own_workspace_bytes(Pass pass) const = 0;
  virtual std::string product_text(Pass pass) const = 0;
  virtual std::vector<std::string> product_calls(Pass pass) const = 0;
  /// Queues the pass without the bias's gradient. cuDNN's own workspace lies behind converted_bytes().
  virtual void call(Pass pass, const Run& run, Conv2dMemory memory) const = 0;

  const Conv2dBiasGradient* bias_gradient(Pass pass) const {
    return pass == Pass::kBackwardFilter && bias_gradient_ ? &*bias_gradient_ : nullptr;
  }
  size_t narrow_weight_bytes() const {
    return align_up(stored_in(DType::kBFloat16, problem_.w_desc()).bytes());
  }
  void* bias_in(void* memory) const { return static_cast<char*>(memory) + narrow_weight_bytes(); }
  /// The parameters in bfloat16, those that are taken so, the weights at the beginning of `memory`.
  void round_parameters(const Run& run, const Tensor& w, const Tensor& b, void* memory) const {
    const auto round = [&](const Tensor& parameter, void* to) {
      queue_conversion(parameter.data<float>(), static_cast<bfloat16*>(to), parameter.elements(),
                       run.stream());
    };
    if (narrow()) round(w, memory);
    if (b && narrow_bias()) round(b, bias_in(memory));
  }
  std::optional<Conv2dBiasGradient> bias_gradient_;
};

}  // namespace duet
