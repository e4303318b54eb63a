#include "train/checkpoint/features_weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/printable.h"
#include "train/checkpoint/safetensors.h"
#include "train/run/run_folder.h"

namespace duet {
namespace {

using Shapes = std::map<std::string, Shape>;  // by the names in the file

std::string path_of(const FeaturesSpec& network) {
  return "features: " + network.name + ": weights";
}

// "conv1.weight" of "vgg.conv1.weight".
std::string name_in_file(const FeaturesSpec& network, const std::string& name) {
  return name.substr(network.name.size() + 1);
}

// Throws DataError if the file has not what is wanted.
void check_file(const std::filesystem::path& path, const safetensors::File& file,
                const Shapes& wanted) {
  std::vector<std::string> wrong, missing, found;
  for (const auto& [name, shape] : wanted) {
    const std::string misfit = safetensors::misfit(file, name, shape);
    if (!misfit.empty()) {
      wrong.push_back(misfit);
    } else if (!file.find(name)) {
      missing.push_back(name);
    }
  }
  for (const safetensors::Entry& entry : file.entries()) found.push_back(printable(entry.name));
  if (!wrong.empty()) {
    throw DataError(path.string() + ": its weights do not fit: " + join(wrong, "; "));
  }
  if (missing.empty()) return;
  throw DataError(path.string() + ": has no " + safetensors::names_text(missing) +
                  "; it has: " + (found.empty() ? "nothing" : safetensors::names_text(found)));
}

// Calls `use` with the file's path; an error becomes one at the key.
template <class Use>
void with_file(const FeaturesSpec& network, ConfigErrors& errors, const Use& use) {
  if (network.weights.empty()) return;
  try {
    use(checkpoint_named(path_of(network), network.weights));
  } catch (const ConfigError& error) {  // names the key
    errors.add(network.mark, error.what());
  } catch (const DataError& error) {
    errors.add(network.mark, path_of(network) + ": " + error.what());
  }
}

}  // namespace

void take_features_weights(const NetSpec& spec, Weights& weights, ConfigErrors& errors) {
  for (const FeaturesSpec& network : spec.features) {
    with_file(network, errors, [&](const std::filesystem::path& path) {
      Shapes wanted;
      std::vector<const Parameter*> parameters;
      for (const Parameter& parameter : weights.parameters()) {
        if (parameter.features != network.name) continue;
        wanted[name_in_file(network, parameter.name)] = parameter.spec.desc.shape;
        parameters.push_back(&parameter);
      }
      const safetensors::File file = safetensors::read(
          path, [&](const safetensors::File& described) { check_file(path, described, wanted); });
      for (const Parameter* parameter : parameters) {
        const std::string name = name_in_file(network, parameter->name);
        const auto* const values = static_cast<const float*>(file.find(name)->data);
        const auto* const end = values + parameter->spec.desc.elements();
        if (!std::all_of(values, end, [](float value) { return std::isfinite(value); })) {
          throw DataError(path.string() + ": '" + name + "' holds values that are not finite");
        }
        weights.write(*parameter, {values, end});
      }
    });
  }
}

void check_features_weights(const NetSpec& spec, const std::vector<ResolvedLayer>& layers,
                            ConfigErrors& errors) {
  for (const FeaturesSpec& network : spec.features) {
    with_file(network, errors, [&](const std::filesystem::path& path) {
      Shapes wanted;
      for (const ResolvedLayer& layer : layers) {
        if (layer.features != network.name) continue;
        for (const ParameterSpec& parameter : layer.layer->parameters()) {
          const std::string name = layer.parameter_prefix + "." + parameter.name;
          wanted[name_in_file(network, name)] = parameter.desc.shape;
        }
      }
      check_file(path, safetensors::describe(path), wanted);
    });
  }
}

}  // namespace duet
