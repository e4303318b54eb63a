#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "core/open_range.h"
#include "core/parallel.h"
#include "core/single_threaded_blas.h"

namespace duet {
namespace {

constexpr float kA = 3.4445f, kB = -4.775f, kC = 2.0315f;  // of Newton and Schulz
constexpr int kRounds = 5;

bool is_matrix(const Shape& shape) { return shape.rank() >= 2; }

class MuonUpdate : public Update {
 public:
  MuonUpdate(Context& context, const OptimizerTensors& tensors, const MuonRule& rule,
             const OptimizerOptions& options)
      : context_(context),
        tensors_(tensors),
        rule_(rule),
        options_(context, tensors, options, is_matrix) {
    int64_t most = 0, shortest = 0;
    for (const ParameterPlace& place : tensors.parameters) {
      if (!is_matrix(place.shape)) continue;
      const int64_t rows = place.shape[0], columns = place.shape.elements() / rows;
      const double larger = static_cast<double>(std::max(rows, columns));
      const double tall = static_cast<double>(rows) / static_cast<double>(columns);
      const double ratio =
          rule.match_rms_adamw ? 0.2 * std::sqrt(larger) : std::sqrt(std::max(1.0, tall));
      matrices_.push_back({place.offset, static_cast<int>(rows), static_cast<int>(columns),
                           static_cast<float>(ratio)});
      most = std::max(most, place.shape.elements());
      shortest = std::max(shortest, std::min(rows, columns));
    }
    for (size_t i = 0; i < 4; ++i) {
      const int64_t elements = i < 2 ? (most + 63) / 64 * 64 : shortest * shortest;
      scratch_[i] = Buffer(context.device(), static_cast<size_t>(elements) * sizeof(float));
      fill_bytes(scratch_[i].data(), context.device(), 0, scratch_[i].bytes());
    }
#if DUET_WITH_CUDA
    if (context.device() == Device::kGpu) {
      device_ = make_muon_gpu(context, tensors_, rule_, options_.extras());
      for (const MuonMatrix& matrix : matrices_) orthogonal(matrix);  // loads what it calls
      context.synchronize();
      return;
    }
#endif
    device_ = make_muon_cpu(tensors_, rule_, options_.extras());
  }

  void queue(StepState* state, const StepEnd& end) override {
    if (context_.device() == Device::kGpu || updates(*state, *end.loss)) update(state, end);
    advance(context_, state, end);
  }
  size_t memory_bytes() const override {
    size_t bytes = options_.memory_bytes();
    for (const Buffer& scratch : scratch_) bytes += scratch.bytes();
    return bytes;
  }

 private:
  void update(StepState* state, const StepEnd& end) {
    options_.queue();
    update_parameters(context_, rule_.adamw, tensors_, options_.extras(), state, end, nullptr);
    for (const MuonMatrix& matrix : matrices_) {
      device_->take(matrix, state, end.loss, scratch(0));
      device_->apply(matrix, state, end.loss, orthogonal(matrix));
    }
  }

  float* scratch(size_t i) const { return static_cast<float*>(scratch_[i].data()); }

  // Column-major, x is columns x rows. Returns where the result is.
  float* orthogonal(const MuonMatrix& matrix) {
    const int m = matrix.columns, n = matrix.rows, least = std::min(m, n);
    const auto bytes = [](int64_t elements) {
      return static_cast<size_t>(elements) * sizeof(float);
    };
    float *x = scratch(0), *next = scratch(1), *const a = scratch(2), *const b = scratch(3);
    for (int round = 0; round < kRounds; ++round) {
      const MuonDevice::Operand as_is{x, m}, transposed{x, m, true};
      if (n <= m) {
        device_->multiply(n, n, m, 1.0f, transposed, as_is, 0.0f, a);
      } else {
        device_->multiply(m, m, n, 1.0f, as_is, transposed, 0.0f, a);
      }
      context_.queue_copy(b, a, bytes(int64_t{least} * least));
      device_->multiply(least, least, least, kC, {a, least}, {a, least}, kB, b);
      context_.queue_copy(next, x, bytes(matrix.elements()));
      if (n <= m) {
        device_->multiply(m, n, n, 1.0f, as_is, {b, n}, kA, next);
      } else {
        device_->multiply(m, n, m, 1.0f, {b, m}, as_is, kA, next);
      }
      std::swap(x, next);
    }
    return x;
  }

  Context& context_;
  const OptimizerTensors tensors_;
  const MuonRule rule_;
  UpdateOptions options_;
  std::vector<MuonMatrix> matrices_;
  Buffer scratch_[4];  // x twice, a and b
  std::unique_ptr<MuonDevice> device_;
};

class MuonOptimizer : public Optimizer {
 public:
  MuonOptimizer(double learning_rate, const MuonRule& rule)
      : Optimizer(learning_rate), rule_(rule) {}

  std::string_view type() const override { return "muon"; }
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  std::unique_ptr<Update> bind(Context& context, const OptimizerTensors& tensors) const override {
    return std::make_unique<MuonUpdate>(context, tensors, rule_, options());
  }

 private:
  MuonRule rule_;
};

class MuonCpu : public MuonDevice {
 public:
  MuonCpu(const OptimizerTensors& tensors, const MuonRule& rule, const UpdateExtras& extras)
      : tensors_(tensors), rule_(rule), extras_(extras) {}

  void take(const MuonMatrix& matrix, const StepState*, const float*, float* x) override {
    const float* g = tensors_.dw.data<float>() + matrix.offset;
    float* m = tensors_.state[0].data<float>() + matrix.offset;
    const float scale = extras_.scale ? *extras_.scale : 1.0f;
    double sum = 0.0;
    for (int64_t i = 0; i < matrix.elements(); ++i) {
      x[i] = rule_.average(scale * g[i], m[i]);
      sum += static_cast<double>(x[i]) * x[i];
    }
    const float factor = norm_scale(sum);
    for (int64_t i = 0; i < matrix.elements(); ++i) x[i] *= factor;
  }

  void multiply(int m, int n, int k, float alpha, const Operand& a, const Operand& b, float beta,
                float* c) override {
    const SingleThreadedBlas single_threaded;
    const auto op = [](const Operand& operand) {
      return operand.transposed ? CblasTrans : CblasNoTrans;
    };
    cblas_sgemm(CblasColMajor, op(a), op(b), m, n, k, alpha, a.data, a.stride, b.data, b.stride,
                beta, c, m);
  }

  void apply(const MuonMatrix& matrix, const StepState* state, const float*,
             const float* x) override {
    float* w = tensors_.w.data<float>() + matrix.offset;
    const float rate = state->learning_rate;
    for (int64_t i = 0; i < matrix.elements(); ++i) {
      w[i] = w[i] * (1.0f - rate * rule_.weight_decay) - rate * matrix.ratio * x[i];
      if (!extras_.ema) continue;
      float& average = extras_.ema[matrix.offset + i];
      average = averaged(average, w[i], extras_.ema_share, state->step);
    }
  }

 private:
  const OptimizerTensors& tensors_;
  const MuonRule& rule_;
  const UpdateExtras extras_;
};

}  // namespace

std::unique_ptr<MuonDevice> make_muon_cpu(const OptimizerTensors& tensors, const MuonRule& rule,
                                          const UpdateExtras& extras) {
  return std::make_unique<MuonCpu>(tensors, rule, extras);
}

std::unique_ptr<Optimizer> make_muon(ConfigReader& reader) {
  double rate = reader.number("learning_rate", 0.001, 0.0);
  if (rate == 0.0) {
    reader.error("learning_rate", "expected a number above 0");
    rate = 1.0;
  }
  MuonRule rule;
  rule.momentum = static_cast<float>(reader.number("momentum", 0.95, 0.0, kBelowOne));
  rule.nesterov = reader.flag("nesterov", true);
  rule.weight_decay = static_cast<float>(reader.number("weight_decay", 0.1, 0.0));
  rule.match_rms_adamw =
      reader.choice("adjust_lr_fn", {"original", "match_rms_adamw"}, "original") != "original";
  rule.adamw.rate = static_cast<float>(reader.number("adamw_learning_rate", 0.001, 0.0) / rate);
  if (!std::isfinite(rule.adamw.rate)) {
    reader.error("adamw_learning_rate",
                 "is so many times learning_rate that float32 cannot hold it");
  }
  rule.adamw.beta1 = reader.number("beta1", 0.9, 0.0, kBelowOne);
  rule.adamw.beta2 = reader.number("beta2", 0.999, 0.0, kBelowOne);
  rule.adamw.epsilon = read_epsilon(reader);
  rule.adamw.weight_decay = rule.weight_decay;
  rule.adamw.decoupled = true;
  return std::make_unique<MuonOptimizer>(rate, rule);
}

}  // namespace duet
