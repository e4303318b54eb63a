// batch_norm2d and batch_norm1d: y = (x - mean) / sqrt(var + eps) * weight + bias in each channel,
// as torch.nn.BatchNorm2d (N C H W, either layout) and BatchNorm1d (N x F, a feature is a channel).
// S. Ioffe, C. Szegedy: Batch Normalization, 2015.
//
// In training mean and var are the batch's: over N, H and W, var divided by their count M = N*H*W.
// Forward then also updates the buffers (PyTorch's momentum; num_batches_tracked is not kept):
//   running_mean = (1 - momentum) * running_mean + momentum * mean
//   running_var  = (1 - momentum) * running_var  + momentum * var * M / (M - 1)
// In evaluation mean and var are running_mean and running_var, which backward takes as constants.
//
// With z = (x - mean) / sqrt(var + eps):
//   dbias = sum of dy,  dweight = sum of dy * z
//   dx = weight / sqrt(var + eps) * (dy - dbias / M - z * dweight / M)  in training,
//   dx = weight / sqrt(var + eps) * dy                                  in evaluation.
//
// Keys: eps 1e-5 (above 0), momentum 0.1 (0 to 1), affine true: without it there is neither weight
// nor bias. M must be 2 at least in training (untrainable()).
//
// batch_norm2d_relu and batch_norm1d_relu: y = relu of that. All of it holds there with relu's
// gradient, dy where y > 0 and else 0, in the place of dy. Parameters and buffers have the same
// names, so that a checkpoint is that of the two layers.
#pragma once

#include "layers/layer.h"

namespace duet {

struct BatchNormParams {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;

  static BatchNormParams read(ConfigReader& reader);
  static constexpr size_t kOptions = 3;
  /// As Layer::change_option(), of kOptions.
  bool change_option(size_t number);
};

/// Of all four. x, y, dx and dy have
/// one desc; parameters and buffers have a value a channel.
struct BatchNormProblem {
  TensorDesc x;
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;
  bool relu = false;  // y = relu of what is above; the gradient of a y of 0 is 0
  DType dtype = DType::kFloat32;
  bool evaluated = false;  // LayerOptions::evaluated

  int64_t channels() const { return x.shape[1]; }
  /// Values of a channel.
  int64_t count() const { return x.elements() / channels(); }
  TensorDesc channel_desc() const { return {{channels()}, accumulator_of(dtype)}; }

  /// In either layout memory is outer x channels x inner values.
  int64_t inner() const;
  int64_t outer() const { return count() / inner(); }

  /// As Layer::untrainable().
  std::optional<std::string> untrainable() const;
  std::string to_string() const;
};

/// The shape rule alone, of images or features, for layers that contain a batch normalisation.
BatchNormProblem batch_norm_problem(const BatchNormParams& params, const TensorDesc& x, bool relu,
                                    const LayerOptions& options);
inline constexpr const char* kNoBackwardInEvaluation =
    "cuDNN has no backward pass of batch normalisation in evaluation";
/// That, if `pass` is a backward pass of an evaluation.
std::optional<std::string> backward_needs_training(const BatchNormProblem& problem, Pass pass);
std::vector<ParameterSpec> batch_norm_parameters(const BatchNormProblem& problem);

/// How large the values are whose differences are taken (Layer::sizes()), without any relu: `dy` is
/// what reaches y before it. And y before any relu. Values as Layer::sizes() has them. `dy_squares` is
/// for a dy that is not given but computed: the squares of its own sizes.
std::vector<std::vector<double>> batch_norm_sizes(const BatchNormProblem& problem, Pass pass,
                                                  bool training,
                                                  const std::vector<std::vector<double>>& x,
                                                  const std::vector<std::vector<double>>& w,
                                                  const std::vector<std::vector<double>>& dy,
                                                  const std::vector<double>* dy_squares = nullptr);
std::vector<double> batch_norm_values(const BatchNormProblem& problem, bool training,
                                      const std::vector<std::vector<double>>& x,
                                      const std::vector<std::vector<double>>& w);
/// Of the size of what batch normalisation subtracts: relu's input is settled where it is nearer to
/// 0 (Layer::settle()). No element may err by a fifth of it (layers/rounding.h).
inline constexpr double kBatchNormTie = 1e-4;

/// Alone or with relu.
class BatchNormLayer : public LayerOf<BatchNormLayer, BatchNormProblem> {
 public:
  /// Of rank 4 (batch_norm2d) or 2 (batch_norm1d).
  BatchNormLayer(ConfigReader& reader, int rank, bool relu);

  bool change_option(size_t number) override { return params_.change_option(number); }
  /// With relu, each family keeps its own kind of state from forward.
  bool shares_state(std::string_view a, std::string_view b) const override;
  std::optional<std::string> untrainable() const override;
  SavedTensors saved(Pass) const override { return {.x = true}; }
  /// Where what relu reads is nearly 0, in training or in evaluation.
  void settle(const std::vector<std::vector<double>>& x, const std::vector<std::vector<double>>& w,
              std::vector<std::vector<double>>& dy) const override;
  bool cancels() const override { return true; }
  std::vector<std::vector<double>> sizes(Pass pass, bool training,
                                         const std::vector<std::vector<double>>& x,
                                         const std::vector<std::vector<double>>& w,
                                         const std::vector<std::vector<double>>& dy) const override;

 protected:
  BatchNormProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override;

 private:
  int rank_;
  bool relu_;
  BatchNormParams params_;
};

const LayerType& batch_norm1d_type();
const LayerType& batch_norm2d_type();
const LayerType& batch_norm1d_relu_type();
const LayerType& batch_norm2d_relu_type();

/// Weight and bias, or their gradients, are falsy without affine; gradients of buffers always.
struct BatchNormParameters {
  Tensor weight, bias, running_mean, running_var;

  /// Of LayerTensors.
  static BatchNormParameters of(const std::vector<Tensor>& w, bool affine) {
    return affine ? BatchNormParameters{w[0], w[1], w[2], w[3]}
                  : BatchNormParameters{{}, {}, w[0], w[1]};
  }
};

/// Both passes read run.training on the host.
class BatchNormImpl : public ImplementationOf<BatchNormProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const BatchNormParameters& w,
                       const Tensor& y, const Tensor& state) = 0;
  /// dx or both of dw are falsy where nobody needs them; one is not.
  virtual void backward(const Run& run, const Tensor& x, const BatchNormParameters& w,
                        const Tensor& dy, const Tensor& state, const Tensor& dx,
                        const BatchNormParameters& dw) = 0;

  SavedTensors reads(Pass) const final { return {.x = true}; }
  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      forward(run, t.x[0], named(t.w), t.y[0], t.state);
    } else if (t.dx[0] || problem_.affine) {
      backward(run, t.x[0], named(t.w), t.dy[0], t.state, t.dx[0], named(t.dw));
    }
  }

 private:
  BatchNormParameters named(const std::vector<Tensor>& w) const {
    return BatchNormParameters::of(w, problem_.affine);
  }
};

std::vector<ImplEntry<BatchNormProblem>>& batch_norm_impls();
/// Hand-written kernels are the same, with relu where they write y and read dy. REQUIRES: of their
/// problems, relu is set.
std::vector<ImplEntry<BatchNormProblem>>& batch_norm_relu_impls();

}  // namespace duet
