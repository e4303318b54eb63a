// Training on the CPU: it learns, resumes to the same bits, stops when the loss is not finite, and
// keeps its checkpoints whole.
#include "train/step/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "support/network.h"
#include "support/text.h"
#include "support/training_cases.h"
#include "train/checkpoint/checkpoint.h"

namespace duet {
namespace {

TEST(Training, LearnsSyntheticImages) {
  TestTraining t(small_training("cpu"));
  for (int64_t i = 0; i < 6 * t.training->steps_per_epoch(); ++i) t.training->step();
  EXPECT_GT(t.training->evaluation().run().accuracy, 0.6);  // chance is 0.25
  EXPECT_EQ(t.training->evaluation().run().rows,
            250);  // every image once, the last batch partly empty
}

TEST(Training, InfersWhatItEvaluates) {
  check_inference("cpu");
  check_inference("cpu", streamed_training);
}

// Training hits are of the labels with the larger share; those of an evaluation of all.
TEST(Training, LearnsFromMixedImages) {
  TestTraining mixed(mixed_training("cpu")), plain(small_training("cpu"));
  for (int64_t i = 0; i < 6 * mixed.training->steps_per_epoch(); ++i) {
    mixed.training->step();
    plain.training->step();
  }
  EXPECT_EQ(mixed.training->state().totals[1].weight, plain.training->state().totals[1].weight);
  EXPECT_GT(mixed.training->state().last_loss, plain.training->state().last_loss);
  const Metrics metrics = mixed.training->evaluation().run();
  EXPECT_EQ(metrics.rows, 250);
  EXPECT_GT(metrics.accuracy, 0.6);  // chance is 0.25
  int64_t rows = 0, right = 0;
  for (const ClassMetrics& each : metrics.classes) {
    rows += each.rows;
    right += each.right;
  }
  EXPECT_EQ(rows, 250);
  EXPECT_EQ(static_cast<double>(right) / 250, metrics.accuracy);
}

// The same data, order and masks: only rounding sets the two apart.
TEST(Training, LearnsInBf16AsInFp32) {
  for (const auto network : {small_training, small_residual_training}) {
    TestTraining wide(network("cpu_reference")), narrow(network("cpu_reference\nmath: bf16"));
    const int64_t steps = 6 * wide.training->steps_per_epoch();
    for (int64_t i = 0; i < steps; ++i) {
      wide.training->step();
      narrow.training->step();
      if (i >= 10) continue;  // later they part by themselves
      const double expected = wide.training->state().last_loss;
      EXPECT_NEAR(narrow.training->state().last_loss, expected, 0.02 * expected) << i;
    }
    EXPECT_NEAR(narrow.training->evaluation().run().accuracy,
                wide.training->evaluation().run().accuracy, 0.1);
    EXPECT_GT(narrow.training->evaluation().run().accuracy, 0.6);  // chance is 0.25
  }
}

TEST(Training, ACheckpointOfBf16IsFloat32AndEvaluatesInFp32) {
  const std::filesystem::path path = temporary_path("bf16.safetensors");
  TestTraining narrow(small_residual_training("cpu\nmath: bf16"));
  for (int i = 0; i < 20; ++i) narrow.training->step();
  const CheckpointInfo info{.config = small_residual_training("cpu\nmath: bf16"), .data = "0"};
  save_checkpoint(path, *narrow.training, info);
  TestTraining wide(small_residual_training("cpu"));
  const CheckpointInfo fp32{.config = small_residual_training("cpu"), .data = "0"};
  EXPECT_TRUE(load_parameters(path, wide.training->weights(), fp32).empty());
  for (const Parameter& parameter : wide.training->weights().parameters()) {
    EXPECT_EQ(wide.training->weights().read(parameter), narrow.training->weights().read(parameter));
  }
  EXPECT_NEAR(wide.training->evaluation().run().loss, narrow.training->evaluation().run().loss,
              0.02 * narrow.training->evaluation().run().loss);
  EXPECT_THROW(load_checkpoint(path, *wide.training, fp32), ConfigError);  // another training
  std::filesystem::remove(path);
}

TEST(Training, ResumesToTheSameBits) {
  check_resume("cpu", "cpu");
  check_resume("cpu", "cpu", mixed_training);
  check_resume("cpu\nmath: bf16", "cpu\nmath: bf16", small_residual_training);
  check_resume("cpu", "cpu", small_residual_training);
}

TEST(Training, ResumesAveragedWeightsToTheSameBits) {
  check_resume("cpu", "cpu", averaged_training);
}

TEST(Training, LearnsAndResumesByMuon) {
  check_resume("cpu", "cpu", muon_training);
  TestTraining t(muon_training("cpu"));
  for (int64_t i = 0; i < 12 * t.training->steps_per_epoch(); ++i) t.training->step();
  EXPECT_GT(t.training->evaluate().accuracy, 0.6);
}

TEST(Checkpoint, RefusesTheStateOfAnotherOptimizer) {
  const std::filesystem::path path = temporary_path("optimizer.safetensors");
  const CheckpointInfo info{.config = small_residual_training("cpu"), .data = "0"};
  TestTraining adam(small_residual_training("cpu"));
  save_checkpoint(path, *adam.training, info);
  TestTraining averaged(averaged_training("cpu"));
  const CheckpointInfo other{.config = averaged_training("cpu"), .data = "0"};
  EXPECT_THROW(load_checkpoint(path, *averaged.training, other), ConfigError);
  try {  // told as the same configuration, which it is not
    load_checkpoint(path, *averaged.training, info);
    ADD_FAILURE() << "taken";
  } catch (const DataError& error) {
    EXPECT_TRUE(has(error.what(), "another optimizer", "optimizer.weights.conv1.weight"));
  }
  load_checkpoint(path, *averaged.training, other, true);
  const auto& parameter = averaged.training->weights().parameters()[0];
  EXPECT_EQ(averaged.training->weights().read(parameter, averaged.training->result()),
            adam.training->weights().read(parameter));
  std::filesystem::remove(path);
}

// It goes on from the weights that were trained and keeps what the optimizer knows; where the average
// is new, it begins there.
TEST(Checkpoint, AveragingCanBeTurnedOnAndOff) {
  const std::filesystem::path path = temporary_path("turned.safetensors");
  const std::string with = averaged_training("cpu"), ema = "ema: 0.9, ";
  const std::string without = std::string(with).erase(with.find(ema), ema.size());
  const auto trained = [](TestTraining& t, const Tensor& memory) {
    std::vector<float> all;
    for (const Parameter& parameter : t.training->weights().parameters()) {
      if (!parameter.spec.trained()) continue;
      for (float v : t.training->weights().read(parameter, memory)) all.push_back(v);
    }
    return all;
  };
  const auto resumed = [&](const std::string& before, const std::string& now) {
    TestTraining first(before);
    for (int i = 0; i < 15; ++i) first.training->step();
    save_checkpoint(path, *first.training, {.config = before, .data = "0"});
    TestTraining second(now);
    const Resumed how = load_checkpoint(path, *second.training, {.config = now, .data = "0"}, true);
    const Tensor w = second.training->weights().trained();
    EXPECT_EQ(trained(second, w), trained(first, first.training->weights().trained())) << now;
    EXPECT_EQ(trained(second, second.training->result()), trained(second, w)) << now;
    const auto before_states = first.training->optimizer_states();
    const auto now_states = second.training->optimizer_states();
    for (size_t i = 0; i < 2; ++i) {  // exp_avg, exp_avg_sq
      EXPECT_EQ(trained(second, now_states[i].second), trained(first, before_states[i].second));
    }
    return join(how.changes, "; ");
  };
  EXPECT_EQ(resumed(with, without), "optimizer.ema: 0.9 -> (none)");
  EXPECT_EQ(resumed(without, with),
            "optimizer.ema: (none) -> 0.9; the average of the weights begins anew");
  std::filesystem::remove(path);
}

// A layer_norm over three axes has a weight of three. AdamW moves it in muon, and decay_biases: false
// leaves it out, as if it were flat.
TEST(Training, AWeightOfANormIsNoMatrix) {
  const std::string layers =
      "\nlayers:\n  - {name: norm, type: layer_norm, axes: 3}\n  - {type: flatten}\n  - {name: fc, "
      "type: linear, out_features: 10}\n  - {type: softmax_cross_entropy}\n";
  const std::string flat =
      changed(layers, {{"  - {name: norm, type: layer_norm, axes: 3}\n", ""},
                       {"{type: flatten}", "{type: flatten}\n  - {name: norm, type: layer_norm}"}});
  for (const std::string optimizer :
       {"{type: muon}", "{type: adamw, weight_decay: 0.5, decay_biases: false}"}) {
    const auto moved = [&](const std::string& network) {
      TestTraining t(
          "backend: cpu\ndata: {dataset: synthetic_images, batch: 50, size: 8, classes: 4, "
          "train_count: 200, validation_count: 50}\noptimizer: " +
          optimizer + network);
      for (int i = 0; i < 5; ++i) t.training->step();
      return t.training->weights().read(t.training->weights().parameters()[0]);
    };
    EXPECT_EQ(moved(layers), moved(flat)) << optimizer;
  }
}

TEST(Training, EvaluatesAndSavesTheAveragedWeights) {
  const std::filesystem::path path = temporary_path("averaged.safetensors");
  const CheckpointInfo info{.config = averaged_training("cpu"), .data = "0"};
  TestTraining t(averaged_training("cpu"));
  for (int i = 0; i < 20; ++i) t.training->step();
  const std::vector<double> before = snapshot(t);
  const double loss = t.training->evaluate().loss;
  EXPECT_EQ(snapshot(t), before);
  EXPECT_NE(loss, t.training->evaluation().run().loss);  // that of the weights in training
  save_checkpoint(path, *t.training, info);
  TestTraining plain(small_residual_training("cpu"));
  load_parameters(path, plain.training->weights(), {.config = small_residual_training("cpu")});
  EXPECT_EQ(plain.training->evaluate().loss, loss);
  std::filesystem::remove(path);
}

// A block saves what its layers would, under their names, and the parts compute it.
TEST(Training, ACheckpointOfABlockIsThatOfItsLayers) {
  for (const std::string backend : {"cpu", "cpu\nmath: bf16"}) {
    check_resume(backend, backend + "\nfuse: false", small_residual_training);
    check_resume(backend + "\nfuse: false", backend, small_residual_training);
  }
}

TEST(Training, ATraceShowsEveryOperation) {
  check_trace("cpu");
  check_trace("cpu", streamed_training);
}

TEST(Training, ClassWeightsWeighMeansOverBatches) { check_weighted_means("cpu"); }

TEST(Training, StreamedDataGiveTheSameBits) { check_streaming("cpu"); }

TEST(Training, StopsWhereTheLossIsNotFinite) {
  check_halt("cpu");
  check_halt("cpu\nmath: bf16");
  check_halt("cpu", streamed_training);
}

TEST(Training, OptimizersAgreeWithTheirDefinition) {
  // One parameter, gradient by hand, against PyTorch's published update rules.
  Context context(Device::kCpu);
  const float loss = 1.0f;
  const auto run = [&](const std::string& yaml, const std::vector<float>& gradients) {
    ConfigNode config = read_yaml(yaml, "optimizer.yaml");
    ConfigErrors errors("optimizer.yaml");
    ConfigReader reader(config, "optimizer", errors);
    const auto optimizer = read_optimizer(reader);
    errors.raise_if_any();
    std::vector<float> w = {1, 1, 1, 1}, dw(4), s0(4), s1(4);
    const auto view = [](std::vector<float>& v) { return Tensor{{{4}}, v.data()}; };
    OptimizerTensors tensors{view(w), view(dw), {view(s0), view(s1)}};
    StepState state{.learning_rate = static_cast<float>(optimizer->learning_rate())};
    const auto update = optimizer->bind(context, tensors);
    for (float g : gradients) {
      dw.assign(4, g);
      update->queue(&state, {&loss, {.learning_rate = optimizer->learning_rate()}});
    }
    return w[0];
  };
  EXPECT_FLOAT_EQ(run("{type: sgd, learning_rate: 0.1}", {1, 2}), 1 - 0.1 - 0.2);
  EXPECT_FLOAT_EQ(run("{type: sgd, learning_rate: 0.1, momentum: 0.5}", {1, 2}),
                  1 - 0.1 - 0.1 * (0.5 + 2));
  EXPECT_FLOAT_EQ(run("{type: sgd, learning_rate: 0.1, momentum: 0.5, nesterov: true}", {1, 2}),
                  1 - 0.1 * 1.5 - 0.1 * (2 + 0.5 * 2.5));
  EXPECT_FLOAT_EQ(run("{type: sgd, learning_rate: 0.1, weight_decay: 0.5}", {1}), 1 - 0.1 * 1.5);
  // Adam's first step is the rate whatever the gradient; the second by the formula in double.
  EXPECT_NEAR(run("{type: adam, learning_rate: 0.1}", {3}), 0.9, 1e-6);
  const double m = 0.9 * 0.1 * 3 + 0.1 * 1, v = 0.999 * 0.001 * 9 + 0.001 * 1;
  const double second = 0.1 * (m / (1 - 0.81)) / (std::sqrt(v / (1 - 0.999 * 0.999)) + 1e-8);
  EXPECT_NEAR(run("{type: adam, learning_rate: 0.1}", {3, 1}), 0.9 - second, 1e-6);
}

TEST(Checkpoint, RefusesAnotherNetworkAndOtherSettings) {
  const std::filesystem::path path = temporary_path("other.safetensors");
  TestTraining t(small_training("cpu"));
  const CheckpointInfo info{.config = small_training("cpu"), .data = "0"};
  save_checkpoint(path, *t.training, info);

  std::string other = small_training("cpu");
  other.replace(other.find("out_channels: 4"), 15, "out_channels: 5");
  TestTraining different(other);
  EXPECT_THROW(load_checkpoint(path, *different.training, info), DataError);
  EXPECT_THROW(load_parameters(path, different.training->weights(), {}), DataError);
  const CheckpointInfo seed{.config = small_training("cpu\nseed: 2"), .data = "0"};
  EXPECT_THROW(load_checkpoint(path, *t.training, seed), ConfigError);
  EXPECT_EQ(load_checkpoint(path, *t.training, seed, true).changes.size(), 1u);
  const CheckpointInfo data{.config = info.config, .data = "1"};
  EXPECT_THROW(load_checkpoint(path, *t.training, data), ConfigError);
  const CheckpointInfo backend{.config = small_training("cpu_reference"), .data = "0"};
  EXPECT_EQ(load_checkpoint(path, *t.training, backend).changes,
            std::vector<std::string>{"backend: cpu -> cpu_reference"});
  std::filesystem::remove(path);
}

TEST(Training, PassesOfABlockCanBeMixed) { check_passes_of_a_block({"cpu_reference", "cpu_blas"}); }

}  // namespace
}  // namespace duet
