#include "device/cudnn_graph.h"

#include <iterator>

#include "core/error.h"

namespace duet::gpu {
namespace {

constexpr size_t kMostProposals = 64;  // of each of cuDNN's heuristics

/// How far apart neighbours along each of four sizes lie, in the order N C H W.
std::vector<int64_t> strides_of(const std::vector<int64_t>& sizes, Layout layout) {
  const int64_t c = sizes[1], h = sizes[2], w = sizes[3];
  if (layout == Layout::kNHWC) return {c * h * w, 1, c * w, c};
  return {c * h * w, h * w, w, 1};
}

BackendDescriptor convolution_of(const ConvolutionSettings& how) {
  const std::vector<int64_t> padding = {how.pad_h, how.pad_w};
  BackendDescriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{how.stride_h, how.stride_w})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{how.dilation_h, how.dilation_w})
      .finalize();
  return descriptor;
}

bool has(const std::vector<cudnnBackendNumericalNote_t>& notes, cudnnBackendNumericalNote_t note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

bool allowed(const BackendDescriptor& engine, const EngineLimits& limits) {
  const auto notes = engine.notes<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return (limits.transforms ||
          (!has(notes, CUDNN_NUMERICAL_NOTE_FFT) && !has(notes, CUDNN_NUMERICAL_NOTE_WINOGRAD))) &&
         !has(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) &&
         !has(notes, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
         (limits.tensor_cores || (!has(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) &&
                                  !has(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)));
}

/// What `configuration`, one of cuDNN's proposals, says, if it is allowed.
std::optional<EngineConfiguration> read(const BackendDescriptor& configuration,
                                        const EngineLimits& limits) {
  const std::vector<BackendDescriptor> engine =
      configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engine.empty() || !allowed(engine[0], limits)) return {};
  EngineConfiguration found = {.engine = engine[0].number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
                               .knobs = {}};
  for (const BackendDescriptor& choice :
       configuration.descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    found.knobs[choice.knob()] = choice.number(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  }
  return found;
}

/// `configuration` as an engine configuration of cuDNN's, made ready to run.
BackendDescriptor plan_of(Context& context, OperationGraph& graph,
                          const EngineConfiguration& configuration) {
  const cudnnBackendDescriptor_t whole = graph.get(context.cudnn());
  BackendDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, whole)
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, configuration.engine)
      .finalize();
  std::vector<BackendDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& [type, value] : configuration.knobs) {
    BackendDescriptor& choice = choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
        .finalize();
    raw.push_back(choice.get());
  }
  BackendDescriptor chosen(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  chosen.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine.get());
  if (!raw.empty()) chosen.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, raw);
  chosen.finalize();
  BackendDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, context.cudnn())
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, chosen.get())
      .finalize();
  return plan;
}

}  // namespace

size_t BackendDescriptor::read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               size_t most, void* values) const {
  int64_t count = 0;
  DUET_CUDNN(
      cudnnBackendGetAttribute(handle_, name, type, static_cast<int64_t>(most), &count, values));
  return std::min(static_cast<size_t>(count), most);
}

int64_t BackendDescriptor::number(cudnnBackendAttributeName_t name) const {
  int64_t value = 0;
  read(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

int64_t BackendDescriptor::knob() const {
  cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
  read(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
  return type;
}

std::vector<BackendDescriptor> BackendDescriptor::descriptors(cudnnBackendAttributeName_t name,
                                                              cudnnBackendDescriptorType_t type,
                                                              size_t most) const {
  std::vector<BackendDescriptor> all;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (size_t i = 0; i < most; ++i) raw.push_back(all.emplace_back(type).get());
  const size_t count = read(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, raw.data());
  while (all.size() > count) all.pop_back();
  return all;
}

OperationGraph::Tensor OperationGraph::add_tensor(const TensorDesc& desc, bool passes_on) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 4; ++i) sizes.push_back(cudnn_size(desc.shape, i));
  const auto id = static_cast<Tensor>(tensors_.size() + 1);
  tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn_type(desc.dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides_of(sizes, desc.layout))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, passes_on)
      .finalize();
  return id;
}

void OperationGraph::convolve(const ConvolutionSettings& how, Tensor x, Tensor w, Tensor y) {
  settings_.push_back(convolution_of(how));
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, settings_.back().get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, at(x))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, at(w))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, at(y))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f)
      .finalize();
}

void OperationGraph::convolve_backward_data(const ConvolutionSettings& how, Tensor dy, Tensor w,
                                            Tensor dx) {
  settings_.push_back(convolution_of(how));
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, settings_.back().get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, at(dy))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, at(w))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, at(dx))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0f)
      .finalize();
}

void OperationGraph::convolve_backward_filter(const ConvolutionSettings& how, Tensor x, Tensor dy,
                                              Tensor dw) {
  settings_.push_back(convolution_of(how));
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, settings_.back().get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, at(x))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, at(dy))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, at(dw))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0f)
      .finalize();
}

void OperationGraph::combine(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y) {
  settings_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
      .finalize();
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, settings_.back().get())
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y))
      .finalize();
}

cudnnBackendDescriptor_t OperationGraph::get(cudnnHandle_t cudnn) {
  if (!whole_) {
    std::vector<cudnnBackendDescriptor_t> operations;
    for (const BackendDescriptor& operation : operations_) operations.push_back(operation.get());
    BackendDescriptor whole(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn)
        .finalize();
    whole_ = std::move(whole);
  }
  return whole_->get();
}

int64_t OperationGraph::engines(cudnnHandle_t cudnn) {
  get(cudnn);
  return whole_->number(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
}

std::string EngineConfiguration::to_string() const {
  std::string text = "engine " + std::to_string(engine);
  if (!knobs.empty()) text += ", knobs";
  for (const auto& [type, value] : knobs) {
    text += " " + std::to_string(type) + "=" + std::to_string(value);
  }
  return text;
}

TuningCache::Entry EngineConfiguration::to_entry() const {
  TuningCache::Entry entry = {{"engine", engine}};
  for (const auto& [type, value] : knobs) entry["knob_" + std::to_string(type)] = value;
  return entry;
}

std::optional<EngineConfiguration> EngineConfiguration::from_entry(
    const TuningCache::Entry& entry) {
  const auto engine = entry.find("engine");
  if (engine == entry.end()) return {};
  EngineConfiguration found = {.engine = engine->second, .knobs = {}};
  for (int64_t type = 0; type < CUDNN_KNOB_TYPE_COUNTS; ++type) {
    const auto knob = entry.find("knob_" + std::to_string(type));
    if (knob != entry.end()) found.knobs[type] = knob->second;
  }
  return found;
}

std::vector<EngineConfiguration> proposed_engines(Context& context, OperationGraph& graph,
                                                  const EngineLimits& limits) {
  std::vector<EngineConfiguration> all;
  for (const cudnnBackendHeurMode_t mode :
       {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      BackendDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get(context.cudnn()))
          .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
          .finalize();
      for (const BackendDescriptor& proposal : heuristics.descriptors(
               CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostProposals)) {
        const auto found = duet::gpu::read(proposal, limits);
        if (found && std::find(all.begin(), all.end(), *found) == all.end()) all.push_back(*found);
      }
    } catch (const DeviceError&) {
      // No engine of this kind; the next heuristic may know one.
    }
  }
  // In fp32 the heuristics name engines that use tensor cores and leave out many that do not.
  for (int64_t number = 0; number < graph.engines(context.cudnn()); ++number) {
    const auto is_it = [&](const EngineConfiguration& one) { return one.engine == number; };
    if (std::any_of(all.begin(), all.end(), is_it)) continue;
    try {
      BackendDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.get(context.cudnn()))
          .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number)
          .finalize();
      if (allowed(engine, limits)) all.push_back({.engine = number, .knobs = {}});
    } catch (const DeviceError&) {
      // Not for this graph.
    }
  }
  return all;
}

ExecutionPlan::ExecutionPlan(Context& context, OperationGraph& graph,
                             const EngineConfiguration& configuration)
    : configuration_(configuration), plan_(plan_of(context, graph, configuration)) {
  workspace_ = static_cast<size_t>(plan_.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
}

void ExecutionPlan::run(Context& context,
                        const std::vector<std::pair<OperationGraph::Tensor, void*>>& memory,
                        void* workspace) const {
  std::vector<int64_t> tensors;
  std::vector<void*> addresses;
  for (const auto& [tensor, address] : memory) {
    tensors.push_back(tensor);
    addresses.push_back(address);
  }
  BackendDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, tensors)
      .set_memory(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
      .set_memory(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {workspace})
      .finalize();
  DUET_CUDNN(cudnnBackendExecute(context.cudnn(), plan_.get(), pack.get()));
}

}  // namespace duet::gpu
