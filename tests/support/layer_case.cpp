#include "support/layer_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

#include "core/mixed_labels.h"
#include "core/storage.h"
#include "layers/layers.h"

namespace duet {
namespace {

ConfigNode value_node(const std::string& text) {
  if (text.empty() || text.front() != '[') return ConfigNode::of(text);
  ConfigNode list{.kind = ConfigNode::Kind::kList};
  std::string item;
  for (char c : text.substr(1)) {
    if (c == ',' || c == ']') {
      if (!item.empty()) list.items.push_back(ConfigNode::of(item));
      item.clear();
    } else if (c != ' ') {
      item += c;
    }
  }
  return list;
}

std::vector<double> values_of(Data data, double scale, const TensorDesc& desc,
                              std::mt19937& random) {
  const int64_t count = desc.elements();
  std::vector<double> values(static_cast<size_t>(count));
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> unit(0.001, 0.999);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (double& v : values) {
    switch (data) {
      case Data::kIntegers:
        v = below(7) - 3;
        break;
      case Data::kTies:
        v = 0.5 * below(3);
        break;
      case Data::kUnit:
        v = unit(random);
        break;
      case Data::kShifted:
        v = 1000 + scale * normal(random);
        break;
      case Data::kNonFinite:
        v = scale * normal(random);
        if (below(11) == 0) v = std::numeric_limits<double>::quiet_NaN();
        if (below(11) == 0) v = std::numeric_limits<double>::infinity() * (below(2) ? 1 : -1);
        break;
      default:
        v = scale * normal(random);
    }
  }
  if (data == Data::kDistinct) {
    // Half a step off the grid's centre, so that 0 is never hit and no two differ by a round
    // number.
    const double step = 3.97 / static_cast<double>(count);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] =
          scale * ((static_cast<double>(i) + 0.5 - 0.5 * static_cast<double>(count)) * step);
      if (values[i] == 0) values[i] = scale * 0.25 * step;
    }
    std::shuffle(values.begin(), values.end(), random);
  }
  // Values of float32 also where a layer is in double: every run starts from the same.
  const DType dtype = desc.dtype == DType::kBFloat16 ? desc.dtype : DType::kFloat32;
  for (double& v : values) v = rounded_to(dtype, v);
  return values;
}

// A fifth of them are -1: rows that do not count.
std::vector<double> labels(int64_t count, int64_t classes, std::mt19937& random) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 5 == 3 ? -1.0 : static_cast<double>(random() % static_cast<uint64_t>(classes));
  }
  return values;
}

}  // namespace

std::unique_ptr<Layer> make_layer(std::string_view type, const LayerCase& c,
                                  std::optional<DType> dtype) {
  const LayerType* found = find_layer_type(type);
  if (!found) throw std::logic_error("no layer type '" + std::string(type) + "'");
  ConfigNode node = ConfigNode::map();
  for (const auto& [key, value] : c.keys) node.at_or_add(key) = value_node(value);
  ConfigErrors errors("case " + c.name);
  ConfigReader reader(node, std::string(type), errors);
  std::unique_ptr<Layer> layer = found->make(reader);
  reader.finish();
  errors.raise_if_any();
  std::vector<TensorDesc> inputs = c.x;
  for (TensorDesc& input : inputs) {
    if (is_float(input.dtype)) input.dtype = dtype.value_or(storage_of(c.options.math));
  }
  layer->bind(inputs, c.options);
  return layer;
}

LayerData make_data(const LayerCase& c, const Layer& layer) {
  std::mt19937 random(20240607);
  LayerData data = {.step = c.step};
  for (size_t i = 0; i < c.x.size(); ++i) {
    const TensorDesc& x = layer.inputs()[i];
    const Data kind = i < c.data_of.size() ? c.data_of[i] : c.data;
    const int64_t classes = layer.takes_labels() ? c.x[0].shape.last() : x.elements();
    data.x.push_back(is_float(x.dtype) ? values_of(kind, c.scale, x, random)
                                       : labels(x.elements(), classes, random));
    if (layer.takes_labels() && i > 0 && are_mixed(x, c.x[0])) spread_shares(data.x.back());
  }
  const Data kind = c.data == Data::kIntegers ? Data::kIntegers : Data::kNormal;
  for (const ParameterSpec& p : layer.parameters()) {
    const bool variance = p.name.find("var") != std::string::npos;
    data.w.push_back(values_of(variance ? Data::kUnit : kind, 1, p.desc, random));
  }
  for (const TensorDesc& y : layer.outputs()) {
    data.dy.push_back(is_float(y.dtype) ? values_of(kind, 1, y, random) : std::vector<double>());
  }
  // Rounded operands may decide which of a window is the largest, or whether relu is at 0; and in
  // bfloat16 kShifted is few values. Whole numbers are exact.
  const bool rounded = c.options.math != Math::kFP32 && c.data != Data::kIntegers;
  if (c.data == Data::kShifted || rounded) layer.settle(data.x, data.w, data.dy);
  return data;
}

LayerCase in_bf16(LayerCase c) {
  c.name += "_bf16";
  c.options.math = Math::kBF16;
  c.gradient_check = false;
  return c;
}

std::vector<LayerCase> in_both_layouts(std::vector<LayerCase> cases) {
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    LayerCase c = cases[i];
    c.name += "_nhwc";
    for (TensorDesc& x : c.x) {
      if (x.shape.rank() == 4) x.layout = Layout::kNHWC;
    }
    c.gradient_check = false;  // the layouts are compared with each other
    cases.push_back(c);
  }
  return cases;
}

}  // namespace duet
