#include "measure/check/layer_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

#include "core/error.h"
#include "core/mixed_labels.h"
#include "core/parallel.h"
#include "core/storage.h"
#include "layers/gpu_reference.h"
#include "layers/rounding.h"
#include "measure/check/layer_rig.h"

namespace duet {
namespace {

/// Draws tensors, one after the other. Each part of one has a generator of its own, so that parts
/// are drawn at the same time, and their values do not depend on the number of threads.
class Drawing {
 public:
  explicit Drawing(uint64_t seed) : seed_(seed) {}

  template <class Distribution>
  std::vector<double> draw(const TensorDesc& desc, const Distribution& distribution) {
    constexpr int64_t kPart = 1 << 16, kOperations = 20;
    const int64_t count = desc.elements();
    const uint32_t tensor = tensor_++;
    std::vector<double> values(static_cast<size_t>(count));
    parallel_for((count + kPart - 1) / kPart, count * kOperations, [&](int64_t k) {
      std::seed_seq seeds{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32), tensor,
                          static_cast<uint32_t>(k)};
      std::mt19937 random(seeds);
      Distribution own = distribution;
      const int64_t last = std::min(count, (k + 1) * kPart);
      for (int64_t i = k * kPart; i < last; ++i) {
        values[i] = rounded_to(desc.dtype, static_cast<float>(own(random)));
      }
    });
    return values;
  }

 private:
  const uint64_t seed_;
  uint32_t tensor_ = 0;
};

}  // namespace

StoredData::StoredData(const Layer& layer, const LayerData& data, Device device) : step(data.step) {
  for (size_t i = 0; i < layer.inputs().size(); ++i) {
    x.push_back(stored(layer.inputs()[i], data.x.at(i), device));
  }
  for (size_t i = 0; i < layer.parameters().size(); ++i) {
    w.push_back(stored(layer.parameters()[i].desc, data.w.at(i), device));
  }
  for (size_t i = 0; i < layer.outputs().size(); ++i) {
    const TensorDesc& y = layer.outputs()[i];
    dy.push_back(is_float(y.dtype) ? stored(y, data.dy.at(i), device) : Buffer());
  }
}

const std::vector<NamedValues>& Reference::of(Pass pass) const {
  for (const auto& [p, values] : outputs) {
    if (p == pass) return values;
  }
  throw std::logic_error("the reference did not run this pass");
}

const TensorDesc& desc_of(const Layer& layer, const std::string& output) {
  const size_t bracket = output.find('[');
  if (bracket == std::string::npos) {
    for (const ParameterSpec& p : layer.parameters()) {
      if (p.name == output) return p.desc;
    }
    throw std::logic_error("the layer has no parameter " + output);
  }
  const size_t index = std::stoul(output.substr(bracket + 1));
  const std::string kind = output.substr(0, bracket);
  if (kind == "y") return layer.outputs().at(index);
  return kind == "dx" ? layer.inputs().at(index) : layer.parameters().at(index).desc;
}

bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16;
}

void spread_shares(std::vector<double>& labels) {
  for (size_t row = 0; row < labels.size() / kMixedWords; ++row) {
    const size_t share = row % 5 == 1 ? kWholeShare : row % 5 == 2 ? 0 : row * 40503 % kWholeShare;
    labels[row * kMixedWords + 2] = static_cast<double>(share);
  }
}

LayerData random_data(const Layer& layer, uint64_t seed) {
  Drawing drawing(seed);
  LayerData data;
  for (const TensorDesc& x : layer.inputs()) {
    if (is_float(x.dtype)) {
      data.x.push_back(drawing.draw(x, std::normal_distribution<float>()));
    } else if (!layer.takes_labels()) {
      data.x.emplace_back(static_cast<size_t>(x.elements()));
      std::iota(data.x.back().begin(), data.x.back().end(), 0.0);
    } else {
      const auto classes = static_cast<int>(layer.inputs()[0].shape.last());
      data.x.push_back(drawing.draw(x, std::uniform_int_distribution<int>(0, classes - 1)));
      if (are_mixed(x, layer.inputs()[0])) spread_shares(data.x.back());
    }
  }
  for (const ParameterSpec& p : layer.parameters()) {
    const bool variance = p.name.find("var") != std::string::npos;
    const float bound = 1 / std::sqrt(static_cast<float>(p.fan_in));
    data.w.push_back(
        drawing.draw(p.desc, variance ? std::uniform_real_distribution<float>(0.5f, 1.5f)
                                      : std::uniform_real_distribution<float>(-bound, bound)));
  }
  for (const TensorDesc& y : layer.outputs()) {
    data.dy.push_back(is_float(y.dtype)
                          ? drawing.draw(y, std::normal_distribution<float>(0.0f, 0.25f))
                          : std::vector<double>());
  }
  return data;
}

std::vector<double> relayout(const std::vector<double>& values, const TensorDesc& from,
                             const TensorDesc& to) {
  const Shape& s = from.shape;
  if (s.rank() != 4 || from.layout == to.layout) return values;
  std::vector<double> result(values.size());
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t h = 0; h < s[2]; ++h) {
        for (int64_t w = 0; w < s[3]; ++w) {
          result[offset_of(to, n, c, h, w)] = values[offset_of(from, n, c, h, w)];
        }
      }
    }
  }
  return result;
}

LayerData relayout(const LayerData& data, const Layer& from, const Layer& to) {
  LayerData result = data;
  for (size_t i = 0; i < data.x.size(); ++i) {
    result.x[i] = relayout(data.x[i], from.inputs()[i], to.inputs()[i]);
  }
  for (size_t i = 0; i < data.w.size(); ++i) {
    result.w[i] = relayout(data.w[i], from.parameters()[i].desc, to.parameters()[i].desc);
  }
  for (size_t i = 0; i < data.dy.size(); ++i) {
    if (data.dy[i].empty()) continue;
    result.dy[i] = relayout(data.dy[i], from.outputs()[i], to.outputs()[i]);
  }
  return result;
}

const ParameterSpec* weight_of(const Layer& layer) {
  if (layer.cancels()) return nullptr;
  for (const ParameterSpec& p : layer.parameters()) {
    if (p.name == "weight" && p.desc.shape.rank() >= 2) return &p;
  }
  return nullptr;
}

bool same_layouts(const Layer& a, const Layer& b) {
  const auto same = [](const std::vector<TensorDesc>& x, const std::vector<TensorDesc>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const auto& p, const auto& q) { return p.layout == q.layout; });
  };
  return same(a.inputs(), b.inputs()) && same(a.outputs(), b.outputs()) &&
         std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin(),
                    b.parameters().end(),
                    [](const auto& p, const auto& q) { return p.desc.layout == q.desc.layout; });
}

std::unique_ptr<Layer> in_double(const Layer& layer) {
  auto copy = layer.clone();
  std::vector<TensorDesc> inputs = layer.inputs();
  for (TensorDesc& input : inputs) {
    if (is_float(input.dtype)) input.dtype = DType::kFloat64;
  }
  copy->bind(inputs, layer.options());
  return copy;
}

std::vector<Pass> passes_before(const Layer& layer, Pass pass) {
  std::vector<Pass> before;
  for (Pass each : layer.passes()) {
    if (each == pass) break;
    if (each == Pass::kForward || !layer.chooses_per_pass()) before.push_back(each);
  }
  return before;
}

namespace {

/// The passes of `passes`, and those that must run before them, in order.
std::vector<Pass> with_passes_before(const Layer& layer, const std::vector<Pass>& passes) {
  const auto has = [](const std::vector<Pass>& list, Pass pass) {
    return std::find(list.begin(), list.end(), pass) != list.end();
  };
  std::vector<Pass> before;
  for (Pass pass : layer.passes()) {
    if (has(passes, pass)) before = passes_before(layer, pass);
  }
  std::vector<Pass> all;
  for (Pass pass : layer.passes()) {
    if (has(passes, pass) || has(before, pass)) all.push_back(pass);
  }
  return all;
}

/// `layer` is in double.
Reference run_reference_on(Device device, const Layer& layer, const LayerData& data,
                           const LayerSituation& situation, const std::vector<Pass>& passes,
                           bool (*stop)()) {
  Context context(device);
  const std::string_view id = device == Device::kGpu ? kGpuReference : "cpu_reference";
  LayerRig rig(layer, id, passes, context, situation);
  rig.load(data);
  Reference reference{.device = device};
  for (Pass pass : passes) {
    {
      const LoopStop unfinished_loops(stop);
      rig.run(pass);
    }
    if (stop && stop()) throw InterruptedError();
    if (const std::string damage = rig.damage(); !damage.empty()) {
      throw std::logic_error(std::string(id) + " damages memory:\n" + damage);
    }
    reference.outputs.emplace_back(pass, rig.outputs(pass));
  }
  return reference;
}

bool suits_a_gpu(const Layer& layer, const std::vector<Pass>& passes) {
  if (!has_gpu_reference(layer)) return false;
  // A rig writes, guards and compares every value; so much of it costs as much as a value.
  constexpr double kFlopsOfValue = 30;
  double values = 0;
  for (const auto* tensors : {&layer.inputs(), &layer.outputs()}) {
    for (const TensorDesc& tensor : *tensors) values += static_cast<double>(tensor.elements());
  }
  for (const ParameterSpec& p : layer.parameters()) {
    values += static_cast<double>(p.desc.elements());
  }
  return std::any_of(passes.begin(), passes.end(), [&](Pass pass) {
    return worth_a_gpu(layer.flops(pass) + kFlopsOfValue * values);
  });
}

Reference run_reference_anywhere(const Layer& layer, const LayerData& data,
                                 const LayerSituation& situation, const std::vector<Pass>& passes,
                                 bool (*stop)(), std::optional<Device> device) {
  if (device) return run_reference_on(*device, layer, data, situation, passes, stop);
  if (suits_a_gpu(layer, passes)) {
    try {
      return run_reference_on(Device::kGpu, layer, data, situation, passes, stop);
    } catch (const OutOfMemoryError&) {
      // The host's memory is larger.
    }
  }
  return run_reference_on(Device::kCpu, layer, data, situation, passes, stop);
}

void square(std::vector<std::vector<double>>& tensors) {
  for (auto& values : tensors) {
    parallel_ranges(static_cast<int64_t>(values.size()), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) values[i] *= values[i];
    });
  }
}

/// What gives the sums of the products' squares. A block's relu lets no gradient through where y is
/// 0; on squares, none of which is negative, it would.
LayerData squared(const Layer& layer, LayerData data, const Reference& reference) {
  const bool block = layer.type() == "conv2d_pool_relu" || layer.type() == "linear_relu";
  if (block && reference.outputs.size() > 1) {
    const std::vector<double>& y = reference.of(Pass::kForward)[0].values;
    for (size_t i = 0; i < y.size(); ++i) {
      if (y[i] == 0) data.dy[0][i] = 0;
    }
  }
  for (auto* tensors : {&data.x, &data.w, &data.dy}) square(*tensors);
  return data;
}

/// NamedValues::sizes of one output from the sums of its products' squares.
std::vector<double> sizes_of(const NamedValues& output, std::vector<double> squares) {
  // An error of 2^-126, below which float32 loses bits or is flushed to zero, is always allowed.
  constexpr double kUnderflow = 0x1p-126 / 0x1p-24;
  constexpr int64_t kOperations = 8;
  const auto finite = [](double value) { return std::isfinite(value) ? value : 0.0; };
  const auto take_root = [&](int64_t i, double beside) {
    const double value = finite(output.values[i]);
    squares[i] = std::sqrt(finite(squares[i]) + beside + value * value + kUnderflow * kUnderflow);
  };
  const auto count = static_cast<int64_t>(squares.size());
  const Shape& s = output.desc.shape;
  if (s.rank() != 4) {
    parallel_ranges(count, kOperations, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) take_root(i, 0);
    });
    return squares;
  }
  double mixed = 0;
  for (double square : squares) mixed += finite(square);
  mixed *= kMixedChannels * kMixedChannels / static_cast<double>(std::max<int64_t>(count, 1));
  parallel_for(s[0] * s[1], count * kOperations, [&](int64_t plane) {
    const int64_t step = output.desc.layout == Layout::kNCHW ? 1 : s[1];
    const int64_t first = offset_of(output.desc, plane / s[1], plane % s[1], 0, 0);
    const int64_t last = first + s[2] * s[3] * step;
    double mean = 0;
    for (int64_t i = first; i < last; i += step) mean += finite(squares[i]);
    mean /= static_cast<double>(s[2] * s[3]);
    for (int64_t i = first; i < last; i += step) take_root(i, mean + mixed);
  });
  return squares;
}

}  // namespace

Reference run_reference(const Layer& layer, const LayerData& data, const LayerSituation& situation,
                        const std::vector<Pass>& passes, bool (*stop)(),
                        std::optional<Device> device) {
  const auto exact = in_double(layer);
  const std::vector<Pass> all = with_passes_before(layer, passes);
  Reference reference = run_reference_anywhere(*exact, data, situation, all, stop, device);
  if (layer.cancels()) {
    for (auto& [pass, outputs] : reference.outputs) {
      auto sizes = layer.sizes(pass, situation.training, data.x, data.w, data.dy);
      for (size_t j = 0; j < outputs.size(); ++j) outputs[j].sizes = std::move(sizes.at(j));
    }
  }
  if (!weight_of(layer)) return reference;
  Reference squares =
      run_reference_anywhere(*exact, squared(layer, data, reference), situation, all, stop, device);
  for (size_t i = 0; i < reference.outputs.size(); ++i) {
    auto& outputs = reference.outputs[i].second;
    for (size_t j = 0; j < outputs.size(); ++j) {
      outputs[j].sizes = sizes_of(outputs[j], std::move(squares.outputs[i].second[j].values));
    }
  }
  return reference;
}

}  // namespace duet
