#include "train/evaluate/evaluate.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/set/degrade.h"
#include "data/set/fingerprint.h"
#include "device/stopwatch.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/checkpoint/checkpoint.h"
#include "train/evaluate/class_report.h"
#include "train/evaluate/evaluation.h"

namespace duet {

namespace fs = std::filesystem;

Dataset load_dataset(const Setup& setup, const std::string& folder) {
  Dataset data = setup.dataset.load(folder);
  for (const std::string& warning : data.warnings) spdlog::warn(warning);
  const int64_t left_out = data.left_out.count;
  spdlog::info("{}: {} training and {} validation images, {}{}", data.name,
               format_count(data.train.count), format_count(data.validation.count),
               left_out > 0 ? format_count(left_out) + " left out, " : "",
               data.source == "generated" ? data.source : "from " + data.source);
  return data;
}

void evaluate(const fs::path& checkpoint, Setup& setup, const EvaluateOptions& options) {
  const NetSpec& spec = setup.spec;
  const auto saved = describe_checkpoint(checkpoint);
  const Dataset data = load_dataset(setup, options.data);
  Context context(device_of(spec));
  context.set_workspace_limit(workspace_limit(spec));
  choose_implementations(setup, context, NetMode::kInference);
  const CheckpointInfo now = {.config = write_yaml(setup.config), .data = fingerprint(data)};
  Weights weights = load_weights(checkpoint, setup, context.device(), now, options.allow_changes);
  Net net(setup.layers, weights, context, Net::Mode::kInference);
  Evaluation evaluation(net, as_trained(data, saved), data.validation);
  if (spec.graph && context.device() == Device::kGpu) evaluation.capture(spec.graph_steps);
  const Elapsed watch;
  const Metrics metrics = evaluation.run();
  const double seconds = watch.seconds();
  if (!std::isfinite(metrics.loss)) {
    throw RunError(checkpoint.string() + ": the validation loss of its weights is not finite");
  }
  const double rate = per_second(metrics.rows, seconds);
  nlohmann::json result = {{"name", spec.name},
                           {"backend", spec.backend.name},
                           {"dataset", data.name},
                           {"checkpoint", checkpoint.string()},
                           {"images_per_second", rate}};
  result.update(evaluation_json(data, metrics));
  std::string beside;
  if (data.has_target_images() && !data.validation.images.empty()) {
    const int64_t border = data.target.height > data.height ? data.target.height / data.height : 0;
    const double psnr = psnr_of_images(data, data.validation, border);
    result["images_psnr"] = psnr;
    beside = fmt::format("{}: psnr {:.4f}, without {} pixels at each side\n",
                         border > 0 ? "the images enlarged by bicubic" : "the images themselves",
                         psnr, border);
  }
  const std::string text = fmt::format(
      "{}: validation {} of {} images, {} images/s\n{}", checkpoint.string(),
      values_text(metrics, ", "), format_count(metrics.rows), format_count(std::llround(rate)),
      metrics.classes.empty() ? beside : classes_text(data, metrics));
  std::fputs(options.json ? (json_text(result) + "\n").c_str() : text.c_str(), stdout);
}

void run_evaluate(TrainedOptions trained, std::optional<int64_t> batch,
                  const EvaluateOptions& options) {
  if (batch) trained.assignments.push_back("data.batch=" + std::to_string(*batch));
  Trained opened = open_trained(trained);
  evaluate(opened.checkpoint, opened.setup, options);
}

}  // namespace duet
