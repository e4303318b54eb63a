// `trainer explain`: the library's calls of a layer as a program, or those of a whole step as a list.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "commands.h"
#include "core/error.h"
#include "core/output_files.h"
#include "core/write_file.h"
#include "explain/program.h"
#include "explain/step_trace.h"

using namespace duet;

namespace {

std::vector<std::string> cudnn_ids(const Layer& layer) {
  std::vector<std::string> ids;
  for (const ImplInfo& info : layer.implementations()) {
    if (family_of(info.id) == Family::kCudnn) ids.emplace_back(info.id);
  }
  return ids;
}

/// The layer of that name, or the block that it is a part of.
const ResolvedLayer& find_layer(const std::vector<ResolvedLayer>& layers, const std::string& name) {
  std::vector<std::string> names, parts;
  for (const ResolvedLayer& layer : layers) {
    std::istringstream all(layer.name);
    for (std::string part; std::getline(all, part, '+');) {
      if (part == name) return layer;
      parts.push_back(part);
    }
    if (layer.name == name) return layer;
    names.push_back(layer.name);
  }
  const std::string there = "the network has " + join(names);
  if (name.empty()) throw ConfigError("explain: --layer is missing; " + there);
  throw ConfigError("explain: no layer '" + name + "'" + did_you_mean(name, parts) + "; " + there);
}

const PassChoice& find_pass(const ResolvedLayer& layer, const std::string& name) {
  std::vector<std::string> names;
  for (const PassChoice& choice : layer.passes) {
    if (to_string(choice.pass) == name) return choice;
    names.emplace_back(to_string(choice.pass));
  }
  throw ConfigError("explain: layer " + layer.name + " (" + std::string(layer.layer->type()) +
                    ") runs no pass '" + name + "'" + did_you_mean(name, names) +
                    (names.empty() ? "; it runs none" : "; it runs " + join(names)));
}

void check_family(const ResolvedLayer& layer, const PassChoice& choice) {
  const bool chosen = choice.id != kAuto;
  if (chosen && family_of(choice.id) == Family::kCudnn) return;
  const std::vector<std::string> ids = cudnn_ids(*layer.layer);
  throw ConfigError(
      "explain: layer " + layer.name + " runs " + std::string(to_string(choice.pass)) +
      (chosen ? " by " + choice.id + ", which is no implementation of the cudnn family"
              : " by what 'auto' will choose") +
      "; explain shows the calls to NVIDIA's libraries. " +
      (ids.empty() ? "There is no such implementation of " + std::string(layer.layer->type())
                   : "Take --backend with one of " + join(ids)));
}

/// Writes the program and its file of values, or neither.
void write_both(const ProgramTitle& title, const std::string& text,
                const std::vector<double>& values) {
  write_file(title.values, std::string(reinterpret_cast<const char*>(values.data()),
                                       values.size() * sizeof(double)));
  try {
    write_file(title.file, text);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(title.values, ignored);
    throw;
  }
  std::printf("wrote %s and %s; the program's first lines say how it is compiled\n",
              title.file.c_str(), title.values.c_str());
}

}  // namespace

void explain(const ExplainOptions& options) {
  if (!built_with_cuda()) {
    throw UnsupportedError(
        "explain: this build has no CUDA, and so no cudnn family; build with the CUDA toolkit and "
        "cuDNN");
  }
  Setup setup = read_setup(options.setup);
  if (options.trace) {
    if (!recorder_is_loaded()) restart_with_recorder();
    std::fputs(step_trace(setup).c_str(), stdout);
    return;
  }
  const ResolvedLayer& layer = find_layer(setup.layers, options.layer);
  const PassChoice& choice = find_pass(layer, options.pass);
  check_family(layer, choice);
  const std::string file =
      options.out.empty() ? layer.name + "_" + options.pass + ".cpp" : options.out;
  const std::string values = std::filesystem::path(file).replace_extension(".values");
  if (!options.out.empty()) {
    check_outputs({{"--out", file}, {"the values of --out " + file + ",", values}});
    if (!is_replaced(file)) {
      throw ConfigError("--out " + file +
                        ": is no file, beside which the values could be written; without --out the "
                        "program is printed");
    }
  }
  if (!recorder_is_loaded()) restart_with_recorder();
  const RecordedLayer recorded =
      record_layer(layer.layer, choice.id, choice.pass, workspace_limit(setup.spec));
  const ProgramData data = program_data(recorded);
  const ProgramTitle title = {layer.name + " of " + setup.spec.name, file, values};
  const std::string text = program_text(recorded, data, title);
  if (options.out.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  write_both(title, text, program_values(recorded, data));
}
