#include "lab/bench_selection.h"

#include <algorithm>

#include "compare/results/problem.h"
#include "compare/tables/format.h"
#include "core/error.h"
#include "core/program.h"
#include "layers/layers.h"
#include "measure/time/ceilings.h"
#include "net/choose.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

using Names = std::vector<std::string>;

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_impls(const Names& impls) {
  Names known = {"cpu", "custom", "cudnn"};
  for (const LayerType* type : layer_types()) add_ids(*type, &known);
  for (const std::string& name : impls) {
    if (contains(known, name)) continue;
    throw ConfigError("--impl " + name + ": no family or implementation of that name" +
                      did_you_mean(name, known) + "; '" + as_started("trainer list impls") +
                      "' tells what there is");
  }
}

void check_passes(const std::vector<BenchProblem>& problems, const Names& passes) {
  Names known = {"backward"};
  for (const BenchProblem& problem : problems) {
    for (Pass pass : problem.passes) {
      if (!contains(known, to_string(pass))) known.emplace_back(to_string(pass));
    }
  }
  for (const std::string& name : passes) {
    if (contains(known, name)) continue;
    throw ConfigError("--pass " + name + ": no such pass here" + did_you_mean(name, known) +
                      "; there are " + join(known));
  }
}

bool is_wanted(std::string_view id, const Names& impls, Device device) {
  if (device_of(family_of(id)) != device) return false;
  return impls.empty() || std::any_of(impls.begin(), impls.end(), [&](const std::string& name) {
           return name == id || family_from(name) == family_of(id);
         });
}

PassSelection select(const Layer& layer, Pass pass, const Names& impls, Device device,
                     bool choice) {
  PassSelection selection{.pass = pass};
  auto& all = selection.candidates;
  for (const ImplInfo& info : layer.implementations()) {
    if (!is_wanted(info.id, impls, device)) continue;
    const Family family = family_of(info.id);
    if (choice && !contains(impls, info.id) &&
        info.id != choose_of(NetSpec{}, layer, family, pass)) {
      continue;
    }
    if (const auto reason = layer.unsupported(info.id, pass)) {
      const std::string id(info.id);
      selection.unsupported.push_back({id, *reason, is_broken(layer, id)});
    } else {
      all.push_back({&layer, std::string(info.id)});
    }
  }
  const auto baseline = std::find_if(all.begin(), all.end(), [](const Candidate& candidate) {
    return family_of(candidate.id) == Family::kCudnn;
  });
  if (baseline != all.end()) std::rotate(all.begin(), baseline, baseline + 1);
  return selection;
}

// `what` takes so much.
void check_fits(const Layer& layer, const std::string& what, double bytes, size_t memory,
                const std::string& advice) {
  if (bytes <= static_cast<double>(memory)) return;
  const auto gib = [](double size) { return format_significant(size / (1 << 30)) + " GiB"; };
  throw OutOfMemoryError(std::string(layer.type()) + " " + problem_argument(layer) + ": " + what +
                         " " + gib(bytes) + " of memory, and there is " +
                         gib(static_cast<double>(memory)) + "; " + advice);
}

double parameter_bytes(const Layer& layer) {
  double bytes = 0;
  for (const ParameterSpec& p : layer.parameters()) bytes += static_cast<double>(p.desc.bytes());
  return bytes;
}

// Of what the reference makes of two sets of data, and its sizes, in double; `pass` alone.
double result_bytes(const Layer& layer, Pass pass) {
  double values = 0;
  const bool forward = pass == Pass::kForward;
  for (const TensorDesc& tensor : forward ? layer.outputs() : layer.inputs()) {
    values += static_cast<double>(tensor.elements());
  }
  if (!forward) values += parameter_bytes(layer) / 4;
  return 2 * 2 * 8 * values;
}

size_t memory_of(Device device) { return device == Device::kGpu ? gpu_memory() : host_memory(); }

// Two sets of data in double, what comes of them and its sizes (2 * (2 + 2 + 2) of the tensors that
// a pass moves in float32), and data for three problems beside this one, whose parameters may be as
// large.
double reference_bytes(const Layer& layer) {
  return 12 * least_bytes(layer, Pass::kForward) + 3 * 2 * parameter_bytes(layer);
}

// An implementation that is examined has its tensors and their gradients, and a second instance or
// copies beside, while times are taken every one has its own; with them two sets of data and, on a
// GPU, what they should give. Elsewhere the reference is in the same memory.
double bytes_side_by_side(const Layer& layer, const PassSelection& selection, Device device) {
  const double unit = least_bytes(layer, Pass::kForward),
               count = static_cast<double>(selection.candidates.size());
  const double beside =
      device == Device::kGpu ? result_bytes(layer, selection.pass) : reference_bytes(layer);
  return 2 * unit + beside + std::max(2 * count, 5.0) * unit;
}

}  // namespace

bool is_wanted(Pass pass, const std::vector<std::string>& passes) {
  const std::string_view name = to_string(pass);
  return passes.empty() || contains(passes, name) ||
         (name.starts_with("backward") && contains(passes, "backward"));
}

Device choose_device(const Names& impls, std::optional<Device> device) {
  check_impls(impls);
  for (const std::string& name : impls) {
    const Device own = device_of(family_of(name));
    if (device && *device != own) {
      throw ConfigError("--impl " + name + " runs on the " + std::string(to_string(own)) +
                        ", the others on the " + std::string(to_string(*device)) +
                        "; times are compared on one device");
    }
    device = own;
  }
  if (device == Device::kGpu && !gpu_available()) {
    throw UnsupportedError("this needs a GPU: " + gpu_missing_reason("'--device cpu'"));
  }
  return device.value_or(gpu_available() ? Device::kGpu : Device::kCpu);
}

std::vector<ProblemSelection> select(const std::vector<BenchProblem>& problems, const Names& passes,
                                     const Names& impls, Device device, bool choice) {
  check_passes(problems, passes);
  std::vector<ProblemSelection> all;
  bool any = false, mistaken = false;
  std::string reasons;
  for (const BenchProblem& problem : problems) {
    ProblemSelection selection{.problem = &problem};
    for (Pass pass : problem.passes) {
      if (!is_wanted(pass, passes)) continue;
      PassSelection of_pass = select(*problem.layer, pass, impls, device, choice);
      any |= !of_pass.candidates.empty();
      for (const PassSelection::Unsupported& each : of_pass.unsupported) {
        reasons += "\n" + std::string(problem.layer->type()) + " " + std::string(to_string(pass)) +
                   " " + each.id + ": " + each.reason;
        mistaken |= is_mistaken(*problem.layer, each.id);
      }
      if (of_pass.candidates.empty() && of_pass.unsupported.empty()) continue;
      selection.passes.push_back(std::move(of_pass));
    }
    if (!selection.passes.empty()) all.push_back(std::move(selection));
  }
  if (any) return all;
  const std::string text =
      "nothing of this can be measured on the " + std::string(to_string(device)) +
      (reasons.empty() ? ": no such implementation of it runs there; '" +
                             as_started("trainer list impls") + "' tells what there is"
                       : ":" + reasons);
  if (mistaken) throw ConfigError(text);
  throw UnsupportedError(text);
}

void check_memory(const std::vector<ProblemSelection>& selections, Device device) {
  const bool gpu = device == Device::kGpu;
  for (const auto& [problem, passes] : selections) {
    const Layer& layer = *problem->layer;
    check_fits(layer, "the reference alone takes", reference_bytes(layer), host_memory(),
               "choose a smaller batch or shape");
    for (const PassSelection& selection : passes) {
      const size_t count = selection.candidates.size();
      check_fits(layer,
                 std::to_string(count) +
                     (count == 1 ? " implementation takes" : " implementations side by side take") +
                     (gpu ? " on the GPU" : ", beside the reference,"),
                 bytes_side_by_side(layer, selection, device), memory_of(device),
                 "name fewer with --impl, or choose a smaller batch or shape");
    }
  }
}

double workspace_room(const Layer& layer, const PassSelection& selection, Device device) {
  return static_cast<double>(memory_of(device)) - bytes_side_by_side(layer, selection, device);
}

}  // namespace duet
