#include "train/predict.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "core/output_files.h"
#include "core/printable.h"
#include "core/write_file.h"
#include "data/image_file.h"
#include "data/pictures.h"
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
                             std::vector<uint8_t> images, const std::string& activations) {
  Setup& setup = trained.setup;
  Context context(device_of(setup.spec));
  context.set_workspace_limit(workspace_limit(setup.spec));
  choose_implementations(setup, context, false);
  Weights weights = load_weights(trained.checkpoint, setup, context.device(),
                                 {.config = write_yaml(setup.config)});
  Predictor predictor(setup.layers, weights, context);
  if (activations.empty()) return predictor.logits(dataset, std::move(images));
  return predictor.logits(dataset, std::move(images), writer_of_activations(activations));
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

}  // namespace

void run_predict(const PredictOptions& options) {
  Trained trained = open(options.trained);
  const DatasetInfo dataset = normalised_as_trained(trained);
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
