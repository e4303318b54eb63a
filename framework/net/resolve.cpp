#include "net/resolve.h"

#include <algorithm>

#include "layers/layers.h"
#include "net/fuse.h"

namespace duet {
namespace {

std::string label(const std::string& name, const Layer& layer) {
  return "layer " + name + " (" + std::string(layer.type()) + ")";
}

// Chooses implementations for one layer. The rules: the layer's own request before the network's;
// an id means exactly that one; a family means the first of its entries that supports the problem;
// auto means any that does, and which is for measurement to say.
class Chooser {
 public:
  // Nobody needs the gradient of the `first` layer's input: its backward_data never runs.
  Chooser(const NetSpec& spec, const LayerSpec& layer_spec, const Layer& layer, bool first)
      : spec_(spec),
        layer_spec_(layer_spec),
        layer_(layer),
        first_(first),
        list_(layer.implementations()) {}

  // Returns the choices, or fewer than passes() if something cannot be done: problems() say what.
  // A pass that never runs is left out, without a problem, if nothing can do it.
  std::vector<PassChoice> choose() {
    std::vector<PassChoice> choices;
    for (Pass pass : layer_.passes()) {
      const size_t problems = problems_.size();
      auto choice = choose(pass);
      if (!choice && !runs(pass) && problems_.size() > problems && problems_.back().unsupported) {
        problems_.pop_back();
        continue;
      }
      if (choice) choices.push_back(*choice);
      if (!choice && !layer_.chooses_per_pass()) break;  // one message is enough
    }
    return choices;
  }

  struct Problem {
    Mark mark;
    std::string text;
    bool unsupported;
  };
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  bool runs(Pass pass) const { return !(first_ && pass == Pass::kBackwardData); }

  std::optional<PassChoice> choose(Pass pass) {
    std::string name = spec_.backend.name;
    Mark mark = spec_.backend.mark;
    bool network_wide = true;
    if (layer_spec_.backend) {
      const BackendChoice& own = *layer_spec_.backend;
      const auto for_pass = own.passes.find(pass);
      const std::string own_name = for_pass != own.passes.end() ? for_pass->second : own.name;
      if (!own_name.empty()) {
        name = own_name;
        mark = own.mark;
        network_wide = false;
      }
    }
    if (name == kAuto) return candidates(pass, mark);
    const auto listed = std::find_if(list_.begin(), list_.end(),
                                     [&](const ImplInfo& info) { return info.id == name; });
    const Family family = family_from(name) ? *family_from(name) : family_of(name);
    if (device_of(family) != device_of(spec_)) {
      return refuse(mark, false,
                    "'" + name + "' runs on the " + device_name(device_of(family)) +
                        ", but this network's backend is '" + spec_.backend.name + "'" +
                        (spec_.backend.name == kAuto
                             ? ", which is the " + device_name(device_of(spec_)) + " here"
                             : "") +
                        ": all layers of a network run on one device");
    }
    // "cudnn" is both a family and, in most lists, an id: as a family it takes the first that can.
    if (listed != list_.end() && !family_from(name)) {
      const auto reason = unsupported(listed->id, pass);
      if (!reason) return PassChoice{pass, name};
      return refuse(mark, true,
                    "'" + name + "' cannot run " + std::string(to_string(pass)) + ": " + *reason +
                        "; " + that_can(pass));
    }
    auto choice = choose_of_family(family, pass, mark, network_wide);
    // Only an id for the whole network can be unknown to this layer type: its own are checked.
    if (choice && !choice->shared && !family_from(name)) choice->instead_of = name;
    return choice;
  }

  std::optional<PassChoice> choose_of_family(Family family, Pass pass, Mark mark,
                                             bool network_wide) {
    std::string reasons;
    bool any = false;
    for (const ImplInfo& info : list_) {
      if (family_of(info.id) != family) continue;
      any = true;
      const auto reason = unsupported(info.id, pass);
      if (!reason) return PassChoice{pass, std::string(info.id)};
      reasons += (reasons.empty() ? "" : "; ") + std::string(info.id) + ": " + *reason;
    }
    const std::string family_name(to_string(family));
    if (any) {
      return refuse(mark, true,
                    "no '" + family_name + "' implementation can run " +
                        std::string(to_string(pass)) + " (" + reasons + "); " + that_can(pass));
    }
    for (const ImplInfo& info : list_) {
      if (network_wide && info.shared && !unsupported(info.id, pass)) {
        return PassChoice{pass, std::string(info.id), true};
      }
    }
    return refuse(mark, true,
                  "there is no '" + family_name + "' implementation of " +
                      std::string(layer_.type()) + "; " + that_can(pass));
  }

  std::optional<PassChoice> candidates(Pass pass, Mark mark) {
    PassChoice choice{pass, std::string(kAuto)};
    std::string reasons;
    for (const ImplInfo& info : list_) {
      if (device_of(family_of(info.id)) != device_of(spec_)) continue;
      if (const auto reason = unsupported(info.id, pass)) {
        reasons += (reasons.empty() ? "" : "; ") + std::string(info.id) + ": " + *reason;
      } else {
        choice.candidates.push_back({std::string(info.id)});
      }
    }
    if (!choice.candidates.empty()) return choice;
    return refuse(mark, true,
                  "no implementation on the " + device_name(device_of(spec_)) + " can run " +
                      std::string(to_string(pass)) + " (" + reasons + ")");
  }

  // A layer whose passes run by one implementation needs it for all of them.
  std::optional<std::string> unsupported(std::string_view id, Pass pass) const {
    if (layer_.chooses_per_pass()) return layer_.unsupported(id, pass);
    for (Pass each : layer_.passes()) {
      if (!runs(each)) continue;
      if (auto reason = layer_.unsupported(id, each)) return reason;
    }
    return {};
  }

  std::string that_can(Pass pass) const {
    std::vector<std::string> ids;
    for (const ImplInfo& info : list_) {
      const bool here = device_of(family_of(info.id)) == device_of(spec_);
      if (here && !unsupported(info.id, pass)) ids.emplace_back(info.id);
    }
    return ids.empty() ? "no implementation on this device can" : "these can: " + join(ids);
  }

  static std::string device_name(Device device) { return device == Device::kCpu ? "CPU" : "GPU"; }

  std::nullopt_t refuse(Mark mark, bool unsupported, const std::string& what) {
    const std::string text = label(layer_spec_.name, layer_) + ": " + what;
    const bool told = !problems_.empty() && problems_.back().text == text;  // of another pass
    if (!told) problems_.push_back({mark.line ? mark : layer_spec_.mark, text, unsupported});
    return std::nullopt;
  }

  const NetSpec& spec_;
  const LayerSpec& layer_spec_;
  const Layer& layer_;
  const bool first_;
  const std::vector<ImplInfo> list_;
  std::vector<Problem> problems_;
};

// Walks the layers with the tensor that flows through them.
bool share_state(const Layer& layer, const std::string& a, const std::string& b) {
  if (a == b || layer.chooses_per_pass()) return true;
  return a != kAuto && b != kAuto && layer.shares_state(a, b);
}

class Resolver {
 public:
  Resolver(const NetSpec& spec, const TensorDesc& input, ConfigErrors& errors)
      : spec_(spec), errors_(errors), tensor_(input), labels_{{input.shape[0]}, DType::kInt32} {}

  std::vector<ResolvedLayer> run(int64_t classes) {
    for (size_t i = 0; i < spec_.layers.size();) {
      const auto block = spec_.fuse ? fuse_at(spec_, i) : std::nullopt;
      std::string hindrance;
      if (block) {
        hindrance = !block->hindrance.empty() ? block->hindrance : hidden_id(*block, i);
        if (hindrance.empty() && add(block->spec, block->prefix, &hindrance)) {
          i += block->parts;
          continue;
        }
      }
      const LayerSpec& layer = spec_.layers[i++];
      if (layer.layer->takes_labels()) check_classes(layer, classes);
      if (!add(layer, layer.name, nullptr)) break;  // the shapes after it are unknown
      if (!hindrance.empty()) result_.back().unfused = block->spec.name + ": " + hindrance;
    }
    return std::move(result_);
  }

 private:
  bool has_id(const Layer& layer) const {
    const auto list = layer.implementations();
    return std::any_of(list.begin(), list.end(),
                       [&](const ImplInfo& info) { return info.id == spec_.backend.name; });
  }

  // Where the id asked for is one of the block's parts', and not the block's, it would not run: a
  // hindrance to fusing.
  std::string hidden_id(const FusedBlock& block, size_t first) const {
    if (family_from(spec_.backend.name) || has_id(*block.spec.layer)) return "";
    for (size_t i = first; i < first + block.parts; ++i) {
      if (has_id(*spec_.layers[i].layer)) return "the block has no " + spec_.backend.name;
    }
    return "";
  }

  // Whether the next layer is the first that computes anything.
  bool at_first() const {
    return std::all_of(result_.begin(), result_.end(),
                       [](const ResolvedLayer& each) { return each.layer->is_view(); });
  }

  // Why a block cannot run as `choices` say, or "". A pass that its convolution names must go on
  // with the state of those that would run otherwise: else it is not the only thing to change.
  std::string hindrance_of(const LayerSpec& spec, const Chooser& chooser,
                           const std::vector<PassChoice>& choices) const {
    const std::string kind(spec.layer->type());
    if (!chooser.problems().empty()) {
      return "no implementation of " + kind + " that is asked for can run it here";
    }
    if (!spec.backend) return "";
    LayerSpec plain = spec;
    plain.backend.reset();
    const std::vector<PassChoice> usual = Chooser(spec_, plain, *spec.layer, at_first()).choose();
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i < usual.size() && share_state(*spec.layer, choices[i].id, usual[i].id)) continue;
      return std::string(to_string(choices[i].pass)) + " is to run by " + choices[i].id +
             ", which keeps another state for the backward passes than " +
             (i < usual.size() ? usual[i].id : "the others");
    }
    return "";
  }

  // Returns false if the layer does not fit. A fused block is tentative: it then leaves no trace
  // but `hindrance`.
  bool add(const LayerSpec& spec, const std::string& prefix, std::string* hindrance) {
    Layer& layer = *spec.layer;
    const Layout wanted = layer.is_view() ? Layout::kNCHW : spec.layout.value_or(spec_.layout);
    TensorDesc input = tensor_;
    std::optional<ResolvedLayer> reorder;
    if (input.shape.rank() == 4 && input.layout != wanted) {
      const bool same_bytes = input.shape[1] == 1 || input.shape[2] * input.shape[3] == 1;
      if (result_.empty() || same_bytes) {
        input.layout = wanted;  // the batch is gathered in this layout; the bytes are the same
      } else {
        reorder = make_reorder(spec, input, wanted);
        if (!reorder) return false;
        input = reorder->layer->outputs()[0];
      }
    }
    std::vector<TensorDesc> inputs = {input};
    if (layer.takes_labels()) inputs.push_back(labels_);
    try {
      layer.bind(inputs, {.math = spec_.math, .seed = spec_.seed, .stream = spec.stream});
    } catch (const ShapeError& e) {
      if (!hindrance) {
        const std::string from = result_.empty() ? "the data" : "layer " + result_.back().name;
        errors_.add(spec.mark, label(spec.name, layer) + ": " + e.what() + " (its input " +
                                   tensor_.shape.to_string() + " comes from " + from + ")");
      }
      return false;
    }
    ResolvedLayer resolved{spec.name, prefix, spec.layer, {}};
    if (!layer.is_view()) {
      Chooser chooser(spec_, spec, layer, at_first());
      resolved.passes = chooser.choose();
      if (hindrance) {
        *hindrance = hindrance_of(spec, chooser, resolved.passes);
        if (!hindrance->empty()) return false;
      }
      report(chooser);
      check_state(spec, resolved.passes);
    }
    if (reorder) result_.push_back(std::move(*reorder));
    result_.push_back(std::move(resolved));
    tensor_ = layer.outputs()[0];
    return true;
  }

  void report(const Chooser& chooser) {
    for (const auto& problem : chooser.problems()) {
      if (problem.unsupported) {
        errors_.add_unsupported(problem.mark, problem.text);
      } else {
        errors_.add(problem.mark, problem.text);
      }
    }
  }

  // Passes that were named one by one.
  void check_state(const LayerSpec& spec, const std::vector<PassChoice>& choices) {
    for (const PassChoice& choice : choices) {
      if (share_state(*spec.layer, choices[0].id, choice.id)) continue;
      errors_.add(spec.backend ? spec.backend->mark : spec.mark,
                  label(spec.name, *spec.layer) + ": " + std::string(to_string(choice.pass)) +
                      " by '" + choice.id + "' cannot go on with what '" + choices[0].id +
                      "' keeps for it in forward; name implementations of one family");
      return;
    }
  }

  std::optional<ResolvedLayer> make_reorder(const LayerSpec& before, const TensorDesc& input,
                                            Layout to) {
    ConfigNode keys = ConfigNode::map();
    keys.at_or_add("to") = ConfigNode::of(to_string(to));
    ConfigReader reader(keys, "reorder", errors_);
    LayerSpec spec{.name = "reorder_" + before.name, .mark = before.mark};
    spec.layer = find_layer_type("reorder")->make(reader);
    spec.layer->bind({input}, {.math = spec_.math});
    Chooser chooser(spec_, spec, *spec.layer, false);
    ResolvedLayer resolved{spec.name, spec.name, spec.layer, chooser.choose()};
    report(chooser);
    if (!chooser.problems().empty()) return {};
    return resolved;
  }

  void check_classes(const LayerSpec& loss, int64_t classes) {
    const Shape& shape = tensor_.shape;
    if (shape.rank() != 2 || shape[1] >= classes) return;
    errors_.add(loss.mark, "layer " + loss.name + ": the data has " + std::to_string(classes) +
                               " classes (labels 0 to " + std::to_string(classes - 1) +
                               "), but layer " + result_.back().name + " has only " +
                               std::to_string(shape[1]) + " outputs");
  }

  const NetSpec& spec_;
  ConfigErrors& errors_;
  TensorDesc tensor_;
  const TensorDesc labels_;
  std::vector<ResolvedLayer> result_;
};

}  // namespace

std::vector<ResolvedLayer> resolve(const NetSpec& spec, const TensorDesc& input, int64_t classes,
                                   ConfigErrors& errors) {
  if (device_of(spec) == Device::kGpu && !built_with_cuda()) {
    errors.add_unsupported(spec.backend.mark,
                           "backend '" + spec.backend.name + "': " + gpu_missing_reason());
    return {};
  }
  return Resolver(spec, input, errors).run(classes);
}

}  // namespace duet
