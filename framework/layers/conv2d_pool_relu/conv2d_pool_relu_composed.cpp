// conv2d_pool_relu cpu_blas, cpu_reference, cudnn: the parts' own implementations, taken from the
// parts' lists by id and run one after the other. This is what a fused kernel is measured against.
//
//   state      z (the convolution's output), m (z pooled), their gradients dz and dm, and what the
//              parts keep themselves
//
// backward_filter takes dy back through relu and pooling; backward_data finds dz in the state.
#include <algorithm>

#include "core/arena.h"
#include "layers/block_parts.h"
#include "layers/conv2d/conv2d_impls.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_impls.h"
#include "layers/max_pool2d/max_pool2d_impls.h"
#include "layers/relu/relu_impls.h"

namespace duet {
namespace {

/// Ids in the lists of conv2d, max_pool2d and relu.
struct Parts {
  std::string_view conv, pool, relu;
};
constexpr Parts kCpuBlas = {"cpu_blas", "cpu_reference", "cpu_reference"};
constexpr Parts kCpuReference = {"cpu_reference", "cpu_reference", "cpu_reference"};
constexpr Parts kCudnn = {"cudnn", "cudnn", "cudnn"};

ActivationProblem relu_problem(const Conv2dPoolReluProblem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.y_desc(), .dtype = problem.dtype};
}

class Conv2dPoolReluComposed : public Conv2dPoolReluImpl {
 public:
  Conv2dPoolReluComposed(const Conv2dPoolReluProblem& problem, const Parts& parts, Context& context)
      : Conv2dPoolReluImpl(problem), ids_(parts) {
    conv_.implementation = entry_of(conv2d_impls(), parts.conv).make(problem.conv, context);
    pool_.implementation = entry_of(max_pool2d_impls(), parts.pool).make(problem.pool, context);
    relu_.implementation = entry_of(relu_impls(), parts.relu).make(relu_problem(problem), context);
    z_offset_ = state_.reserve(problem.z_desc().bytes());
    m_offset_ = state_.reserve(problem.y_desc().bytes());
    dm_offset_ = state_.reserve(problem.y_desc().bytes());
    dz_offset_ = state_.reserve(problem.z_desc().bytes());
    for (PartOfBlock* part : {&conv_, &pool_, &relu_}) {
      part->state_offset = state_.reserve(part->implementation->state_bytes());
    }
  }

  void prepare(Pass pass, Context& context) override {
    conv_.implementation->prepare(pass, context);
    const Pass other = pass == Pass::kForward ? Pass::kForward : Pass::kBackward;
    pool_.implementation->prepare(other, context);
    relu_.implementation->prepare(other, context);
  }

  size_t workspace_bytes(Pass pass) const override {
    const Pass other = pass == Pass::kForward ? Pass::kForward : Pass::kBackward;
    return std::max({conv_.implementation->workspace_bytes(pass),
                     pool_.implementation->workspace_bytes(other),
                     relu_.implementation->workspace_bytes(other)});
  }
  size_t state_bytes() const override { return state_.bytes(); }
  std::string detail(Pass pass) const override {
    const std::string conv = conv_.implementation->detail(pass);
    const size_t count = calls(pass).size();
    return "not fused, " + std::to_string(count) + (count == 1 ? " call" : " calls") +
           (conv.empty() ? "" : "; conv2d: " + conv);
  }
  /// backward_data finds dz made.
  std::vector<std::string> calls(Pass pass) const override {
    std::vector<std::string> all = calls_of("conv2d", ids_.conv, *conv_.implementation, pass);
    if (pass == Pass::kBackwardData) return all;
    const Pass other = pass == Pass::kForward ? Pass::kForward : Pass::kBackward;
    const auto pool = calls_of("max_pool2d", ids_.pool, *pool_.implementation, other);
    const auto relu = calls_of("relu", ids_.relu, *relu_.implementation, other);
    all.insert(pass == Pass::kForward ? all.end() : all.begin(), pool.begin(), pool.end());
    all.insert(pass == Pass::kForward ? all.end() : all.begin(), relu.begin(), relu.end());
    return all;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    conv_.tensors.x[0] = x;
    conv_.tensors.w = {w, b};
    conv_.tensors.y[0] = pool_.tensors.x[0] = z(state);
    pool_.tensors.y[0] = relu_.tensors.x[0] = m(state);
    relu_.tensors.y[0] = y;
    for (PartOfBlock* part : {&conv_, &pool_, &relu_}) part->run(Pass::kForward, run, state);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    relu_.tensors.x[0] = pool_.tensors.y[0] = m(state);
    relu_.tensors.y[0] = y;
    relu_.tensors.dy[0] = dy;
    relu_.tensors.dx[0] = pool_.tensors.dy[0] = dm(state);
    pool_.tensors.x[0] = z(state);
    conv_.tensors.x[0] = x;
    pool_.tensors.dx[0] = conv_.tensors.dy[0] = dz(state);
    conv_.tensors.dw = {dw, db};
    relu_.run(Pass::kBackward, run, state);
    pool_.run(Pass::kBackward, run, state);
    conv_.run(Pass::kBackwardFilter, run, state);
  }

  void backward_data(const Run& run, const Tensor&, const Tensor&, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    conv_.tensors.dy[0] = dz(state);
    conv_.tensors.w[0] = w;
    conv_.tensors.dx[0] = dx;
    conv_.run(Pass::kBackwardData, run, state);
  }

 private:
  // Where the tensors between the parts lie in the state.
  Tensor z(const Tensor& state) const { return {problem_.z_desc(), at(state, z_offset_)}; }
  Tensor m(const Tensor& state) const { return {problem_.y_desc(), at(state, m_offset_)}; }
  Tensor dm(const Tensor& state) const { return {problem_.y_desc(), at(state, dm_offset_)}; }
  Tensor dz(const Tensor& state) const { return {problem_.z_desc(), at(state, dz_offset_)}; }
  static void* at(const Tensor& state, size_t offset) { return state.data<char>() + offset; }

  const Parts ids_;
  PartOfBlock conv_, pool_, relu_;
  ArenaPlan state_;
  size_t z_offset_ = 0, m_offset_ = 0, dm_offset_ = 0, dz_offset_ = 0;
};

template <const Parts& parts>
std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  const Pass other = pass == Pass::kForward ? Pass::kForward : Pass::kBackward;
  if (auto reason = entry_of(conv2d_impls(), parts.conv).unsupported(problem.conv, pass)) {
    return "conv2d: " + *reason;
  }
  if (auto reason = entry_of(max_pool2d_impls(), parts.pool).unsupported(problem.pool, other)) {
    return "max_pool2d: " + *reason;
  }
  if (auto reason = entry_of(relu_impls(), parts.relu).unsupported(relu_problem(problem), other)) {
    return "relu: " + *reason;
  }
  return {};
}

template <const Parts& parts>
std::unique_ptr<Implementation> make(const Conv2dPoolReluProblem& problem, Context& context) {
  return std::make_unique<Conv2dPoolReluComposed>(problem, parts, context);
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_blas() {
  return {"cpu_blas", unsupported<kCpuBlas>, make<kCpuBlas>};
}
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = unsupported<kCpuReference>,
          .make = make<kCpuReference>,
          .dtypes = {DType::kFloat32, DType::kFloat64}};
}
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cudnn() {
  return {"cudnn", unsupported<kCudnn>, make<kCudnn>};
}

}  // namespace duet
