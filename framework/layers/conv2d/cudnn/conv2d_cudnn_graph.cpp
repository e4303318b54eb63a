// conv2d cudnn_graph: cuDNN's graph API.
//
// conv2d cudnn asks for one of eight algorithms by its number. The graph API asks for operations:
// here a convolution, and behind it the addition of the bias, whose sums pass from one to the other
// in float32 without memory (device/cudnn_graph.h). cuDNN proposes engines for all of it together,
// kernels that are in the library and kernels that it compiles for this very graph, each with knobs
// (tile shapes, splits). So it has more to offer than the eight: fused additions of float32 to what
// is stored in bfloat16, dw in float32 of operands in bfloat16, and tiles for every size.
//
// Which proposal is fastest is for measurement to say, as with algorithms: each that fits the
// workspace, repeats by cuDNN's own notes and computes in the arithmetic asked for is made ready and
// timed in a graph of CUDA's, and the fastest whose results hold is taken (conv2d_trial.h). The notes
// of an engine say whether it uses tensor cores, which round float32 to TF32: fp32 goes without, and
// tf32 and bf16 without Winograd's transform and FFT.
//
// A family's choice is this in tf32 and bf16, and in fp32 where the legacy API was measured to lack the
// fastest engine: in backward_data with strides and with 1x1 filters (README.md). Elsewhere in fp32 both run the same
// engines, and conv2d cudnn has fewer to try and starts sooner.
//
// In bf16 the weights, which are float32, are rounded into the workspace at each call. The bias and
// dw are float32. The gradient of the bias is a sum of its own: conv2d_bias_gradient_cudnn.cpp.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "core/error.h"
#include "device/graph_plans.h"
#include "layers/conv2d/cudnn/conv2d_by_cudnn.h"
#include "layers/conv2d/cudnn/conv2d_trial.h"

namespace duet {
namespace {

using gpu::ExecutionPlan;
using gpu::OperationGraph;

/// What may differ between graphs of one pass.
struct Way {
  bool adds_bias = false;        // forward: inside, or else by a kernel behind it
  DType bias = DType::kFloat32;  // forward: what the bias is given in
  DType dw = DType::kFloat32;    // backward_filter: what dw is computed in

  TuningCache::Entry to_entry() const {
    return {{"adds_bias", adds_bias},
            {"narrow_bias", bias == DType::kBFloat16},
            {"narrow_dw", dw == DType::kBFloat16}};
  }
  static std::optional<Way> from_entry(const TuningCache::Entry& entry) {
    Way way;
    const auto read = [&](const char* name, auto set) {
      const auto found = entry.find(name);
      if (found == entry.end()) return false;
      if (found->second) set();
      return true;
    };
    if (read("adds_bias", [&] { way.adds_bias = true; }) &&
        read("narrow_bias", [&] { way.bias = DType::kBFloat16; }) &&
        read("narrow_dw", [&] { way.dw = DType::kBFloat16; })) {
      return way;
    }
    return {};
  }
};

/// The ways of a pass, those first that are taken wherever they have a plan.
std::vector<std::vector<Way>> ways_of(const Conv2dProblem& problem, Pass pass) {
  constexpr DType kWide = DType::kFloat32, kNarrow = DType::kBFloat16;
  const bool narrow = problem.dtype == kNarrow;
  if (pass == Pass::kForward && problem.bias) {
    if (!narrow) return {{{.adds_bias = true}, {.adds_bias = false}}};
    // Behind the convolution it would be added to sums that are rounded already.
    return {{{.adds_bias = true, .bias = kWide}, {.adds_bias = true, .bias = kNarrow}},
            {{.adds_bias = false, .bias = kNarrow}}};
  }
  if (pass == Pass::kBackwardFilter && narrow) return {{{.dw = kWide}, {.dw = kNarrow}}};
  return {{{}}};
}

/// One pass as a graph, and the plan that runs it.
class PassPlan {
 public:
  PassPlan(const Conv2dProblem& problem, Pass pass, const Way& way)
      : way_(way),
        x_(graph_.tensor(problem.x_desc())),
        w_(graph_.tensor(
            stored_in(pass == Pass::kBackwardFilter ? way.dw : problem.dtype, problem.w_desc()))),
        y_(graph_.tensor(problem.y_desc())) {
    const gpu::ConvolutionSettings how = convolution_settings(problem);
    if (pass == Pass::kBackwardData) {
      graph_.convolve_backward_data(how, y_, w_, x_);
    } else if (pass == Pass::kBackwardFilter) {
      graph_.convolve_backward_filter(how, x_, y_, w_);
    } else if (way.adds_bias) {
      b_ = graph_.tensor({{1, problem.k, 1, 1}, way.bias, problem.layout});
      const OperationGraph::Tensor sums = graph_.intermediate(problem.y_desc());
      graph_.convolve(how, x_, w_, sums);
      graph_.combine(CUDNN_POINTWISE_ADD, sums, b_, y_);
    } else {
      graph_.convolve(how, x_, w_, y_);
    }
  }
  PassPlan(const PassPlan&) = delete;

  const Way& way() const { return way_; }
  OperationGraph& graph() { return graph_; }
  const ExecutionPlan& plan() const { return *plan_; }
  void take(ExecutionPlan plan) { plan_.emplace(std::move(plan)); }

  /// By `plan`, which is of this graph.
  void run(const ExecutionPlan& plan, Context& context, const Conv2dMemory& m) const {
    std::vector<std::pair<OperationGraph::Tensor, void*>> memory = {
        {x_, m.x}, {w_, m.w}, {y_, m.y}};
    if (way_.adds_bias) memory.emplace_back(b_, m.b);
    plan.run(context, memory, m.workspace);
  }

 private:
  const Way way_;
  OperationGraph graph_;
  OperationGraph::Tensor x_, w_, y_, b_ = 0;
  std::optional<ExecutionPlan> plan_;
};

/// Plans that instances hold, by plan_key() and cuDNN's handle: what is made later for the same problem
/// on the same context shares them. Making one compiles its kernels anew each time.
class LivePlans {
 public:
  std::shared_ptr<const PassPlan> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find(key);
    return found == plans_.end() ? nullptr : found->second.lock();
  }
  void insert(const std::string& key, const std::shared_ptr<const PassPlan>& plan) {
    const std::lock_guard lock(mutex_);
    std::erase_if(plans_, [](const auto& each) { return each.second.expired(); });
    plans_[key] = plan;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const PassPlan>> plans_;
};

LivePlans& live_plans() {
  static LivePlans plans;
  return plans;
}

class Conv2dCudnnGraph : public Conv2dByCudnn {
 public:
  explicit Conv2dCudnnGraph(const Conv2dProblem& problem)
      : Conv2dByCudnn(problem),
        y_(problem.y_desc()),
        bias_(gpu::per_channel_descriptor(problem.k, problem.dtype, problem.layout)) {}

 private:
  void choose(Pass pass, Context& context) override {
    const std::string key =
        gpu::plan_key(problem_.to_string() + " | " + std::string(to_string(pass)), context);
    const std::string live_key =
        key + " " + std::to_string(std::bit_cast<uintptr_t>(context.cudnn()));
    plans_[pass] = live_plans().find(live_key);
    if (!plans_[pass]) {
      plans_[pass] = remembered_or_fastest(pass, key, context);
      live_plans().insert(live_key, plans_[pass]);
    }
  }

  const Way& way(Pass pass) const { return plans_.at(pass)->way(); }
  bool narrow_bias() const override { return way(Pass::kForward).bias == DType::kBFloat16; }
  bool narrow_dw() const override { return way(Pass::kBackwardFilter).dw == DType::kBFloat16; }
  bool adds_bias_after(Pass pass) const {
    return pass == Pass::kForward && problem_.bias && !way(pass).adds_bias;
  }
  size_t own_workspace_bytes(Pass pass) const override {
    return plans_.at(pass)->plan().workspace_bytes();
  }

  std::string product_text(Pass pass) const override {
    std::string text = plans_.at(pass)->plan().configuration().to_string();
    if (way(pass).adds_bias) text += ", adds the bias";
    if (pass == Pass::kBackwardFilter) return text + (narrow_dw() ? "; dw in bf16" : "");
    if (narrow()) text += "; weights in bf16";
    if (narrow() && adds_bias_after(pass)) text += "; y rounded before and after the bias";
    return text;
  }
  std::vector<std::string> product_calls(Pass pass) const override {
    if (adds_bias_after(pass)) return {"cudnnBackendExecute", "cudnnAddTensor"};
    return {"cudnnBackendExecute"};
  }

  void call(Pass pass, const Run& run, Conv2dMemory memory) const override {
    memory.workspace = static_cast<char*>(run.workspace) + converted_bytes(pass);
    const PassPlan& chosen = *plans_.at(pass);
    execute(chosen, chosen.plan(), run.context, memory);
  }
  void execute(const PassPlan& pass, const ExecutionPlan& plan, Context& context,
               const Conv2dMemory& memory) const {
    pass.run(plan, context, memory);
    if (!memory.b || pass.way().adds_bias) return;
    const float one = 1.0f;  // y = 1 * b + 1 * y
    DUET_CUDNN(
        cudnnAddTensor(context.cudnn(), &one, bias_.get(), memory.b, &one, y_.get(), memory.y));
  }

  std::unique_ptr<PassPlan> remembered_or_fastest(Pass pass, const std::string& key,
                                                  Context& context) const {
    if (const auto entry = gpu::plan_cache().find(key)) {
      if (auto found = recall(pass, *entry, context)) return found;
    }
    auto found = fastest(pass, context);
    TuningCache::Entry entry = found->plan().configuration().to_entry();
    entry.merge(found->way().to_entry());
    gpu::plan_cache().insert(key, entry);
    return found;
  }

  /// nullptr if the entry is nothing that this cuDNN would run.
  std::unique_ptr<PassPlan> recall(Pass pass, const TuningCache::Entry& entry,
                                   Context& context) const {
    const auto way = Way::from_entry(entry);
    if (!way) return nullptr;
    auto found = std::make_unique<PassPlan>(problem_, pass, *way);
    auto plan = gpu::recalled_plan(context, found->graph(), entry);
    if (!plan) return nullptr;
    found->take(std::move(*plan));
    return found;
  }

  struct Best {
    std::unique_ptr<PassPlan> pass;
    double microseconds = std::numeric_limits<double>::infinity();
  };

  std::unique_ptr<PassPlan> fastest(Pass pass, Context& context) const {
    size_t plans = 0;
    for (const std::vector<Way>& ways : ways_of(problem_, pass)) {
      Best best;
      for (const Way& way : ways) plans += try_way(pass, way, context, best);
      if (best.pass) return std::move(best.pass);
    }
    throw UnsupportedError("conv2d cudnn_graph " + std::string(to_string(pass)) +
                           ": none of cuDNN's " + std::to_string(plans) +
                           " plans is repeatable, computes in " +
                           std::string(to_string(problem_.math)) + " and needs at most " +
                           std::to_string(context.workspace_limit() >> 20) +
                           " MiB of workspace, for " + problem_.to_string());
  }

  /// Puts the way's fastest plan whose results hold into `best`, if it is faster. Returns how many
  /// plans it has.
  size_t try_way(Pass pass, const Way& way, Context& context, Best& best) const {
    auto tried = std::make_unique<PassPlan>(problem_, pass, way);
    const bool fp32 = problem_.math == Math::kFP32;
    std::vector<gpu::TimedPlan> plans =
        gpu::plans_for(context, tried->graph(), {.tensor_cores = !fp32, .transforms = fp32});
    const size_t count = plans.size();
    if (count == 0) return 0;
    size_t workspace = 0;
    for (const gpu::TimedPlan& each : plans) {
      workspace = std::max(workspace, each.plan.workspace_bytes());
    }
    const DType weights = pass == Pass::kBackwardFilter ? way.dw : problem_.dtype;
    const Conv2dTrial trial(problem_, pass, {weights, way.bias}, workspace);
    Conv2dMemory memory = trial.memory();
    if (pass != Pass::kForward) memory.b = nullptr;
    const auto queue = [&](const ExecutionPlan& plan) { execute(*tried, plan, context, memory); };
    const auto right = [&](const ExecutionPlan& plan) {
      return trial.check([&] { queue(plan); }).right;
    };
    auto found = gpu::fastest_plan(context, std::move(plans), queue, right, best.microseconds);
    if (found) {
      tried->take(std::move(found->plan));
      best = {std::move(tried), found->microseconds};
    }
    return count;
  }

  const gpu::TensorDescriptor y_, bias_;
  std::map<Pass, std::shared_ptr<const PassPlan>> plans_;
};

bool preferred(const Conv2dProblem& problem, Pass pass, size_t) {
  if (problem.math != Math::kFP32) return true;
  return pass == Pass::kBackwardData &&
         (problem.stride_h * problem.stride_w > 1 || problem.r * problem.s == 1);
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_cudnn_graph() {
  auto entry = impl_entry<Conv2dCudnnGraph>("cudnn_graph", supports_all, gpu_dtypes());
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
