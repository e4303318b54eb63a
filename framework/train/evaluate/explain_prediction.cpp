#include "train/evaluate/explain_prediction.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/output_files.h"
#include "core/printable.h"
#include "core/write_file.h"
#include "data/batch/batches.h"
#include "data/format/image_file.h"
#include "data/set/pictures.h"
#include "measure/check/guarded_buffer.h"
#include "net/choose.h"
#include "net/fuse.h"
#include "net/prediction.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/evaluate/heat_map.h"
#include "train/evaluate/predictor.h"
#include "train/step/program.h"

namespace duet {
namespace {

using nlohmann::json;

void check_loss(const Trained& trained) {
  const std::vector<LayerSpec>& layers = trained.setup.spec.layers;
  const int number = last_loss(layers);
  const LayerSpec* const last = number == kField ? nullptr : &layers[static_cast<size_t>(number)];
  if (last && last->layer->takes_labels() && last->inputs[0].layer != kField) return;
  throw ConfigError(
      trained.checkpoint.string() + ": the network predicts no classes" +
      (last ? ": its last loss is " + label_of(last->name, *last->layer) : ": it has no loss"));
}

// The picture that the drawing is made over.
Image picture_of(const Pictures& pictures, const DatasetInfo& info, bool fitted_by_rule) {
  if (!fitted_by_rule) return *pictures.only;
  return image_of_planes(pictures.images.data(), info.channels, info.height, info.width);
}

bool makes_image(const ResolvedLayer& layer) {
  const Shape& shape = layer.layer->outputs()[0].shape;
  return shape.rank() == 4 && shape[2] * shape[3] > 1;
}

// The network in evaluation, with gradients, for one picture.
class Explainer {
 public:
  Explainer(Trained& trained, const DatasetInfo& info)
      : setup_(trained.setup),
        info_(info),
        file_(trained.checkpoint.string()),
        context_(device_of(setup_.spec)) {
    context_.set_workspace_limit(workspace_limit(setup_.spec));
    const Weights trained_weights = load_weights(trained.checkpoint, setup_, context_.device(),
                                                 {.config = write_yaml(setup_.config)});
    const NetSpec spec = unfused(prediction_of(setup_.spec));
    for (const LayerSpec& layer : spec.layers) names_.push_back(layer.name);
    ConfigErrors errors(file_);
    setup_.layers = resolve(spec, fields_of(info, 1), errors, false, {std::string(kImagesField)});
    errors.raise_if_any();
    choose_implementations(setup_, context_, NetMode::kGradients);
    weights_.emplace(setup_.layers, setup_.spec.seed, context_.device());
    copy_weights(trained_weights, *weights_);
    if (setup_.layers.back().layer->outputs()[0].shape.rank() != 2) {
      throw ConfigError(file_ + ": the network predicts no classes: its output is " +
                        setup_.layers.back().layer->outputs()[0].shape.to_string());
    }
  }

  // The layer's number; of an empty name that of the last that makes images.
  size_t find_layer(const std::string& name) const {
    std::vector<std::string> images;
    size_t last = 0;
    for (size_t i = 0; i < setup_.layers.size(); ++i) {
      const ResolvedLayer& layer = setup_.layers[i];
      if (std::find(names_.begin(), names_.end(), layer.name) == names_.end())
        continue;  // inserted
      if (layer.name == name) return checked(i);
      if (!makes_image(layer)) continue;
      images.push_back(layer.name);
      last = i;
    }
    if (images.empty()) {
      throw ConfigError(file_ +
                        ": no layer of the network makes images of more than one pixel, so "
                        "that there is nothing to draw");
    }
    if (name.empty()) return last;
    throw ConfigError("--layer " + printable(name) + why_unknown(name, images) +
                      "; layers that make images: " + join(images));
  }

  Explanation explain(std::vector<uint8_t> image, const std::string& class_name, size_t layer) {
    Net net(setup_.layers, *weights_, context_, Net::Mode::kGradients);
    const Device device = context_.device();
    const Split split{1, std::move(image)};
    const Batches batches(context_, info_.inputs_alone(), split, {.batch = 1});
    const Buffer step(device, sizeof(uint64_t));
    fill_bytes(step.data(), device, 0, step.bytes());
    const auto* const number = static_cast<const uint64_t*>(step.data());
    batches.gather(context_, number, net.fields());
    net.forward(number);
    const std::vector<double> all = values_of(net.output(), device);
    const std::vector<float> logits(all.begin(), all.end());
    Explanation found{.layer = setup_.layers[layer].name};
    const std::vector<double> shares = softmax(logits.data(), logits.size());
    check_finite(shares, "its output");
    found.number =
        class_name.empty()
            ? static_cast<size_t>(std::max_element(shares.begin(), shares.end()) - shares.begin())
            : number_of(class_name, logits.size());
    found.confidence = shares[found.number];
    const LayerTensors& tensors = net.nodes()[layer].tensors;
    found.features = maps_of({tensors.y[0]});
    set_gradient(net, found.number);
    run_back_to(net, layer, number);
    found.gradients = maps_of(tensors.dy);
    check_finite(found.features.values, "the output of layer " + found.layer);
    check_finite(found.gradients.values, "the gradient of layer " + found.layer);
    found.map = grad_cam(found.features, found.gradients);
    return found;
  }

 private:
  // Every layer has an output of its own, and none is named an implementation that only blocks
  // have.
  static NetSpec unfused(NetSpec spec) {
    spec.fuse = false;
    for (LayerSpec& layer : spec.layers) {
      if (layer.backend && !unknown_name(*layer.layer, *layer.backend).empty()) {
        layer.backend.reset();
      }
    }
    return spec;
  }

  // Those of `to`, which `from` has by the same names.
  static void copy_weights(const Weights& from, Weights& to) {
    for (const Parameter& parameter : to.parameters()) {
      to.write(parameter, from.read(*from.find(parameter.name)));
    }
  }

  size_t checked(size_t layer) const {
    if (makes_image(setup_.layers[layer])) return layer;
    const ResolvedLayer& found = setup_.layers[layer];
    throw ConfigError("--layer " + found.name + ": its output is " +
                      found.layer->outputs()[0].shape.to_string() +
                      ", no image (1 x C x H x W) of more than one pixel");
  }

  std::string why_unknown(const std::string& name, const std::vector<std::string>& images) const {
    for (const LayerSpec& layer : setup_.spec.layers) {
      if (layer.name == name) return ": is no part of what makes the prediction";
    }
    return ": there is no such layer" + did_you_mean(name, images);
  }

  // A class by its name or number.
  size_t number_of(const std::string& name, size_t outputs) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs; ++i) names.push_back(class_name(info_, i));
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    size_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [parsed, error] = std::from_chars(name.data(), end, number);
    if (error == std::errc() && parsed == end && number < outputs) return number;
    throw ConfigError("--class " + printable(name) + ": there is no such class" +
                      did_you_mean(name, names) + "; the network has " + std::to_string(outputs) +
                      ", numbered from 0" + (outputs <= 20 ? ": " + printable(join(names)) : ""));
  }

  void check_finite(const std::vector<double>& values, const std::string& what) const {
    if (std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); }))
      return;
    throw RunError(file_ + ": what the network makes of the picture is not finite: " + what);
  }

  // 1 for the class, 0 for the others.
  void set_gradient(const Net& net, size_t number) const {
    const Tensor& gradient = net.output_gradient();
    std::vector<double> values(static_cast<size_t>(gradient.elements()));
    values[number] = 1.0;
    const std::vector<std::byte> bytes = encode(gradient.desc, values);
    copy_bytes(gradient.memory, context_.device(), bytes.data(), Device::kCpu, bytes.size());
  }

  // The backward passes of the layers behind it, which leave the gradient of its output.
  static void run_back_to(Net& net, size_t layer, const uint64_t* step) {
    for (size_t i = net.plan().forward_calls; i < net.calls().size(); ++i) {
      if (net.plan().calls[i].layer <= static_cast<int>(layer)) return;
      net.run(net.calls()[i], step);
    }
  }

  // The sum of tensors of one image: a sum's output has a gradient for each reader.
  FeatureMaps maps_of(const std::vector<Tensor>& tensors) const {
    const Shape& shape = tensors[0].desc.shape;
    FeatureMaps maps{shape[1], shape[2], shape[3]};
    maps.values.resize(static_cast<size_t>(shape.elements()));
    for (const Tensor& tensor : tensors) {
      const std::vector<double> values = values_of(tensor, context_.device());
      size_t i = 0;
      for (int64_t c = 0; c < shape[1]; ++c) {
        for (int64_t h = 0; h < shape[2]; ++h) {
          for (int64_t w = 0; w < shape[3]; ++w) {
            maps.values[i++] += values[static_cast<size_t>(offset_of(tensor.desc, 0, c, h, w))];
          }
        }
      }
    }
    return maps;
  }

  Setup& setup_;
  const DatasetInfo& info_;
  const std::string file_;
  Context context_;
  std::vector<std::string> names_;  // of the layers that the file names
  std::optional<Weights> weights_;
};

void print(const ExplainPredictionOptions& options, const Trained& trained, const DatasetInfo& info,
           const Explanation& found, const std::string& picture, const Image& drawn) {
  const std::string name = class_name(info, found.number);
  if (options.json) {
    const json result = {{"checkpoint", trained.checkpoint.string()},
                         {"backend", trained.setup.spec.backend.name},
                         {"image", picture},
                         {"class", found.number},
                         {"name", name},
                         {"confidence", found.confidence},
                         {"layer", found.layer},
                         {"layer_size",
                          {{"channels", found.features.channels},
                           {"height", found.map.height},
                           {"width", found.map.width}}},
                         {"size", {{"height", drawn.height}, {"width", drawn.width}}},
                         {"out", options.out}};
    std::printf("%s\n", json_text(result).c_str());
    return;
  }
  const std::string size = fmt::format("{} ({}x{}x{})", found.layer, found.features.channels,
                                       found.map.height, found.map.width);
  std::fputs(format_table({{"image", "class", "confidence", "layer"},
                           {printable(picture), printable(name),
                            fmt::format("{:.2f}%", 100.0 * found.confidence), size}})
                 .c_str(),
             stdout);
}

}  // namespace

// Batch normalisations stay by themselves: their layers can be asked for.
Trained open_to_explain(TrainedOptions options) {
  for (const char* own : {"data.batch=1", "fold_norms=false"}) options.assignments.push_back(own);
  Trained trained = open_trained(options);
  check_loss(trained);
  return trained;
}

Explanation explain_prediction(Trained& trained, const DatasetInfo& info,
                               std::vector<uint8_t> image, const std::string& class_name,
                               const std::string& layer) {
  Explainer explainer(trained, info);
  return explainer.explain(std::move(image), class_name, explainer.find_layer(layer));
}

void run_explain_prediction(const ExplainPredictionOptions& options) {
  Trained trained = open_to_explain(options.trained);
  const DatasetInfo info = normalised_as_trained(trained);
  const auto& fit = trained.setup.dataset.fit;
  Pictures pictures = read_pictures({options.picture}, info, options.resize, fit);
  if (!pictures.only) {
    throw ConfigError(options.picture + ": holds " + std::to_string(pictures.names.size()) +
                      " images; name one of them: " + options.picture + ":0");
  }
  const Image picture = picture_of(pictures, info, fit && !options.resize);
  check_outputs({{"--out", options.out}});
  const Explanation found = explain_prediction(trained, info, std::move(pictures.images),
                                               options.class_name, options.layer);
  if (std::all_of(found.map.values.begin(), found.map.values.end(),
                  [](double value) { return value == 0.0; })) {
    spdlog::warn("the heat map is 0 everywhere: nothing in layer {} raises the output of class {}",
                 found.layer, printable(class_name(info, found.number)));
  }
  const Image drawn = draw_over(picture, fitted(found.map, picture.height, picture.width));
  write_file(options.out, png_of(drawn));
  print(options, trained, info, found, pictures.names[0], drawn);
}

}  // namespace duet
