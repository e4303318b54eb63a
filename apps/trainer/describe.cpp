// `trainer describe`: a layer type, or an implementation in all layer types that have it.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "commands.h"
#include "core/error.h"
#include "core/program.h"
#include "implementation_comments.h"
#include "layers/layers.h"
#include "net/expand.h"
#include "net/table.h"
#include "user_kernels/user_kernels.h"

namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

struct Key {
  std::string name, value;
  bool required;
};

// A value as a flow of YAML.
std::string text_of(const duet::ConfigNode& node) {
  if (node.kind != duet::ConfigNode::Kind::kList) return node.scalar;
  std::vector<std::string> items;
  for (const duet::ConfigNode& item : node.items) items.push_back(text_of(item));
  return "[" + duet::join(items) + "]";
}

// What the layer reads of a map with these values, defaults written in; and the mistakes in it.
struct Read {
  duet::ConfigNode node = duet::ConfigNode::map();
  std::vector<std::string> asked;
  std::string mistakes;
};
Read read_keys(const duet::LayerType& type, const std::map<std::string, std::string>& values) {
  Read read;
  for (const auto& [key, value] : values) {
    read.node.at_or_add(key) = duet::ConfigNode::of(value);
  }
  duet::ConfigErrors errors("");
  duet::ConfigReader reader(read.node, "layer", errors);
  type.make(reader);
  read.asked = reader.asked();
  try {
    errors.raise_if_any();
  } catch (const duet::Error& error) {
    read.mistakes = error.what();
  }
  return read;
}

// The keys that the layer reads, with their defaults. Of those without one the required ones are
// named in the errors; a default that is the value of a required key changes with that.
std::vector<Key> keys_of(const duet::LayerType& type) {
  const Read none = read_keys(type, {});
  std::map<std::string, std::string> small, large;
  for (const std::string& name : none.asked) {
    if (none.mistakes.find("key '" + name + "' is missing") == std::string::npos) continue;
    small[name] = std::to_string(2 + small.size());
    large[name] = std::to_string(50 + large.size());
  }
  const Read first = read_keys(type, small), second = read_keys(type, large);
  std::vector<Key> keys;
  for (const std::string& name : none.asked) {
    if (small.count(name)) {
      keys.push_back({name, "required", true});
      continue;
    }
    const duet::ConfigNode *value = first.node.find(name), *other = second.node.find(name);
    std::string text = value ? text_of(*value) : "optional";
    if (value && other && text != text_of(*other)) {
      for (const auto& [source, given] : small) {
        if (text.find(given) != std::string::npos) text = "as " + source;
      }
    }
    keys.push_back({name, text, false});
  }
  return keys;
}

// A layer of the type as networks have it, in that arithmetic and layout: required keys have the
// first values with which it fits one of some ordinary inputs. Nothing where none fits.
std::unique_ptr<duet::Layer> sample_of(const duet::LayerType& type, duet::Math math,
                                       duet::Layout layout) {
  const duet::DType dtype = duet::storage_of(math);
  const duet::TensorDesc images{{64, 64, 14, 14}, dtype, layout}, features{{64, 256}, dtype};
  const std::vector<std::vector<duet::TensorDesc>> inputs = {
      {images}, {images, images}, {features}, {features, features}};
  const std::vector<std::string> values = {"64", "3", "2", "nchw", "nhwc"};
  const std::string pools_by = "pool_kernel";  // of blocks, which are for windows of 2x2
  std::vector<std::string> required;
  bool pools = false;
  for (const Key& key : keys_of(type)) {
    if (key.name == pools_by) pools = true;
    if (key.required && key.name != pools_by) required.push_back(key.name);
  }
  size_t combinations = 1;
  for (size_t i = 0; i < required.size(); ++i) combinations *= values.size();
  for (size_t number = 0; number < combinations; ++number) {
    duet::ConfigNode node = duet::ConfigNode::map();
    if (pools) node.at_or_add(pools_by) = duet::ConfigNode::of("2");
    for (size_t i = 0, rest = number; i < required.size(); ++i, rest /= values.size()) {
      node.at_or_add(required[i]) = duet::ConfigNode::of(values[rest % values.size()]);
    }
    duet::ConfigErrors errors("");
    duet::ConfigReader reader(node, "layer", errors);
    const std::unique_ptr<duet::Layer> layer = type.make(reader);
    if (!errors.empty()) continue;
    for (auto each : inputs) {
      const duet::TensorDesc x = each[0];
      for (const auto field : layer->fields()) each.push_back(duet::field_beside(x, field));
      try {
        std::unique_ptr<duet::Layer> bound = layer->clone();
        bound->bind(each, {.math = math});
        return bound;
      } catch (const std::exception&) {  // it takes others
      }
    }
  }
  return nullptr;
}

/// What an implementation can do of a layer in one arithmetic and layout.
struct Support {
  std::string layer, problem, math, layout, passes;
  std::vector<std::string> reasons;  // why not all of them
};

std::vector<Support> support_of(const duet::LayerType& type, std::string_view id) {
  std::vector<Support> all;
  for (const duet::Math math : {duet::Math::kFP32, duet::Math::kTF32, duet::Math::kBF16}) {
    for (const duet::Layout layout : {duet::Layout::kNCHW, duet::Layout::kNHWC}) {
      const std::unique_ptr<duet::Layer> layer = sample_of(type, math, layout);
      if (!layer) continue;
      const bool images = layer->inputs()[0].shape.rank() == 4;
      if (!images && layout == duet::Layout::kNHWC) continue;
      Support found{std::string(type.name),
                    layer->problem_text(),
                    std::string(to_string(math)),
                    images ? std::string(to_string(layout)) : "",
                    "",
                    {}};
      std::vector<std::string> passes;
      for (const duet::Pass pass : layer->passes()) {
        const auto reason = layer->unsupported(id, pass);
        if (!reason) {
          passes.emplace_back(to_string(pass));
        } else if (std::find(found.reasons.begin(), found.reasons.end(), *reason) ==
                   found.reasons.end()) {
          found.reasons.push_back(*reason);
        }
      }
      found.passes = passes.empty()                            ? "no"
                     : passes.size() == layer->passes().size() ? "yes"
                                                               : duet::join(passes);
      all.push_back(found);
    }
  }
  return all;
}

// Layouts in which the same is supported share a row.
std::string support_table(const std::vector<std::pair<std::string, Support>>& rows,
                          const std::string& first) {
  Rows table = {{first, "math", "layout", "supported", "why not"}};
  for (const auto& [name, found] : rows) {
    std::string& last = table.back()[2];
    std::vector<std::string> row = {name, found.math, last, found.passes,
                                    duet::join(found.reasons, "; ")};
    if (row == table.back()) {
      last += ", " + found.layout;
    } else {
      row[2] = found.layout;
      table.push_back(row);
    }
  }
  return duet::format_table(table);
}

json support_json(const std::vector<std::pair<std::string, Support>>& rows,
                  const std::string& first) {
  json list = json::array();
  for (const auto& [name, found] : rows) {
    list.push_back({{first, name},
                    {"problem", found.problem},
                    {"math", found.math},
                    {"layout", found.layout},
                    {"supported", found.passes},
                    {"reasons", found.reasons}});
  }
  return list;
}

void describe_layer(const duet::LayerType& type, bool as_json) {
  Rows keys = {{"key", "default"}};
  json object = {{"layer", type.name}, {"summary", type.summary}, {"keys", json::object()}};
  for (const Key& key : keys_of(type)) {
    keys.push_back({key.name, key.value});
    object["keys"][key.name] = key.value;
  }
  std::vector<std::pair<std::string, Support>> rows;
  for (const duet::ImplInfo& info : type.implementations()) {
    for (Support& found : support_of(type, info.id)) {
      rows.emplace_back(info.id, std::move(found));
    }
  }
  object["implementations"] = support_json(rows, "implementation");
  if (as_json) {
    std::printf("%s\n", duet::json_text(object).c_str());
    return;
  }
  std::string text = std::string(type.name) + ": " + std::string(type.summary) + "\n\n" +
                     (keys.size() > 1 ? duet::format_table(keys) : "no keys of its own\n");
  if (!rows.empty()) {
    text += "\nof " + rows[0].second.problem + " and its likes:\n" +
            support_table(rows, "implementation");
  }
  std::fputs(text.c_str(), stdout);
}

// "custom_naive" of "conv2d/ladder/conv2d_custom_naive.cu".
std::string id_of(const std::filesystem::path& file) {
  const std::string folder = file.begin()->string(), name = file.stem().string();
  return name.starts_with(folder + "_") ? name.substr(folder.size() + 1) : "";
}

// Returns true for a file of an implementation: its comment begins with the id ("TYPE cpu_reference,
// custom_composed: ..."), or the file has its name.
bool is_of(const ImplementationComment& comment, const std::string& id) {
  std::string head = comment.text.substr(0, comment.text.find_first_of(":."));
  std::replace_if(
      head.begin(), head.end(), [](char c) { return c == ',' || c == '\n'; }, ' ');
  std::istringstream words(head);
  for (std::string word; words >> word;) {
    if (word == id) return true;
  }
  return id_of(comment.file) == id;
}

// The comment that a file of kernels begins with.
std::string head_of(const std::string& source) {
  std::istringstream lines(source);
  std::string head;
  for (std::string line; std::getline(lines, line) && line.starts_with("//");) {
    head += line.substr(std::min<size_t>(line.size(), line.starts_with("// ") ? 3 : 2)) + "\n";
  }
  return head;
}

// False if there is no such implementation in this build, nor a file of its name.
bool describe_implementation(const std::string& id, bool as_json) {
  std::vector<std::pair<std::string, Support>> rows;
  for (const duet::LayerType* type : duet::layer_types()) {
    for (const duet::ImplInfo& info : type->implementations()) {
      if (info.id != id) continue;
      for (Support& found : support_of(*type, id)) rows.emplace_back(type->name, std::move(found));
    }
  }
  json files = json::array();
  std::string text;
  for (const ImplementationComment& comment : kImplementationComments) {
    if (!is_of(comment, id)) continue;
    files.push_back({{"file", "framework/layers/" + comment.file}, {"text", comment.text}});
    text += "framework/layers/" + comment.file + ":\n" + comment.text + "\n";
  }
  for (const auto& own : duet::loaded_kernels()) {
    if (own->file().id != id) continue;
    const std::string place = own->file().path.string(), head = head_of(own->file().source);
    files.push_back({{"file", place}, {"text", head}, {"source", own->file().hash}});
    text += place + ", source " + own->file().hash + ":\n" + head + "\n";
  }
  if (rows.empty() && files.empty()) return false;
  if (as_json) {
    const json object = {
        {"implementation", id}, {"files", files}, {"layers", support_json(rows, "layer")}};
    std::printf("%s\n", duet::json_text(object).c_str());
    return true;
  }
  text += rows.empty() ? "not in this build, which has no CUDA\n" : support_table(rows, "layer");
  std::fputs(text.c_str(), stdout);
  return true;
}

}  // namespace

void describe(const std::string& name, bool as_json) {
  if (const duet::LayerType* type = duet::find_layer_type(name)) {
    return describe_layer(*type, as_json);
  }
  if (describe_implementation(name, as_json)) return;
  std::vector<std::string> known;
  for (const duet::CompositeType& type : duet::composite_types()) {
    known.push_back(type.name);
    if (type.name != name) continue;
    if (as_json) {
      const json object = {{"layer", name}, {"summary", type.summary}};
      std::printf("%s\n", duet::json_text(object).c_str());
    } else {
      std::printf("%s: %s\n", name.c_str(), type.summary.c_str());
    }
    return;
  }
  for (const duet::LayerType* type : duet::layer_types()) {
    known.emplace_back(type->name);
    duet::add_ids(*type, &known);
  }
  throw duet::ConfigError("describe: there is no layer and no implementation '" + name + "'" +
                          duet::did_you_mean(name, known) + "; '" +
                          duet::as_started("trainer list layers") + "' and '" +
                          duet::as_started("trainer list impls") + "' name them");
}
