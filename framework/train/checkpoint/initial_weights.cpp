#include "train/checkpoint/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/printable.h"
#include "train/checkpoint/safetensors.h"
#include "train/run/run_folder.h"

namespace duet {
namespace {

bool is_called(const Parameter& parameter, const std::string& name) {
  return parameter.name == name || parameter.name.starts_with(name + ".");
}

void check_skip(const std::vector<std::string>& skip, const std::vector<Parameter>& parameters) {
  std::vector<std::string> known;
  for (const Parameter& parameter : parameters) {
    const std::string layer = parameter.name.substr(0, parameter.name.rfind('.'));
    if (known.empty() || known.back() != layer) known.push_back(layer);
  }
  for (const std::string& name : skip) {
    if (std::any_of(parameters.begin(), parameters.end(),
                    [&](const Parameter& parameter) { return is_called(parameter, name); })) {
      continue;
    }
    throw ConfigError("train.init_skip: no layer with parameters is called '" + name + "'" +
                      did_you_mean(name, known) + "; there are: " + join(known));
  }
}

// Which tensors are taken. Throws DataError if one of them cannot be.
class WeightChoice {
 public:
  WeightChoice(InitialWeights* result, const std::vector<std::string>& skip,
               const std::vector<Parameter>& parameters)
      : result_(result), skip_(skip), parameters_(parameters) {}

  void check(const safetensors::File& file) {
    std::vector<std::string> wrong;
    std::set<std::string> known, layers;
    for (const Parameter& parameter : parameters_) {
      known.insert(parameter.name);
      if (!parameter.features.empty()) continue;  // these have a file of their own
      const bool skipped = std::any_of(skip_.begin(), skip_.end(), [&](const std::string& name) {
        return is_called(parameter, name);
      });
      const std::string misfit =
          safetensors::misfit(file, parameter.name, parameter.spec.desc.shape);
      if (skipped) {
        result_->skipped.push_back(parameter.name);
      } else if (!misfit.empty()) {
        wrong.push_back(misfit);
        layers.insert(parameter.name.substr(0, parameter.name.rfind('.')));
      } else if (!file.find(parameter.name)) {
        result_->missing.push_back(parameter.name);
      } else {
        taken.push_back(&parameter);
      }
    }
    for (const safetensors::Entry& entry : file.entries()) {
      if (known.count(entry.name) || entry.name.starts_with("optimizer.")) continue;
      result_->unused.push_back(printable(entry.name));
    }
    const std::string start = "train.init_from: " + result_->file.string() + ": ";
    if (!wrong.empty()) {
      std::string options;
      for (const std::string& layer : layers) options += " --init-skip " + layer;
      throw DataError(start + "its weights do not fit:\n  " + join(wrong, "\n  ") +
                      "\nto begin with initial values there, add" + options);
    }
    if (taken.empty()) {
      if (result_->missing.empty()) {
        throw ConfigError(
            "train.init_skip leaves out every parameter of the network: nothing is "
            "left to take from " +
            result_->file.string());
      }
      throw DataError(
          start + "has no weights for this network" +
          (result_->unused.empty() ? "" : "; it has: " + safetensors::names_text(result_->unused)) +
          (result_->missing.empty() ? ""
                                    : "; wanted: " + safetensors::names_text(result_->missing)));
    }
  }

  std::vector<const Parameter*> taken;

 private:
  InitialWeights* result_;
  const std::vector<std::string>& skip_;
  const std::vector<Parameter>& parameters_;
};

}  // namespace

InitialWeights take_initial_weights(const std::string& from, const std::vector<std::string>& skip,
                                    Weights& weights) {
  check_skip(skip, weights.parameters());
  InitialWeights result{.file = checkpoint_named("train.init_from:", from)};
  WeightChoice choice(&result, skip, weights.parameters());
  const safetensors::File file = safetensors::read(
      result.file, [&](const safetensors::File& described) { choice.check(described); });
  for (const Parameter* parameter : choice.taken) {
    const auto* values = static_cast<const float*>(file.find(parameter->name)->data);
    const auto end = values + parameter->spec.desc.elements();
    if (!std::all_of(values, end, [](float value) { return std::isfinite(value); })) {
      throw DataError(
          "train.init_from: " + result.file.string() + ": '" + parameter->name +
          "' holds values that are not finite; name its layer with --init-skip, or take "
          "another file");
    }
    weights.write(*parameter, {values, values + parameter->spec.desc.elements()});
  }
  return result;
}

std::vector<std::string> warnings_of(const InitialWeights& taken) {
  std::vector<std::string> lines;
  const std::string file = taken.file.string();
  if (!taken.missing.empty()) {
    lines.push_back(file + " does not have, so that they begin with initial values: " +
                    safetensors::names_text(taken.missing));
  }
  if (!taken.unused.empty()) {
    lines.push_back(file +
                    " has what this network has not: " + safetensors::names_text(taken.unused));
  }
  return lines;
}

}  // namespace duet
