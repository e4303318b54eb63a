#include "net/table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/number_text.h"

namespace duet {
namespace {

struct Cells {
  std::string passes, id, workspace, detail, measured;
};

std::string id_text(const PassChoice& choice) {
  if (!choice.instead_of.empty()) return choice.id + " (no " + choice.instead_of + ")";
  return choice.id + (choice.shared ? " (shared)" : "");
}

std::string microseconds_text(double us) {
  return printed("%.*f", us < 10 ? 2 : us < 100 ? 1 : 0, us);
}

// "4.40 us; cudnn 22.3; custom_naive far slower; custom_mine failed the check".
std::string measured_text(const PassChoice& choice) {
  std::vector<std::string> others, slower, failed;
  std::string text;
  for (const AutoCandidate& candidate : choice.candidates) {
    const std::string us = microseconds_text(candidate.microseconds);
    if (choice.id == kAuto) {
      others.push_back(candidate.id);
    } else if (!candidate.fault.empty()) {
      failed.push_back(candidate.id);
    } else if (candidate.far_slower) {
      slower.push_back(candidate.id);
    } else if (candidate.id == choice.id) {
      text = us + " us";
    } else {
      others.push_back(candidate.id + " " + us);
    }
  }
  if (choice.id == kAuto && !others.empty()) return "to be measured: " + join(others);
  if (!others.empty()) text += "; " + join(others);
  if (!slower.empty()) text += "; " + join(slower) + " far slower";
  if (!failed.empty()) text += "; " + join(failed) + " failed the check";
  return text;
}

// A pass that never runs is left out; but not the only backward pass of a layer, beside whose
// implementation there is nothing to say.
bool is_shown(const ResolvedLayer& layer, Pass pass) {
  return runs(layer, pass) || (pass == Pass::kBackward && !layer.layer->is_view(pass));
}

// A row for each pass that runs; one row "all" if they do not differ.
std::vector<Cells> cells_of(const ResolvedLayer& layer, const Net::Node* node) {
  std::vector<Cells> rows;
  for (size_t i = 0; i < layer.passes.size(); ++i) {
    const PassChoice& choice = layer.passes[i];
    if (!is_shown(layer, choice.pass)) continue;
    Cells cells{std::string(to_string(choice.pass)), id_text(choice), "", "",
                measured_text(choice)};
    if (node) {
      const Net::Node::Step& step = node->steps[i];
      cells.workspace = format_bytes(step.op->workspace_bytes(choice.pass));
      cells.detail = node->detail(step);
    }
    rows.push_back(cells);
  }
  if (rows.empty()) return {{"-", "shared", "", "", ""}};  // a view: nothing to choose
  const bool alike = std::all_of(rows.begin(), rows.end(), [&](const Cells& cells) {
    return cells.id == rows[0].id && cells.workspace == rows[0].workspace &&
           cells.detail == rows[0].detail && cells.measured == rows[0].measured;
  });
  if (!alike) return rows;
  rows.resize(1);
  rows[0].passes = "all";
  return rows;
}

std::vector<std::string> inputs_of(const std::vector<ResolvedLayer>& layers, size_t number) {
  std::vector<std::string> names;
  for (const InputSource& input : named_inputs(layers[number])) {
    names.push_back(input.layer == kField ? input.field
                                          : layers[static_cast<size_t>(input.layer)].name);
  }
  return names;
}

// Whether each layer reads the one before it, and nothing else.
bool is_chain(const std::vector<ResolvedLayer>& layers) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::vector<InputSource> inputs = named_inputs(layers[i]);
    if (inputs.size() != 1 || inputs[0].layer != static_cast<int>(i) - 1) return false;
  }
  return true;
}

int64_t parameters_of(const Layer& layer) {
  int64_t count = 0;
  for (const ParameterSpec& spec : layer.parameters()) {
    if (spec.trained()) count += spec.desc.elements();
  }
  return count;
}

std::string parameters_text(const ResolvedLayer& layer) {
  const int64_t count = parameters_of(*layer.layer);
  return format_count(count) + (layer.frozen && count > 0 ? " frozen" : "");
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      line.append(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string format_bytes(size_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes < 1024) return std::to_string(bytes) + " B";
  if (bytes < (1u << 20)) return printed("%.1f KiB", size / 1024);
  if (bytes < (10ull << 30)) return printed("%.1f MiB", size / (1 << 20));
  return printed("%.1f GiB", size / (1 << 30));
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > (count < 0); i -= 3) {
    digits.insert(static_cast<size_t>(i), ",");
  }
  return digits;
}

int64_t parameter_count(const std::vector<ResolvedLayer>& layers) {
  int64_t count = 0;
  std::set<std::string> counted;  // layers of a features network share theirs
  for (const ResolvedLayer& layer : layers) {
    if (counted.insert(layer.parameter_prefix).second) count += parameters_of(*layer.layer);
  }
  return count;
}

int64_t frozen_parameter_count(std::vector<ResolvedLayer> layers) {
  std::erase_if(layers, [](const ResolvedLayer& layer) { return !layer.frozen; });
  return parameter_count(layers);
}

std::string network_table(const std::vector<ResolvedLayer>& layers, const Net* net) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "type", "inputs", "output", "parameters", "pass", "implementation"}};
  const bool chain = is_chain(layers);
  if (chain) rows[0].erase(rows[0].begin() + 2);
  if (net) rows[0].insert(rows[0].end(), {"workspace", "detail"});
  const bool measured = std::any_of(layers.begin(), layers.end(), [](const ResolvedLayer& layer) {
    return std::any_of(layer.passes.begin(), layer.passes.end(),
                       [](const PassChoice& choice) { return !choice.candidates.empty(); });
  });
  if (measured) rows[0].push_back("auto");
  for (size_t i = 0; i < layers.size(); ++i) {
    const ResolvedLayer& layer = layers[i];
    const TensorDesc& y = layer.layer->outputs()[0];
    std::vector<std::string> row = {
        layer.name, std::string(layer.layer->type()),
        y.shape.to_string() + (y.shape.rank() == 4 ? " " + std::string(to_string(y.layout)) : ""),
        parameters_text(layer)};
    if (!chain) row.insert(row.begin() + 2, join(inputs_of(layers, i)));
    for (const Cells& cells : cells_of(layer, net ? &net->nodes()[i] : nullptr)) {
      std::vector<std::string> line = row;
      line.insert(line.end(), {cells.passes, cells.id});
      if (net) line.insert(line.end(), {cells.workspace, cells.detail});
      if (measured) line.push_back(cells.measured);
      rows.push_back(line);
      row.assign(row.size(), "");
    }
  }
  std::string text = format_table(rows) + "parameters: " + format_count(parameter_count(layers));
  if (const int64_t frozen = frozen_parameter_count(layers)) {
    text += ", of which " + format_count(frozen) + (frozen == 1 ? " is" : " are") + " frozen";
  }
  text += "\n";
  if (net) {
    text += "activations and their gradients: " + format_bytes(net->activation_bytes()) + "; " +
            format_bytes(net->unshared_bytes()) + " if none shared memory\n";
  }
  for (const ResolvedLayer& layer : layers) {
    if (!layer.unfused.empty()) text += "not fused: " + layer.unfused + "\n";
  }
  return text;
}

nlohmann::json network_json(const std::vector<ResolvedLayer>& layers, const Net* net) {
  nlohmann::json list = nlohmann::json::array();
  for (size_t i = 0; i < layers.size(); ++i) {
    const ResolvedLayer& layer = layers[i];
    nlohmann::json entry = {{"name", layer.name},
                            {"type", layer.layer->type()},
                            {"inputs", inputs_of(layers, i)},
                            {"problem", layer.layer->problem_text()},
                            {"output", layer.layer->outputs()[0].to_string()},
                            {"parameters", parameters_of(*layer.layer)},
                            {"passes", nlohmann::json::array()}};
    if (layer.frozen) entry["frozen"] = true;
    if (!layer.unfused.empty()) entry["unfused"] = layer.unfused;
    for (size_t j = 0; j < layer.passes.size(); ++j) {
      const PassChoice& choice = layer.passes[j];
      if (!is_shown(layer, choice.pass)) continue;
      nlohmann::json pass = {{"pass", to_string(choice.pass)},
                             {"implementation", choice.id},
                             {"shared", choice.shared}};
      if (!choice.instead_of.empty()) pass["instead_of"] = choice.instead_of;
      for (const AutoCandidate& candidate : choice.candidates) {
        nlohmann::json of_candidate = {{"implementation", candidate.id}};
        if (candidate.microseconds > 0) of_candidate["us"] = candidate.microseconds;
        if (candidate.far_slower) of_candidate["far_slower"] = true;
        if (!candidate.fault.empty()) of_candidate["fault"] = candidate.fault;
        pass["auto"].push_back(of_candidate);
      }
      if (net) {
        const Net::Node& node = net->nodes()[i];
        const BoundOp& op = *node.steps[j].op;
        pass["workspace_bytes"] = op.workspace_bytes(choice.pass);
        pass["detail"] = node.detail(node.steps[j]);
        pass["calls"] = op.calls(choice.pass);
      }
      entry["passes"].push_back(pass);
    }
    list.push_back(entry);
  }
  return list;
}

}  // namespace duet
