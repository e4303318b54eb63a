#include "train/predict.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "core/output_files.h"
#include "core/printable.h"
#include "core/write_file.h"
#include "data/image_file.h"
#include "data/pictures.h"
#include "net/prediction.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/filters.h"
#include "train/predictor.h"

namespace duet {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kMostBatch = 64;

struct Prediction {
  size_t number = 0;  // of the class
  double confidence = 0.0;
};

// The `top` likeliest classes; of equal ones the first.
std::vector<Prediction> likeliest(const std::vector<double>& confidences, size_t top) {
  std::vector<Prediction> all;
  for (size_t i = 0; i < confidences.size(); ++i) all.push_back({i, confidences[i]});
  std::stable_sort(all.begin(), all.end(), [](const Prediction& a, const Prediction& b) {
    return a.confidence > b.confidence;
  });
  all.resize(std::min(top, all.size()));
  return all;
}

// How many images run at a time: always as many, so that an image's confidences do not depend on
// how many there are; and no more than have fitted into memory before.
Trained open(TrainedOptions options) {
  Trained trained = open_trained(options);
  if (trained.setup.spec.data.batch <= kMostBatch) return trained;
  options.checkpoint = trained.checkpoint;
  options.assignments.push_back("data.batch=" + std::to_string(kMostBatch));
  return open_trained(options);
}

// Writes FOLDER/1-conv1.png for the first image and the layer conv1, and so on.
Predictor::Observer writer_of_activations(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw ConfigError("--activations " + folder + ": cannot make this folder: " + error.message());
  }
  return [folder](int64_t image, const std::string& layer, const std::vector<int64_t>& shape,
                  const std::vector<float>& values) {
    const fs::path file = fs::path(folder) / (std::to_string(image + 1) + "-" + layer + ".png");
    check_outputs({{"--activations", file.string()}});
    write_file(file, png_of(activation_picture(values, shape)));
  };
}

std::vector<float> logits_of(Trained& trained, const DatasetInfo& dataset,
                             const std::vector<uint8_t>& images, const std::string& activations) {
  Setup& setup = trained.setup;
  Context context(device_of(setup.spec));
  context.set_workspace_limit(workspace_limit(setup.spec));
  choose_implementations(setup, context, false);
  Weights weights = load_weights(trained.checkpoint, setup, context.device(),
                                 {.config = write_yaml(setup.config)});
  Predictor predictor(setup.layers, weights, context);
  if (activations.empty()) return predictor.logits(dataset, images);
  return predictor.logits(dataset, images, writer_of_activations(activations));
}

std::vector<std::vector<Prediction>> predict(Trained& trained, const DatasetInfo& dataset,
                                             const Pictures& pictures,
                                             const PredictOptions& options) {
  const std::vector<float> logits =
      logits_of(trained, dataset, pictures.images, options.activations);
  const size_t classes = logits.size() / pictures.names.size();
  std::vector<std::vector<Prediction>> predictions;
  for (size_t i = 0; i < pictures.names.size(); ++i) {
    const std::vector<double> confidences = softmax(logits.data() + i * classes, classes);
    if (!std::isfinite(confidences.front())) {
      throw RunError(trained.checkpoint.string() + ": what the network makes of " +
                     pictures.names[i] + " is not finite");
    }
    predictions.push_back(likeliest(confidences, static_cast<size_t>(options.top)));
  }
  return predictions;
}

std::string table_of(const Pictures& pictures, const DatasetInfo& info,
                     const std::vector<std::vector<Prediction>>& predictions) {
  std::vector<std::vector<std::string>> rows = {{"image", "class", "confidence"}};
  for (size_t i = 0; i < predictions.size(); ++i) {
    std::string name = printable(pictures.names[i]);
    for (const Prediction& prediction : predictions[i]) {
      rows.push_back({name, printable(class_name(info, prediction.number)),
                      fmt::format("{:.2f}%", 100.0 * prediction.confidence)});
      name.clear();
    }
  }
  return format_table(rows);
}

json json_of(const Pictures& pictures, const DatasetInfo& info,
             const std::vector<std::vector<Prediction>>& predictions) {
  json images = json::array();
  for (size_t i = 0; i < predictions.size(); ++i) {
    json list = json::array();
    for (const Prediction& prediction : predictions[i]) {
      list.push_back({{"class", prediction.number},
                      {"name", class_name(info, prediction.number)},
                      {"confidence", prediction.confidence}});
    }
    images.push_back({{"image", pictures.names[i]}, {"predictions", list}});
  }
  return images;
}

const TensorDesc& result_of(const std::vector<ResolvedLayer>& layers) {
  const int reader = result_reader(layers);
  return reader == kField ? layers.back().layer->outputs()[0]
                          : layers[static_cast<size_t>(reader)].layer->inputs()[0];
}

void check_result(const Trained& trained) {
  const std::vector<ResolvedLayer>& layers = trained.setup.layers;
  const int reader = result_reader(layers);
  if (reader == kField) return;
  const InputSource& result = layers[static_cast<size_t>(reader)].inputs[0];
  if (result.layer != kField) return;
  throw ConfigError(trained.checkpoint.string() + ": its last loss reads the field '" +
                    result.field + "' and nothing that a layer makes; there is nothing to predict");
}

bool makes_pictures(const Setup& setup) {
  const Shape& shape = result_of(setup.layers).shape;
  return shape.rank() == 4 && (shape[1] == 1 || shape[1] == 3);
}

// The part of the network of that checkpoint that predicts, on images of other sizes.
void resize_network(Trained& trained, const DatasetInfo& info) {
  Setup& setup = trained.setup;
  ConfigErrors errors(trained.checkpoint.string());
  const NetSpec& spec = setup.folded ? setup.folded->spec : setup.spec;
  setup.layers = resolve(prediction_of(spec), fields_of(info, 1), errors, false);
  errors.raise_if_any();
}

void check_parameters(const std::vector<ResolvedLayer>& layers, const Weights& weights,
                      const std::string& picture) {
  for (const ResolvedLayer& layer : layers) {
    for (size_t i = 0; i < layer.layer->parameters().size(); ++i) {
      if (weights.find(layer, i)) continue;
      throw ConfigError(picture + ": the weights of layer " + layer.name +
                        " are of one size of image, and this picture has another; scale it to "
                        "data.patch");
    }
  }
}

Image picture_of(const std::vector<float>& values, const Shape& shape) {
  std::vector<uint8_t> planes;
  for (const float value : values) {
    const double byte = std::round(255.0 * static_cast<double>(value));
    planes.push_back(static_cast<uint8_t>(std::clamp(byte, 0.0, 255.0)));
  }
  return image_of_planes(planes.data(), shape[1], shape[2], shape[3]);
}

// OUT/name.png for each picture, which no two of them share.
std::vector<NamedFile> picture_files(const PredictOptions& options) {
  if (options.out.empty()) {
    throw ConfigError("the network makes pictures; name a folder for them: --out DIR");
  }
  std::vector<NamedFile> outputs, inputs;
  for (const std::string& image : options.images) {
    inputs.push_back({"image " + image, image});
    const fs::path name = fs::path(image).stem().string() + ".png";
    outputs.push_back({"--out", (fs::path(options.out) / name).string()});
  }
  check_outputs(outputs, inputs);
  return outputs;
}

void predict_pictures(Trained& trained, DatasetInfo info, const PredictOptions& options) {
  Setup& setup = trained.setup;
  const std::vector<NamedFile> files = picture_files(options);
  const int64_t scale = info.has_targets() ? info.target.height / info.height : 1;
  Context context(device_of(setup.spec));
  context.set_workspace_limit(workspace_limit(setup.spec));
  Weights weights = load_weights(trained.checkpoint, setup, context.device(),
                                 {.config = write_yaml(setup.config)});
  json made = json::array();
  std::optional<Predictor> predictor;  // of pictures of info's size
  std::vector<float> values;
  for (size_t i = 0; i < files.size(); ++i) {
    const Image read = read_image_file(options.images[i]);
    const Image image = setup.dataset.fit    ? setup.dataset.fit(read)
                        : info.channels == 1 ? to_grey(read)
                                             : to_rgb(read);
    if (!predictor || image.height != info.height || image.width != info.width) {
      info.height = image.height;
      info.width = image.width;
      if (info.has_targets()) {
        info.target.height = scale * image.height;
        info.target.width = scale * image.width;
      }
      predictor.reset();  // its memory, before the next takes its own
      resize_network(trained, info);
      check_parameters(setup.layers, weights, options.images[i]);
      choose_implementations(setup, context, false);
      predictor.emplace(setup.layers, weights, context);
    }
    predictor->predict(info, planes_of(image), &values);
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      throw RunError(trained.checkpoint.string() + ": what the network makes of " +
                     options.images[i] + " is not finite");
    }
    const Image picture = picture_of(values, predictor->output().shape);
    write_file(files[i].file, png_of(picture));
    made.push_back({{"image", options.images[i]},
                    {"picture", files[i].file},
                    {"height", picture.height},
                    {"width", picture.width}});
    if (!options.json) std::printf("%s\n", files[i].file.c_str());
  }
  if (!options.json) return;
  const json result = {{"name", setup.spec.name},
                       {"backend", setup.spec.backend.name},
                       {"checkpoint", trained.checkpoint.string()},
                       {"images", made}};
  std::printf("%s\n", json_text(result).c_str());
}

}  // namespace

void run_predict(const PredictOptions& options) {
  Trained trained = open(options.trained);
  check_result(trained);
  const DatasetInfo dataset = normalised_as_trained(trained);
  if (makes_pictures(trained.setup)) return predict_pictures(trained, dataset, options);
  if (!options.out.empty()) {
    throw ConfigError("--out: is of networks that make pictures, and this one tells classes");
  }
  const Pictures pictures =
      read_pictures(options.images, dataset, options.resize, trained.setup.dataset.fit);
  const auto predictions = predict(trained, dataset, pictures, options);
  if (!options.json) {
    std::fputs(table_of(pictures, dataset, predictions).c_str(), stdout);
    return;
  }
  const json result = {{"name", trained.setup.spec.name},
                       {"backend", trained.setup.spec.backend.name},
                       {"checkpoint", trained.checkpoint.string()},
                       {"images", json_of(pictures, dataset, predictions)}};
  std::printf("%s\n", json_text(result).c_str());
}

}  // namespace duet
