#include "support/training_cases.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/mixed_labels.h"
#include "measure/check/guarded_buffer.h"
#include "support/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/step/trace.h"

namespace duet {

namespace {

constexpr const char* kHead = R"(
data: {dataset: synthetic_images, batch: 100, size: 16, classes: 4, train_count: 1000, validation_count: 250}
optimizer: {type: adam, learning_rate: 0.005}
)";

}  // namespace

std::string small_training(const std::string& backend) {
  return "backend: " + backend + kHead + R"(
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3}
  - {type: max_pool2d, kernel: 2}
  - {type: relu}
  - {name: conv2, type: conv2d, out_channels: 8, kernel: 3}
  - {type: relu}
  - {type: max_pool2d, kernel: 2}
  - {type: flatten}
  - {type: dropout, p: 0.1}
  - {name: fc, type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)";
}

std::string streamed_training(const std::string& backend) {
  return changed(small_training(backend), {{"batch: 100", "batch: 100, stream: memory"}});
}

std::string mixed_training(const std::string& backend) {
  return changed(small_training(backend),
                 {{"batch: 100",
                   "batch: 100, augment: [{type: mixup, alpha: 0.4}, {type: horizontal_flip}]"}});
}

namespace {

std::string with_class_weights(const std::string& network) {
  const std::string loss = "type: softmax_cross_entropy";
  return changed(network, {{loss, loss + ", class_weights: [1, 100, 0, 0.25, 1, 1, 1, 1, 1, 1]"}});
}

}  // namespace

std::string weighted_training(const std::string& backend) {
  return with_class_weights(small_training(backend));
}

std::string weighted_mixed_training(const std::string& backend) {
  return with_class_weights(mixed_training(backend));
}

std::string small_residual_training(const std::string& backend) {
  return "backend: " + backend + kHead + R"(
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3, stride: 2, bias: false}
  - {name: bn1, type: batch_norm2d}
  - {type: relu}
  - name: block
    type: residual
    body:
      - {name: conv1, type: conv2d, out_channels: 6, kernel: 3, padding: 1, bias: false}
      - {name: bn1, type: batch_norm2d}
    shortcut:
      - {name: downsample.0, type: conv2d, out_channels: 6, kernel: 1}
    activation: relu
  - name: again
    type: residual
    body:
      - {name: conv1, type: conv2d, out_channels: 6, kernel: 3, padding: 1}
    activation: relu
  - {type: global_avg_pool2d}
  - {type: flatten}
  - {name: bn2, type: batch_norm1d}
  - {name: fc, type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)";
}

namespace {

std::string residual_training_by(const std::string& backend, const std::string& optimizer) {
  std::string yaml = small_residual_training(backend);
  const std::string adam = "type: adam";
  return yaml.replace(yaml.find(adam), adam.size(), optimizer);
}

}  // namespace

std::string averaged_training(const std::string& backend) {
  return residual_training_by(backend,
                              "type: adamw, ema: 0.9, clip_norm: 0.5, decay_biases: false");
}

std::string muon_training(const std::string& backend) {
  return residual_training_by(backend, "type: muon, ema: 0.9");
}

namespace {

// With that normalisation.
std::string frozen_block(const std::string& network, const std::string& norm) {
  return changed(
      network, {{norm, norm + ", frozen: true"},
                {"block\n    type: residual\n", "block\n    type: residual\n    frozen: true\n"}});
}

std::string frozen_trunk(const std::string& network) {
  const std::string first = "stride: 2, bias: false", again = "again\n    type: residual\n";
  return frozen_block(
      changed(network, {{first, first + ", frozen: true"}, {again, again + "    frozen: true\n"}}),
      "{name: bn1, type: batch_norm2d");
}

}  // namespace

std::string frozen_training(const std::string& backend) {
  return frozen_trunk(small_residual_training(backend));
}

std::string frozen_averaged_training(const std::string& backend) {
  return frozen_trunk(averaged_training(backend));
}

std::string frozen_behind_training(const std::string& backend) {
  return frozen_block(small_residual_training(backend), "{name: bn2, type: batch_norm1d");
}

std::vector<double> snapshot(TestTraining& t) {
  Training& training = *t.training;
  const StepState state = training.state();
  std::vector<double> values = {static_cast<double>(state.step), state.last_loss,
                                state.learning_rate};
  for (const Total& total : state.totals) {
    values.push_back(total.sum);
    values.push_back(total.weight);
  }
  for (const Parameter& parameter : training.weights().parameters()) {
    for (float v : training.weights().read(parameter)) {
      values.push_back(v);
    }
    if (!parameter.spec.trained()) continue;
    std::vector<std::pair<std::string, Tensor>> states = training.optimizer_states();
    states.emplace_back("result", training.result());
    for (const auto& [name, tensor] : states) {
      for (float v : training.weights().read(parameter, tensor)) {
        values.push_back(v);
      }
    }
  }
  return values;
}

std::filesystem::path temporary_path(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("duet-" + std::to_string(getpid()) + "-" + name);
}

void check_resume(const std::string& first, const std::string& second,
                  std::string (*network)(const std::string& backend)) {
  const std::filesystem::path path = temporary_path("resume.safetensors");
  const CheckpointInfo info{.config = network(first)};
  TestTraining whole(network(first));
  for (int i = 0; i < 25; ++i) whole.training->step();
  {
    TestTraining before(network(first));
    for (int i = 0; i < 13; ++i) before.training->step();
    save_checkpoint(path, *before.training, info);
  }
  TestTraining after(network(second));
  load_checkpoint(path, *after.training, info);
  for (int i = 0; i < 12; ++i) after.training->step();
  EXPECT_EQ(snapshot(whole), snapshot(after)) << first << " then " << second;
  std::filesystem::remove(path);
}

void check_resume_of_schedules(const std::string& backend) {
  for (const std::string schedule :
       {"step, step_size: 5, per: step, warmup_steps: 3", "exponential, gamma: 0.9, per: step",
        "cosine, warmup_steps: 20, total_steps: 30", "one_cycle, total_steps: 30",
        "linear, start_factor: 1, end_factor: 0.1, total_epochs: 3"}) {
    const std::string with = backend + "\nschedule: {type: " + schedule + "}";
    check_resume(with, with);
  }
}

namespace {

using nlohmann::json;

constexpr double kNanosecond = 1e-3;  // what times are written in

double end_of(const json& event) { return event["ts"].get<double>() + event["dur"].get<double>(); }

// Events of one track, which are in order, lie behind or inside each other, and so does the track
// have a name.
void check_tracks(const json& events) {
  std::map<std::pair<int, int>, std::vector<json>> tracks;
  std::set<std::pair<int, int>> named_tracks;
  std::set<int> named_processes;
  for (const json& event : events) {
    const std::string kind = event["ph"];
    const int process = event["pid"];
    if (kind == "X") tracks[{process, event["tid"]}].push_back(event);
    if (event["name"] == "thread_name") named_tracks.insert({process, event["tid"]});
    if (event["name"] == "process_name") named_processes.insert(process);
  }
  for (auto& [track, list] : tracks) {
    EXPECT_EQ(named_tracks.count(track), 1u);
    EXPECT_EQ(named_processes.count(track.first), 1u);
    std::stable_sort(list.begin(), list.end(), [](const json& a, const json& b) {
      return a["ts"] != b["ts"] ? a["ts"] < b["ts"] : a["dur"] > b["dur"];
    });
    std::vector<json> open;
    for (const json& event : list) {
      EXPECT_GE(event["dur"], 0.0);
      while (!open.empty() && end_of(open.back()) <= event["ts"].get<double>() + kNanosecond) {
        open.pop_back();
      }
      const double limit = open.empty() ? INFINITY : end_of(open.back());
      EXPECT_LE(end_of(event), limit + 0.1 * kNanosecond) << event;
      open.push_back(event);
    }
  }
}

}  // namespace

void check_streaming(const std::string& backend) {
  TestTraining resident(small_training(backend)), streamed(streamed_training(backend));
  EXPECT_FALSE(resident.training->batches().is_streamed());
  EXPECT_TRUE(streamed.training->batches().is_streamed());
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (TestTraining* t : {&resident, &streamed}) {
      for (int64_t i = 0; i < t->training->steps_per_epoch(); ++i) t->training->step();
    }
    EXPECT_EQ(snapshot(streamed), snapshot(resident));
    const Metrics here = streamed.training->evaluate(), there = resident.training->evaluate();
    EXPECT_EQ(here.loss, there.loss);
    EXPECT_EQ(here.rows, there.rows);
    EXPECT_EQ(here.confusion, there.confusion);
  }
  check_resume(backend, backend, streamed_training);
}

void check_inference(const std::string& backend,
                     std::string (*network)(const std::string& backend)) {
  TestTraining t(network(backend));
  Evaluation& evaluation = t.training->evaluation();
  const auto outputs = [&] { return values_of(evaluation.outputs(), t.context.device()); };
  std::vector<double> before;
  for (int i = 0; i < 2; ++i) {
    t.training->step();
    evaluation.restart();
    for (int64_t left = 20; left > 0;) left -= evaluation.infer_some(left);
    const std::vector<double> inferred = outputs();
    EXPECT_NE(inferred, before);
    EXPECT_EQ(evaluation.state().step, 0u);
    EXPECT_EQ(evaluation.metrics().rows, 0);
    evaluation.step();
    EXPECT_EQ(outputs(), inferred);
    evaluation.infer_some(1);
    EXPECT_NE(outputs(), inferred);  // of the next batch
    before = inferred;
  }
}

void check_trace(const std::string& backend, std::string (*network)(const std::string& backend)) {
  constexpr size_t kSteps = 3;
  TestTraining t(network(backend));
  Training& training = *t.training;
  const bool gpu = t.context.device() == Device::kGpu;
  const StepTrace trace = trace_steps(training, kSteps);
  EXPECT_EQ(training.state().step, training.has_graph() ? 2 * kSteps : kSteps);
  EXPECT_EQ(trace.graph_steps.size(), training.has_graph() ? kSteps : 0u);

  const Program& operations = training.program();
  ASSERT_EQ(trace.steps.size(), kSteps);
  ASSERT_EQ(trace.operations.size(), kSteps * operations.size());
  double before = 0.0;
  for (size_t i = 0; i < trace.operations.size(); ++i) {
    const TracedOperation& traced = trace.operations[i];
    const Span& step = trace.steps[traced.step];
    EXPECT_EQ(traced.operation, i % operations.size());
    EXPECT_EQ(traced.step, i / operations.size());
    EXPECT_GE(traced.ran.start, before) << i;
    EXPECT_GE(traced.ran.end, traced.ran.start) << i;
    EXPECT_GE(traced.ran.start, step.start) << i;
    EXPECT_LE(traced.ran.end, step.end) << i;
    before = traced.ran.end;
  }

  const json file = json::parse(trace_json(trace, training, {{"name", "small"}}).dump());
  EXPECT_EQ(file["otherData"]["name"], "small");
  const json& events = file["traceEvents"];
  check_tracks(events);
  std::map<int, std::vector<std::string>> names;  // by process
  std::map<int, double> microseconds;             // of operations, by step
  std::map<int, double> step_microseconds;
  for (const json& event : events) {
    if (event["ph"] != "X") continue;
    const json& args = event["args"];
    if (event["cat"] == "step") step_microseconds[args["step"]] = event["dur"];
    if (!args.contains("layer")) continue;
    names[event["pid"]].push_back(event["name"]);
    EXPECT_NEAR(args["microseconds"], event["dur"], 2 * kNanosecond);
    if (event["pid"] == 1) microseconds[args["step"]] += event["dur"].get<double>();
  }
  const bool streamed = training.batches().is_streamed();
  EXPECT_EQ(!trace.filled.empty(), streamed);
  EXPECT_EQ(!trace.copied.empty(), streamed && gpu);
  std::map<std::string, std::set<uint64_t>> staged;  // steps whose batches were, by what was done
  for (const json& event : events) {
    if (event["ph"] == "X" && event["cat"] == "batch") {
      staged[event["name"]].insert(event["args"]["batch_of_step"].get<uint64_t>());
      EXPECT_EQ(event["pid"], event["name"] == "copy" ? 1 : 2);
    }
  }
  // What was prepared when the trace began is not in it.
  const uint64_t last = training.state().step;
  EXPECT_EQ(staged["prepare"].count(last), streamed ? 1u : 0u);
  EXPECT_EQ(staged["copy"].count(last), streamed && gpu ? 1u : 0u);
  std::vector<std::string> expected;
  for (size_t step = 0; step < kSteps; ++step) {
    for (const auto& operation : operations) expected.push_back(operation.name());
  }
  EXPECT_EQ(names[1], expected);
  EXPECT_EQ(names[2], gpu ? expected : std::vector<std::string>());
  for (size_t step = 1; step <= kSteps; ++step) {
    const double slack = 2 * kNanosecond * static_cast<double>(operations.size());
    EXPECT_GT(microseconds[step], 0.0);
    EXPECT_LE(microseconds[step], step_microseconds[step] + slack);
    // Most of a step is its operations, also where a mark between two costs a microsecond.
    EXPECT_GE(microseconds[step], 0.3 * step_microseconds[step]);
  }
  for (const ResolvedLayer& layer : t.network.layers) {
    for (const PassChoice& choice : layer.passes) {
      const std::string name = layer.name + " " + std::string(to_string(choice.pass));
      const bool shown = std::count(expected.begin(), expected.end(), name) > 0;
      EXPECT_EQ(shown, runs(layer, choice.pass)) << name;
    }
  }
}

void check_weighted_means(const std::string& backend) {
  for (const auto network : {weighted_training, weighted_mixed_training}) {
    const std::string text = network(backend);
    std::vector<double> losses;
    for (const std::string batch : {"250", "100", "16", "1"}) {
      TestTraining t(changed(text, {{"batch: 100", "batch: " + batch}}));
      const Metrics metrics = t.training->evaluation().run();
      EXPECT_EQ(metrics.rows, 250);
      EXPECT_NEAR(metrics.loss, losses.empty() ? metrics.loss : losses[0], 1e-5 * metrics.loss)
          << backend << " batch " << batch;
      losses.push_back(metrics.loss);
    }
    TestTraining t("graph: false\n" + text);
    const std::vector<float> weights = {1, 100, 0, 0.25, 1, 1, 1, 1, 1, 1};
    double loss_sum = 0, weight_sum = 0;
    for (int i = 0; i < 12; ++i) {  // the last of an epoch is at 10
      t.training->step();
      const Tensor& labels = t.training->net().labels();
      const int64_t rows = labels.desc.shape[0], columns = labels.elements() / rows;
      const auto bytes = download(labels.memory, t.context.device(), labels.bytes());
      const auto* label = reinterpret_cast<const int32_t*>(bytes.data());
      double weight = 0;
      for (int64_t row = 0; row < rows; ++row, label += columns) {
        if (label[0] < 0) continue;
        const double share = columns == 1 ? 1.0 : label[2] / static_cast<double>(kWholeShare);
        weight += share * weights.at(label[0]);
        if (columns > 1) weight += (1.0 - share) * weights.at(label[1]);
      }
      loss_sum += weight * t.training->state().last_loss;
      weight_sum += weight;
      const StepState state = t.training->state();
      EXPECT_NEAR(state.totals[0].weight, weight_sum, 1e-6 * weight_sum)
          << backend << " step " << i;
      const Metrics so_far = t.training->totals().metrics(state);
      EXPECT_NEAR(so_far.loss, loss_sum / weight_sum, 1e-6 * loss_sum / weight_sum);
      EXPECT_EQ(so_far.rows, 100 * (i + 1));
    }
    t.training->clear_totals();
    EXPECT_EQ(t.training->state().totals[0].weight, 0.0);
    check_resume(backend, backend, network);
  }
}

void check_halt(const std::string& backend, std::string (*network)(const std::string& backend)) {
  TestTraining t(network(backend));
  Training& training = *t.training;
  for (int i = 0; i < 3; ++i) training.step();
  const Parameter& parameter = training.weights().parameters()[2];  // conv2.weight
  const float rate = training.state().learning_rate;
  std::vector<float> values = training.weights().read(parameter);
  values[5] = NAN;
  training.weights().write(parameter, values);
  for (int i = 0; i < 12; ++i) training.step();  // more than batches that are streamed ahead
  const StepState state = training.state();
  EXPECT_EQ(state.halted, 1);
  EXPECT_EQ(state.step, 3u);  // nothing advanced
  EXPECT_EQ(state.learning_rate, rate);
  EXPECT_TRUE(std::isfinite(state.totals[0].sum));
  const Parameter& first = training.weights().parameters()[0];
  for (float v : training.weights().read(first)) {
    ASSERT_TRUE(std::isfinite(v));  // and nothing was spoilt
  }
  EXPECT_TRUE(has(training.explain_halt(), "parameter weight of layer conv2"));
}

void check_passes_of_a_block(const std::vector<std::string>& ids, const std::string& math,
                             double tolerance) {
  const auto losses = [&](const std::string& forward, const std::string& backward) {
    TestTraining t("math: " + math + "\nbackend: " + forward + R"(
data: {dataset: synthetic_images, batch: 8, size: 14, train_count: 64, validation_count: 8}
optimizer: {type: sgd, learning_rate: 0.05}
layers:
  - {type: conv2d, out_channels: 4, kernel: 3, backend: {backward_filter: )" +
                   backward + ", backward_data: " + backward + R"(}}
  - {type: max_pool2d, kernel: 2}
  - {type: relu}
  - {type: conv2d, out_channels: 4, kernel: 3, backend: {backward_filter: )" +
                   backward + ", backward_data: " + backward + R"(}}
  - {type: max_pool2d, kernel: 2}
  - {type: relu}
  - {type: flatten}
  - {type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)");
    EXPECT_EQ(t.network.layers.size(), 5u) << "not fused: " << forward << " " << backward;
    std::vector<double> losses;
    for (int i = 0; i < 10; ++i) {
      t.training->step();
      losses.push_back(t.training->state().last_loss);
    }
    return losses;
  };
  const std::vector<double> expected = losses(ids[0], ids[0]);
  for (const std::string& forward : ids) {
    for (const std::string& backward : ids) {
      const std::vector<double> found = losses(forward, backward);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], tolerance * expected[i])
            << "step " << i << ": forward by " << forward << ", backward by " << backward;
      }
    }
  }
}

}  // namespace duet
