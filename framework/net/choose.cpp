#include "net/choose.h"

#include <algorithm>

#include "layers/split_products.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

// A layer whose passes run by one implementation needs it for all of them.
std::optional<std::string> why_unsupported(const Layer& layer, std::string_view id, Pass pass,
                                           bool gradient) {
  if (layer.chooses_per_pass()) return layer.unsupported(id, pass);
  for (Pass each : layer.passes()) {
    if (!gradient && each == Pass::kBackwardData) continue;
    if (auto reason = layer.unsupported(id, each)) {
      if (each == pass) return reason;
      return "its passes run by one implementation, and " + std::string(to_string(each)) +
             " cannot: " + *reason;
    }
  }
  return {};
}

class Chooser {
 public:
  Chooser(const NetSpec& spec, const LayerSpec& layer_spec, const Layer& layer, bool gradient)
      : spec_(spec),
        layer_spec_(layer_spec),
        layer_(layer),
        gradient_(gradient),
        list_(layer.implementations()) {}

  Choice choose() {
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
    return {choices, problems_};
  }

 private:
  bool runs(Pass pass) const {
    if (pass == Pass::kBackwardFilter) return !layer_spec_.frozen;
    return gradient_ || pass != Pass::kBackwardData;
  }

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
      return refuse(mark, !is_mistaken(layer_, name),
                    "'" + name + "' cannot run " + std::string(to_string(pass)) + ": " + *reason +
                        "; " + that_can(pass));
    }
    auto choice = choose_of_family(family, pass, mark, network_wide);
    // Only an id for the whole network can be unknown here: names_block_only() has seen the others.
    if (choice && !choice->shared && !family_from(name)) choice->instead_of = name;
    return choice;
  }

  std::optional<PassChoice> choose_of_family(Family family, Pass pass, Mark mark,
                                             bool network_wide) {
    if (const auto id = choose_of(spec_, layer_, family, pass, gradient_)) {
      return PassChoice{pass, *id};
    }
    std::string reasons;
    bool mistaken = false;
    for (const ImplInfo& info : list_) {
      if (family_of(info.id) != family) continue;
      reasons += (reasons.empty() ? "" : "; ") + std::string(info.id) + ": " +
                 unsupported(info.id, pass).value_or("");
      mistaken |= is_mistaken(layer_, info.id);
    }
    const std::string family_name(to_string(family));
    if (!reasons.empty()) {
      return refuse(mark, !mistaken,
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
      if (!spec_.fp32_in_parts && multiplies_in_parts(info.id)) continue;
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

  std::optional<std::string> unsupported(std::string_view id, Pass pass) const {
    return why_unsupported(layer_, id, pass, gradient_);
  }

  std::string that_can(Pass pass) const {
    std::vector<std::string> ids, elsewhere;
    for (const ImplInfo& info : list_) {
      const bool here = device_of(family_of(info.id)) == device_of(spec_);
      if (!unsupported(info.id, pass)) (here ? ids : elsewhere).emplace_back(info.id);
    }
    if (!ids.empty()) return "these can: " + join(ids);
    const Device other = device_of(spec_) == Device::kCpu ? Device::kGpu : Device::kCpu;
    return "no implementation on this device can" +
           (elsewhere.empty() ? "" : "; on the " + device_name(other) + ": " + join(elsewhere));
  }

  static std::string device_name(Device device) { return device == Device::kCpu ? "CPU" : "GPU"; }

  std::nullopt_t refuse(Mark mark, bool unsupported, const std::string& what) {
    const std::string text = label_of(layer_spec_.name, layer_) + ": " + what;
    const bool told = !problems_.empty() && problems_.back().text == text;  // of another pass
    if (!told) problems_.push_back({mark.line ? mark : layer_spec_.mark, text, unsupported});
    return std::nullopt;
  }

  const NetSpec& spec_;
  const LayerSpec& layer_spec_;
  const Layer& layer_;
  const bool gradient_;
  const std::vector<ImplInfo> list_;
  std::vector<Choice::Problem> problems_;
};

}  // namespace

std::string label_of(const std::string& name, const Layer& layer) {
  return "layer " + name + " (" + std::string(layer.type()) + ")";
}

Choice choose(const NetSpec& spec, const LayerSpec& layer_spec, const Layer& layer, bool gradient) {
  return Chooser(spec, layer_spec, layer, gradient).choose();
}

std::optional<std::string> choose_of(const NetSpec& spec, const Layer& layer, Family family,
                                     Pass pass, bool gradient) {
  // What forward runs by needs to know how to do the rest; for these there may be better.
  std::optional<std::string> forward;
  if (!layer.chooses_per_pass() && pass != Pass::kForward) {
    forward = choose_of(spec, layer, family, Pass::kForward, gradient);
    if (!forward) return {};
  }
  std::optional<std::string> first;
  for (const ImplInfo& info : layer.implementations()) {
    if (family_of(info.id) != family) continue;
    if (!spec.fp32_in_parts && multiplies_in_parts(info.id)) continue;
    if (forward ? !layer.shares_state(*forward, info.id) || layer.unsupported(info.id, pass)
                : why_unsupported(layer, info.id, pass, gradient).has_value()) {
      continue;
    }
    if (layer.preferred(info.id, pass, workspace_limit(spec))) return std::string(info.id);
    if (!first) first = std::string(info.id);
  }
  return first;
}

bool share_state(const Layer& layer, const std::string& a, const std::string& b) {
  if (a == b || layer.chooses_per_pass()) return true;
  return a != kAuto && b != kAuto && layer.shares_state(a, b);
}

}  // namespace duet
