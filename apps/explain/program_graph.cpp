// The part of ProgramCalls that writes descriptors of cuDNN's graph API.
#include <algorithm>

#include "core/error.h"
#include "program_calls.h"
#include "program_text.h"

namespace duet {
namespace {

constexpr const char* kFunctions = R"(
/// One attribute of a descriptor of cuDNN's graph API.
template <class T>
void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, std::initializer_list<T> values) {
  CHECK(cudnnBackendSetAttribute(descriptor, name, type, int64_t(values.size()), values.begin()));
}
/// The workspace that a plan needs.
char* workspace_of(cudnnBackendDescriptor_t plan) {
  int64_t bytes = 0, count = 0;
  CHECK(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                 1, &count, &bytes));
  return room_on_gpu<char>(size_t(bytes));
}
)";

constexpr const char* kNumber = R"(
/// A number that cuDNN reads on the host when the plan is executed.
void* number(float value) { return new float(value); }
)";

constexpr const char* kFirstPlan = R"(
/// The first engine that cuDNN proposes for the graph and whose notes say that its results repeat,
/// that its sums are not in reduced precision and, unless allowed, that it uses no tensor cores.
cudnnBackendDescriptor_t first_plan(cudnnHandle_t cudnn, cudnnBackendDescriptor_t graph,
                                    bool tensor_cores) {
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    cudnnBackendDescriptor_t heuristics, proposals[8];
    CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics));
    set<cudnnBackendDescriptor_t>(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, {graph});
    set<cudnnBackendHeurMode_t>(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                                {mode});
    if (cudnnBackendFinalize(heuristics) != CUDNN_STATUS_SUCCESS) continue;
    for (cudnnBackendDescriptor_t& proposal : proposals) {
      CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &proposal));
    }
    int64_t proposed = 0;
    CHECK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 8, &proposed, proposals));
    for (int64_t i = 0; i < std::min<int64_t>(proposed, 8); ++i) {
      cudnnBackendDescriptor_t engine, plan;
      int64_t count = 0;
      CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
      CHECK(cudnnBackendGetAttribute(proposals[i], CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine));
      cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
      CHECK(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                     CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                     &count, notes));
      bool allowed = true;
      for (int64_t note = 0; note < count; ++note) {
        allowed = allowed && notes[note] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC &&
                  notes[note] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION &&
                  (tensor_cores || (notes[note] != CUDNN_NUMERICAL_NOTE_TENSOR_CORE &&
                                    notes[note] != CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
      }
      if (!allowed) continue;
      CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));
      set<cudnnHandle_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, {cudnn});
      set<cudnnBackendDescriptor_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, {proposals[i]});
      if (cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS) return plan;
    }
  }
  fail("first_plan", "cuDNN has no plan for this graph");
  return nullptr;
}
)";

const char* const kPlan = "CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR";

/// What a plan is made of beside its graph.
bool is_part_of_plan(const std::string& kind) {
  return kind == kPlan || kind == "CUDNN_BACKEND_ENGINE_DESCRIPTOR" ||
         kind == "CUDNN_BACKEND_ENGINECFG_DESCRIPTOR" ||
         kind == "CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR";
}

}  // namespace

std::string ProgramCalls::graph_functions() const {
  if (!uses("cudnnBackend")) return "";
  const bool numbers =
      std::any_of(selection_.setup.begin(), selection_.setup.end(), [](const Record* record) {
        return record->name == "cudnnBackendSetAttribute" &&
               record->argument("attributeName").text() == "CUDNN_ATTR_TENSOR_IS_BY_VALUE";
      });
  return kFunctions + std::string(numbers ? kNumber : "") + (recorded_.measured ? "" : kFirstPlan);
}

/// Tensors by the memory that stands for their numbers, the others by what they describe.
void ProgramCalls::name_descriptors() {
  std::vector<const Record*> records = selection_.setup;
  records.insert(records.end(), selection_.run.begin(), selection_.run.end());
  std::map<int64_t, std::string> memory;
  std::map<std::string, std::string> tensors;
  std::vector<int64_t> numbers;
  for (const Record* record : records) {
    if (record->name == "cudnnBackendCreateDescriptor") {
      kinds_[record->argument("descriptor").text()] = record->argument("descriptorType").text();
    }
    if (record->name == "cudnnBackendExecute") {
      made_of_[record->argument("variantPack").text()] = record->argument("executionPlan").text();
    }
    if (record->name != "cudnnBackendSetAttribute") continue;
    const std::string attribute = record->argument("attributeName").text();
    const nlohmann::json& all = record->argument("arrayOfElements").value.at("all");
    if (attribute == "CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG" ||
        attribute == "CUDNN_ATTR_ENGINECFG_ENGINE" ||
        attribute == "CUDNN_ATTR_ENGINE_OPERATION_GRAPH") {
      made_of_[record->argument("descriptor").text()] = all[0].get<std::string>();
    } else if (attribute == "CUDNN_ATTR_OPERATIONGRAPH_OPS") {
      for (const nlohmann::json& operation : all) {
        const std::string& kind = kinds_.at(operation.get<std::string>());
        if (kind.find("CONVOLUTION") != std::string::npos) {
          products_.insert(record->argument("descriptor").text());
        }
      }
    } else if (attribute == "CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS") {
      numbers = all.get<std::vector<int64_t>>();
    } else if (attribute == "CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS") {
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (all[i].is_number()) memory[numbers[i]] = "number";
        if (!all[i].is_string()) continue;
        const RecordedArgument address = {"memory", "memory", "void", all[i]};
        const NamedMemory* const found = memory_at(recorded_, address_of(address));
        // In the workspace lie rounded parameters, and what passes from graph to graph.
        memory[numbers[i]] = !found                                         ? "constant"
                             : found->role == NamedMemory::Role::kWorkspace ? "scratch"
                                                                            : found->name;
      }
    }
  }
  for (const Record* record : records) {
    if (record->name != "cudnnBackendSetAttribute") continue;
    if (record->argument("attributeName").text() != "CUDNN_ATTR_TENSOR_UNIQUE_ID") continue;
    const auto number = record->argument("arrayOfElements").value.at("all")[0].get<int64_t>();
    const std::string name = memory.count(number) ? memory.at(number) : "between";
    tensors[record->argument("descriptor").text()] = name + "_tensor";
  }
  for (const auto& [token, kind] : kinds_) {
    std::string name = kind.substr(std::string("CUDNN_BACKEND_").size());
    if (name.starts_with("OPERATION_")) name.erase(0, std::string("OPERATION_").size());
    name = name.substr(0, name.rfind("_DESCRIPTOR"));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    objects_[token] = fresh(tensors.count(token) ? tensors.at(token) : name);
  }
}

std::string ProgramCalls::value(const Record& record, const std::string& attribute,
                                const std::string& type, const nlohmann::json& value) {
  if (attribute == "CUDNN_ATTR_VARIANT_PACK_WORKSPACE") {
    return objects_.at(made_of_.at(record.argument("descriptor").text())) + "_workspace";
  }
  if (type == "void*" && value.is_number()) {
    char text[40];
    std::snprintf(text, sizeof text, "number(%.9g)", value.get<double>());
    return text;
  }
  if (type == "void*") return memory(record, {"memory", "memory", "void", value});
  if (type == "cudnnBackendDescriptor_t" || type == "cudnnHandle_t") {
    return objects_.at(value.get<std::string>());
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A call that makes, sets or ends a descriptor.
std::string ProgramCalls::descriptor(const Record& record) {
  if (record.name == "cudnnBackendExecute") return comment(record.name) + call(record);
  const std::string token = record.argument("descriptor").text();
  const std::string kind = kinds_.at(token), name = objects_.at(token);
  const std::string room = "  char* " + name + "_workspace = workspace_of(" + name + ");\n";
  const bool makes = record.name == "cudnnBackendCreateDescriptor";
  if (!recorded_.measured && is_part_of_plan(kind)) {
    if (record.name != "cudnnBackendFinalize" || kind != kPlan) return "";
    const std::string& engine = made_of_.at(made_of_.at(token));
    const std::string& graph_token = made_of_.at(engine);
    const std::string& graph = objects_.at(graph_token);
    std::string cudnn;
    for (const auto& [other, other_name] : objects_) {
      if (other_name.starts_with("cudnn")) cudnn = other_name;
    }
    // What an engine would do to a product does not matter where there is none.
    const bool tensor_cores =
        recorded_.layer->options().math != Math::kFP32 || !products_.count(graph_token);
    return "\n" +
           commented(
               "The engine was not measured: no GPU was there when this was written. The first "
               "proposal that is allowed is taken here; Duet times them all.") +
           "  cudnnBackendDescriptor_t " + name + " = first_plan(" + cudnn + ", " + graph + ", " +
           (tensor_cores ? "true" : "false") + ");\n" + room;
  }
  if (makes) {
    const std::string above = comment(kind);
    return (above.empty() ? "\n" : above) + "  cudnnBackendDescriptor_t " + name + ";\n" +
           call(record, {{"descriptor", "&" + name}});
  }
  if (record.name != "cudnnBackendSetAttribute") {
    const bool ready = kind == kPlan && record.name == "cudnnBackendFinalize";
    return call(record) + (ready ? room : "");
  }
  const RecordedArgument& values = record.argument("arrayOfElements");
  const std::string type = values.value.at("type");
  const std::string attribute = record.argument("attributeName").text();
  std::string all;
  for (const nlohmann::json& one : values.value.at("all")) {
    all += (all.empty() ? "" : ", ") + value(record, attribute, type, one);
  }
  const std::string begin = "  set<" + type + ">(" + name + ",";
  const std::string end = record.argument("attributeType").text() + ", {" + all + "});\n";
  std::string line = begin + " " + attribute + ",";
  if (line.size() + end.size() <= kColumns) return line + " " + end;
  if (line.size() <= kColumns) return line + "\n      " + end;
  return begin + "\n      " + attribute + ", " + end;
}

}  // namespace duet
