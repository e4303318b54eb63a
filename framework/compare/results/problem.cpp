#include "compare/results/problem.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "core/mixed_labels.h"
#include "layers/layers.h"

namespace duet {
namespace {

const std::vector<std::string> kInputWords = {"n", "c", "h", "w", "in", "x"};
const std::vector<std::string> kSettingWords = {"layout", "math", "dtype", "labels"};
const std::vector<std::string> kDerivedWords = {"p", "q"};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "2x1" as {2, 1}; nothing if it is not whole numbers.
std::optional<std::vector<int64_t>> sizes_of(const std::string& text) {
  std::vector<int64_t> sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || next == at) return {};
    sizes.push_back(size);
    if (next == end) return sizes;
    if (*next != 'x') return {};
    at = next + 1;
  }
}

// A number, sizes joined by 'x', or numbers joined by ':'.
ConfigNode node_of(const std::string& value) {
  if (value.find(':') != std::string::npos) {
    ConfigNode list{.kind = ConfigNode::Kind::kList};
    std::istringstream items(value);
    for (std::string item; std::getline(items, item, ':');) {
      list.items.push_back(ConfigNode::of(item));
    }
    return list;
  }
  const auto sizes = sizes_of(value);
  if (!sizes || sizes->size() < 2) return ConfigNode::of(value);
  ConfigNode list{.kind = ConfigNode::Kind::kList};
  for (int64_t size : *sizes) list.items.push_back(ConfigNode::of(std::to_string(size)));
  return list;
}

/// Takes the words apart, one kind after the other.
class Binder {
 public:
  Binder(const LayerType& type, const ProblemWords& words) : type_(type) {
    for (const ProblemWord& word : words) left_[word.name] = word.values.at(0);
  }

  std::unique_ptr<Layer> bind() {
    read_known_keys();
    const auto dtype = take("dtype");
    if (dtype == "bfloat16" && !left_.count("math")) left_["math"] = "bf16";
    const LayerOptions options = take_options();
    const Layout layout =
        take_choice("layout", {"nchw", "nhwc"}) == "nhwc" ? Layout::kNHWC : Layout::kNCHW;
    const DType stored = storage_of(options.math);
    if (dtype && *dtype != to_string(stored)) {
      fail("dtype=" + *dtype + ": with math=" + std::string(to_string(options.math)) +
           " implementations are measured in " + std::string(to_string(stored)) + " alone");
    }
    const bool mixed = take_choice("labels", {"single", "mixed"}) == "mixed";
    ConfigNode keys = take_keys();
    std::vector<TensorDesc> inputs = take_inputs(layout);
    for (TensorDesc& input : inputs) input.dtype = stored;
    refuse_unknown(kDerivedWords);

    ConfigErrors errors("problem");
    ConfigReader reader(keys, std::string(type_.name), errors);
    auto layer = type_.make(reader);
    reader.finish();
    try {
      errors.raise_if_any();
    } catch (const ConfigError& e) {
      fail_in_words(e.what());
    }
    if (mixed && !layer->takes_labels()) fail("labels=mixed: it takes no labels");
    const TensorDesc x = inputs[0];
    for (const std::string_view field : layer->fields()) {
      inputs.push_back(mixed ? mixed_labels_desc(x.shape[0]) : field_beside(x, field));
    }
    try {
      layer->bind(inputs, options);
    } catch (const ShapeError& e) {
      fail(e.what());
    }
    check_derived(*layer);
    return layer;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw ConfigError(std::string(type_.name) + ": " + message);
  }

  std::optional<std::string> take(const std::string& name) {
    const auto found = left_.find(name);
    if (found == left_.end()) return {};
    std::string value = found->second;
    left_.erase(found);
    return value;
  }

  std::string take_choice(const std::string& name, const std::vector<std::string>& choices) {
    const std::string value = take(name).value_or(choices[0]);
    if (contains(choices, value)) return value;
    fail(name + "=" + value + ": expected " + join(choices, " or ") + did_you_mean(value, choices));
  }

  int64_t size(const std::string& name, const std::string& value) const {
    const auto sizes = sizes_of(value);
    if (sizes && sizes->size() == 1 && (*sizes)[0] >= 1 &&
        (*sizes)[0] <= ConfigReader::kMaxInteger) {
      return (*sizes)[0];
    }
    fail(name + "=" + value + ": expected a whole number from 1 to 2147483647");
  }

  // A layer made of nothing asks for all its keys.
  void read_known_keys() {
    ConfigNode empty = ConfigNode::map();
    ConfigErrors ignored("");
    ConfigReader reader(empty, "", ignored);
    type_.make(reader);
    keys_ = reader.asked();
  }

  LayerOptions take_options() {
    return {.math = math_from(take_choice("math", math_names())), .seed = 1};
  }

  ConfigNode take_keys() {
    ConfigNode node = ConfigNode::map();
    std::map<std::string, std::vector<std::string>> pairs;  // by key: values by axis
    for (const ShapeWord& word : type_.shape_words) {
      const auto value = take(std::string(word.word));
      if (!value) continue;
      const std::string key(word.key);
      if (node.find(key) || left_.count(key)) {
        fail("'" + std::string(word.word) + "' and '" + key + "' are the same; give one of them");
      }
      if (word.axis < 0) {
        node.at_or_add(key) = node_of(*value);
      } else {
        size(std::string(word.word), *value);
        pairs[key].resize(2);
        pairs[key][word.axis] = *value;
      }
    }
    for (const auto& [key, values] : pairs) {
      if (values[0].empty() || values[1].empty()) fail("of " + words_for(key) + " one is missing");
      if (node.find(key)) fail(words_for(key) + " and another word say the same twice");
      node.at_or_add(key) = node_of(values[0] + "x" + values[1]);
    }
    for (const std::string& key : keys_) {
      if (contains(kInputWords, key)) continue;
      if (const auto value = take(key)) node.at_or_add(key) = node_of(*value);
    }
    return node;
  }

  std::vector<TensorDesc> take_inputs(Layout layout) {
    const auto n = take("n"), c = take("c"), h = take("h"), w = take("w"), in = take("in"),
               x = take("x");
    if (x) {
      if (c || h || w || in) fail("x=" + *x + " already says c, h, w or in; give one or the other");
      std::vector<TensorDesc> inputs;
      std::istringstream parts(*x);
      for (std::string part; std::getline(parts, part, '+');) {
        inputs.push_back(from_x(part, n, layout));
      }
      return inputs;
    }
    const char* const expected =
        "expected n, c, h and w of images, n and in (or n and c) of features, or x=64x1x28x28";
    if (!n || !(c || in) || (c && in) || (h.has_value() != w.has_value()) || (h && !c)) {
      std::vector<std::string> given;
      for (const auto& [name, value] :
           {std::pair("n", n), {"c", c}, {"h", h}, {"w", w}, {"in", in}}) {
        if (value) given.push_back(name);
      }
      refuse_unknown(kDerivedWords);
      fail("the input is incomplete: " + std::string(expected) + "; found " +
           (given.empty() ? "none of them" : join(given)));
    }
    const int64_t rows = size("n", *n);
    if (in) return {{{rows, size("in", *in)}}};
    if (!h) return {{{rows, size("c", *c)}}};
    return {{{rows, size("c", *c), size("h", *h), size("w", *w)}, DType::kFloat32, layout}};
  }

  TensorDesc from_x(const std::string& x, const std::optional<std::string>& n,
                    Layout layout) const {
    auto sizes = sizes_of(x);
    const bool good =
        sizes && sizes->size() <= 4 && std::all_of(sizes->begin(), sizes->end(), [](int64_t s) {
          return s >= 1 && s <= ConfigReader::kMaxInteger;
        });
    if (!good) fail("x=" + x + ": expected one to four sizes, e.g. x=64x256 or x=64x1x28x28");
    if (n) (*sizes)[0] = size("n", *n);
    const auto& s = *sizes;
    switch (s.size()) {
      case 1:
        return {{s[0]}};
      case 2:
        return {{s[0], s[1]}};
      case 3:
        return {{s[0], s[1], s[2]}};
      default:
        return {{s[0], s[1], s[2], s[3]}, DType::kFloat32, layout};
    }
  }

  // "'r' and 's'" of the key "kernel"
  std::string words_for(const std::string& key) const {
    std::vector<std::string> words;
    for (const ShapeWord& word : type_.shape_words) {
      if (word.key == key) words.push_back("'" + std::string(word.word) + "'");
    }
    return join(words, " and ");
  }

  std::vector<std::string> known_words() const {
    std::vector<std::string> known = {"n", "c", "h", "w", "in", "x"};
    for (const ShapeWord& word : type_.shape_words) known.emplace_back(word.word);
    known.insert(known.end(), keys_.begin(), keys_.end());
    known.insert(known.end(), kSettingWords.begin(), kSettingWords.end());
    return known;
  }

  void refuse_unknown(const std::vector<std::string>& but) const {
    for (const auto& [name, value] : left_) {
      if (contains(but, name)) continue;
      fail("unknown word '" + name + "'" + did_you_mean(name, known_words()) +
           "; known: " + join(known_words()));
    }
  }

  // Messages of the layer speak of its keys; here they are words.
  [[noreturn]] void fail_in_words(const std::string& text) const {
    std::string message = text;
    const std::string prefix = "problem: ";
    for (size_t at; (at = message.find(prefix)) != std::string::npos;) {
      message.erase(at, prefix.size());
    }
    std::map<std::string, bool> told;
    for (const ShapeWord& word : type_.shape_words) {
      const std::string key(word.key);
      const bool named = message.find("'" + key + "'") != std::string::npos ||
                         message.find(" " + key + ":") != std::string::npos;
      if (!named || told[key]) continue;
      told[key] = true;
      message += "; '" + key + "' is " + words_for(key) + " here";
    }
    throw ConfigError(message);
  }

  void check_derived(const Layer& layer) {
    const ProblemWords found = split_problem(layer.problem_text());
    for (const auto& left : left_) {
      const std::string &name = left.first, &value = left.second;
      const auto word = std::find_if(found.begin(), found.end(),
                                     [&](const ProblemWord& w) { return w.name == name; });
      if (word == found.end()) refuse_unknown({});
      if (word->values[0] == value) continue;
      fail(name + "=" + value + " does not follow from the other sizes: it is " + name + "=" +
           word->values[0] + "; leave it out or correct them");
    }
  }

  const LayerType& type_;
  std::map<std::string, std::string> left_;
  std::vector<std::string> keys_;
};

}  // namespace

const LayerType& layer_type(std::string_view name) {
  if (const LayerType* type = find_layer_type(name)) return *type;
  std::vector<std::string> names;
  for (const LayerType* type : layer_types()) names.emplace_back(type->name);
  throw ConfigError("no layer type '" + std::string(name) + "'" + did_you_mean(name, names) +
                    "; there are: " + join(names));
}

std::unique_ptr<Layer> bind_problem(const LayerType& type, const ProblemWords& words) {
  return Binder(type, words).bind();
}

std::string problem_argument(const Layer& layer) {
  const LayerType& type = layer_type(layer.type());
  ProblemWords words = split_problem(layer.problem_text());
  if (layer.options().math != Math::kFP32) {
    set_word(words, "math", {std::string(to_string(layer.options().math))});
  }
  const auto same = [&](const ProblemWords& fewer) {
    try {
      const auto other = bind_problem(type, fewer);
      return other->problem_text() == layer.problem_text() &&
             other->options().math == layer.options().math;
    } catch (const ConfigError&) {
      return false;
    }
  };
  for (size_t i = words.size(); i-- > 0;) {
    ProblemWords fewer = words;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (same(fewer)) words = fewer;
  }
  return join_problem(words);
}

}  // namespace duet
