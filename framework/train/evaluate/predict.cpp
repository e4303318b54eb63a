#include "train/evaluate/predict.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/output_files.h"
#include "core/printable.h"
#include "core/write_file.h"
#include "data/format/image_file.h"
#include "data/set/pictures.h"
#include "net/prediction.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/evaluate/filters.h"
#include "train/evaluate/predictor.h"

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

// What to predict from.
struct Samples {
  std::vector<std::string> names;
  Split split;
};

Samples read_rows(const Trained& trained, const DatasetInfo& info, const PredictOptions& options) {
  if (options.resize) throw ConfigError("--resize: is of pictures, and the network takes numbers");
  Samples samples;
  std::vector<std::string> mistakes;
  for (const std::string& file : options.images) {
    try {
      const FileKind kind = kind_of_file(file);
      if (kind != FileKind::kOther && kind != FileKind::kGzip) {
        throw DataError(file + ": is a file of pictures, and the network takes the numbers of " +
                        info.name + ", not pictures");
      }
      SampleRows rows = trained.setup.dataset.read_rows(file, info.columns);
      samples.names.insert(samples.names.end(), rows.names.begin(), rows.names.end());
      std::vector<float>& numbers = samples.split.numbers;
      numbers.insert(numbers.end(), rows.numbers.begin(), rows.numbers.end());
    } catch (const DataError& error) {
      mistakes.emplace_back(error.what());
    }
  }
  if (!mistakes.empty()) throw DataError(join(mistakes, "\n"));
  samples.split.count = std::ssize(samples.names);
  return samples;
}

Samples read_samples(const Trained& trained, const DatasetInfo& info,
                     const PredictOptions& options) {
  if (trained.setup.dataset.read_rows) return read_rows(trained, info, options);
  Pictures pictures =
      read_pictures(options.images, info, options.resize, trained.setup.dataset.fit);
  const auto count = std::ssize(pictures.names);
  return {std::move(pictures.names), {count, std::move(pictures.images)}};
}

// A list of what the network makes of each sample: all is finite.
std::vector<std::vector<float>> outputs_of(Trained& trained, const DatasetInfo& dataset,
                                           const Samples& samples, const std::string& activations) {
  Setup& setup = trained.setup;
  Context context(device_of(setup.spec));
  context.set_workspace_limit(workspace_limit(setup.spec));
  choose_implementations(setup, context, NetMode::kInference);
  Weights weights = load_weights(trained.checkpoint, setup, context.device(),
                                 {.config = write_yaml(setup.config)});
  Predictor predictor(setup.layers, weights, context);
  const std::vector<float> all =
      activations.empty()
          ? predictor.logits(dataset, samples.split)
          : predictor.logits(dataset, samples.split, writer_of_activations(activations));
  const auto size = std::ssize(all) / std::ssize(samples.names);
  std::vector<std::vector<float>> outputs;
  for (auto row = all.begin(); row != all.end(); row += size) {
    if (!std::all_of(row, row + size, [](float value) { return std::isfinite(value); })) {
      throw RunError(trained.checkpoint.string() + ": what the network makes of " +
                     samples.names[outputs.size()] + " is not finite");
    }
    outputs.emplace_back(row, row + size);
  }
  return outputs;
}

// How a kind of prediction is told: the columns and the lines of a sample in the table, and its
// part of the JSON object.
struct Telling {
  std::vector<std::string> header;
  std::function<std::vector<std::vector<std::string>>(const std::vector<float>& outputs)> lines;
  std::function<std::pair<std::string, json>(const std::vector<float>& outputs)> object;
};

Telling of_classes(const DatasetInfo& info, int64_t top) {
  const auto likeliest_of = [top](const std::vector<float>& outputs) {
    return likeliest(softmax(outputs.data(), outputs.size()), static_cast<size_t>(top));
  };
  const auto lines = [=, &info](const std::vector<float>& outputs) {
    std::vector<std::vector<std::string>> rows;
    for (const Prediction& each : likeliest_of(outputs)) {
      rows.push_back({printable(class_name(info, each.number)),
                      fmt::format("{:.2f}%", 100.0 * each.confidence)});
    }
    return rows;
  };
  const auto object = [=, &info](const std::vector<float>& outputs) {
    json list = json::array();
    for (const Prediction& each : likeliest_of(outputs)) {
      list.push_back({{"class", each.number},
                      {"name", class_name(info, each.number)},
                      {"confidence", each.confidence}});
    }
    return std::pair<std::string, json>("predictions", list);
  };
  return {{"class", "confidence"}, lines, object};
}

Telling of_numbers(const std::vector<std::string>& names) {
  const auto lines = [](const std::vector<float>& outputs) {
    std::vector<std::string> row;
    for (const float number : outputs) row.push_back(fmt::format("{:.6g}", number));
    return std::vector<std::vector<std::string>>{row};
  };
  const auto object = [names](const std::vector<float>& outputs) {
    json numbers = json::object();
    for (size_t i = 0; i < names.size(); ++i) numbers[names[i]] = outputs[i];
    return std::pair<std::string, json>("numbers", numbers);
  };
  std::vector<std::string> header;
  for (const std::string& name : names) header.push_back(printable(name));
  return {header, lines, object};
}

const TensorDesc& result_of(const std::vector<ResolvedLayer>& layers) {
  const int reader = result_reader(layers);
  return reader == kField ? layers.back().layer->outputs()[0]
                          : layers[static_cast<size_t>(reader)].layer->inputs()[0];
}

// Outputs have the names of the columns that they were trained to be, or else numbers.
std::vector<std::string> names_of_outputs(const std::vector<ResolvedLayer>& layers,
                                          const ResolvedLayer& loss, const DatasetInfo& info) {
  const Shape& shape = result_of(layers).shape;
  const int64_t count = shape.elements() / shape[0];
  for (const RecordField& record : info.records) {
    const bool reads =
        std::any_of(loss.inputs.begin(), loss.inputs.end(), [&](const InputSource& input) {
          return input.layer == kField && input.field == record.name;
        });
    if (reads && std::ssize(record.elements) == count) return record.elements;
  }
  return numbered_classes(count);
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
  const int64_t scale = info.has_target_images() ? info.target.height / info.height : 1;
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
      if (info.has_target_images()) {
        info.target.height = scale * image.height;
        info.target.width = scale * image.width;
      }
      predictor.reset();  // its memory, before the next takes its own
      resize_network(trained, info);
      check_parameters(setup.layers, weights, options.images[i]);
      choose_implementations(setup, context, NetMode::kInference);
      predictor.emplace(setup.layers, weights, context);
    }
    predictor->predict(info, Split{1, planes_of(image)}, &values);
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
  const std::vector<ResolvedLayer>& layers = trained.setup.layers;
  const int last = last_loss(layers);
  const ResolvedLayer* const loss = last == kField ? nullptr : &layers[static_cast<size_t>(last)];
  const bool classes = !loss || loss->layer->takes_labels();
  if (!options.out.empty()) {
    throw ConfigError("--out: is of networks that make pictures, and this one tells " +
                      std::string(classes ? "classes" : "numbers"));
  }
  const Samples samples = read_samples(trained, dataset, options);
  const Telling telling = classes ? of_classes(dataset, options.top)
                                  : of_numbers(names_of_outputs(layers, *loss, dataset));
  const auto outputs = outputs_of(trained, dataset, samples, options.activations);
  const std::string kind = dataset.numbers ? "row" : "image";
  std::vector<std::vector<std::string>> table = {telling.header};
  table[0].insert(table[0].begin(), kind);
  json list = json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string name = printable(samples.names[i]);
    for (std::vector<std::string>& line : telling.lines(outputs[i])) {
      line.insert(line.begin(), std::exchange(name, ""));
      table.push_back(std::move(line));
    }
    const auto& [key, object] = telling.object(outputs[i]);
    list.push_back({{kind, samples.names[i]}, {key, object}});
  }
  const json result = {{"name", trained.setup.spec.name},
                       {"backend", trained.setup.spec.backend.name},
                       {"checkpoint", trained.checkpoint.string()},
                       {kind + "s", list}};
  const std::string text = options.json ? json_text(result) + "\n" : format_table(table);
  std::fputs(text.c_str(), stdout);
}

}  // namespace duet
