// Training on the GPU: the graph gives the eager step's bits, families agree, runs repeat and
// resume.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "support/gpu_test.h"
#include "support/gradients_aside.h"
#include "support/network.h"
#include "support/text.h"
#include "support/training_cases.h"

namespace duet {
namespace {

class TrainingOnGpu : public GpuTest {};

TEST_F(TrainingOnGpu, GraphEqualsEagerBitForBit) {
  for (const std::string backend : {"custom", "cudnn"}) {
    for (const std::string extra :
         {"", "layout: nhwc\n", "fuse: false\n", "math: bf16\n", "math: bf16\nlayout: nhwc\n"}) {
      for (const auto network : {small_training, mixed_training, small_residual_training}) {
        TestTraining graph(extra + network(backend));
        TestTraining eager(extra + "graph: false\n" + network(backend));
        for (int i = 0; i < 12; ++i) {
          graph.training->step();
          eager.training->step();
        }
        EXPECT_EQ(snapshot(graph), snapshot(eager)) << backend << " " << extra;
        EXPECT_EQ(graph.training->evaluation().run().loss, eager.training->evaluation().run().loss);
      }
    }
  }
}

TEST_F(TrainingOnGpu, FrozenLayersAreThoseOfEagerSteps) {
  for (const std::string backend : {"custom", "cudnn"}) {
    for (const std::string extra : {"", "layout: nhwc\n", "fuse: false\n", "math: bf16\n"}) {
      for (const auto network :
           {frozen_training, frozen_averaged_training, frozen_behind_training}) {
        // cuDNN has no backward pass of a frozen batch normalisation.
        if (backend == "cudnn" && network == frozen_behind_training) continue;
        SCOPED_TRACE(backend + " " + extra);
        TestTraining graph(extra + network(backend)), cpu(extra + network("cpu_reference"));
        TestTraining eager(extra + "graph: false\n" + network(backend));
        const auto read = [](TestTraining& t, size_t i) {
          return t.training->weights().read(t.training->weights().parameters()[i]);
        };
        for (TestTraining* t : {&graph, &eager, &cpu}) t->training->step();
        EXPECT_NEAR(graph.training->state().last_loss, cpu.training->state().last_loss, 0.05);
        for (size_t i = 0; i < cpu.training->weights().parameters().size(); ++i) {
          const Parameter& parameter = cpu.training->weights().parameters()[i];
          if (parameter.name.starts_with("block.")) {
            EXPECT_EQ(read(graph, i), read(cpu, i)) << parameter.name;
          }
        }
        for (int i = 0; i < 12; ++i) {
          graph.training->step();
          eager.training->step();
        }
        EXPECT_EQ(snapshot(graph), snapshot(eager));
      }
    }
    check_resume(backend, backend, frozen_averaged_training);
  }
}

TEST_F(TrainingOnGpu, InfersWhatItEvaluates) {
  for (const std::string backend : {"custom", "cudnn"}) {
    check_inference(backend);
    check_inference(backend, streamed_training);
  }
}

TEST_F(TrainingOnGpu, SeveralStepsInAGraphAreThoseOneByOne) {
  const std::string schedule = "schedule: {type: one_cycle, total_epochs: 3}\n";
  for (const std::string backend : {"custom", "cudnn"}) {
    for (const auto network : {small_training, averaged_training, muon_training}) {
      // Most of them have a schedule of their own, or none that ends.
      const std::string text =
          network == small_training ? network(backend + "\n" + schedule) : network(backend);
      TestTraining several("graph_steps: 4\n" + text), single("graph_steps: 1\n" + text),
          eager("graph: false\n" + text);
      EXPECT_EQ(several.training->steps_at_once(), 4);
      EXPECT_EQ(single.training->steps_at_once(), 1);
      EXPECT_EQ(eager.training->steps_at_once(), 1);
      for (const int count : {4, 1, 9, 3, 8}) {  // by groups, with and without a rest
        for (TestTraining* t : {&several, &single, &eager}) t->training->step(count);
        const StepState state = several.training->state();
        EXPECT_EQ(state.last_learning_rate, several.training->schedule().rate(state.step - 1));
      }
      EXPECT_EQ(several.training->state().step, 25u);
      EXPECT_EQ(snapshot(several), snapshot(single)) << backend;
      EXPECT_EQ(snapshot(several), snapshot(eager)) << backend;
      TestTraining pairs("graph_steps: 2\n" + text);
      pairs.training->step(25);
      EXPECT_EQ(snapshot(pairs), snapshot(eager)) << backend;
      EXPECT_EQ(pairs.training->evaluation().batches().per_epoch(), 3);  // a pair, and a rest
      const Metrics by_pairs = pairs.training->evaluate(), alone = eager.training->evaluate();
      EXPECT_EQ(by_pairs.loss, alone.loss);
      EXPECT_EQ(by_pairs.rows, alone.rows);
      EXPECT_EQ(by_pairs.confusion, alone.confusion);
    }
  }
  // Each batch of a stream is staged by the host.
  TestTraining streamed("graph_steps: 4\n" + streamed_training("custom"));
  EXPECT_EQ(streamed.training->steps_at_once(), 1);
}

TEST_F(TrainingOnGpu, WhatIsPreparedOfWeightsIsNeverStale) {
  for (const std::string backend : {"custom", "cudnn"}) {
    for (const std::string math : {"fp32", "bf16"}) {
      const std::string head = "math: " + math + "\n";
      TestTraining graph(head + averaged_training(backend)),
          plain(head + "graph: false\n" + averaged_training(backend));
      for (int i = 0; i < 3; ++i) {
        graph.training->step();
        plain.training->step();
        // A net that has prepared nothing yet.
        Net fresh(plain.network.layers, plain.training->weights(), plain.context,
                  Net::Mode::kInference);
        Evaluation evaluation(fresh, plain.data, plain.data.validation);
        EXPECT_EQ(graph.training->evaluation().run().loss, evaluation.run().loss)
            << backend << " " << math << " " << i;
        EXPECT_EQ(graph.training->evaluate().loss, plain.training->evaluate().loss);
      }
    }
  }
}

// Those are held back until all else has been queued: nothing may overwrite what they read.
TEST_F(TrainingOnGpu, GradientsBesideOtherPassesAreTheSame) {
  for (const std::string backend : {"custom", "cudnn"}) {
    for (const std::string extra : {"", "fuse: false\n", "math: bf16\nlayout: nhwc\n"}) {
      for (const auto network : {small_training, small_residual_training}) {
        TestTraining t("graph: false\n" + extra + network(backend));
        t.training->step();
        check_gradients_aside(t, backend + " " + extra);
      }
    }
  }
}

TEST_F(TrainingOnGpu, WhatAStepPreparesOfWeightsGivesTheSameBits) {
  for (const std::string extra : {"", "fuse: false\n"}) {
    const std::string text =
        extra + "math: bf16\n" +
        changed(small_training("custom"), {{"  - {name: fc,",
                                            "  - {name: fc1, type: linear, out_features: 64, "
                                            "backend: custom_wgmma}\n"
                                            "  - {type: relu}\n"
                                            "  - {name: fc,"}});
    TestTraining graph(text), eager("graph: false\n" + text);
    const std::vector<Net::Node>& nodes = graph.training->net().nodes();
    const auto fc1 = std::find_if(nodes.begin(), nodes.end(), [](const Net::Node& node) {
      return node.name.starts_with("fc1");
    });
    ASSERT_TRUE(fc1 != nodes.end() && fc1->step(Pass::kForward)->takes_prepared);
    for (const int count : {1, 8, 11}) {
      graph.training->step(count);
      eager.training->step(count);
      EXPECT_EQ(snapshot(graph), snapshot(eager)) << extra;
      EXPECT_EQ(graph.training->evaluate().loss, eager.training->evaluate().loss) << extra;
    }
  }
}

TEST_F(TrainingOnGpu, EveryOptimizerIsTheSameInAGraphAndAfterAStop) {
  for (const auto network : {averaged_training, muon_training}) {
    TestTraining graph(network("custom")), eager("graph: false\n" + network("custom"));
    for (int i = 0; i < 12; ++i) {
      graph.training->step();
      eager.training->step();
    }
    EXPECT_EQ(snapshot(graph), snapshot(eager));
    EXPECT_EQ(graph.training->evaluate().loss, eager.training->evaluate().loss);
    EXPECT_EQ(snapshot(graph), snapshot(eager));  // the weights are back in their place
    for (const std::string backend : {"custom", "cudnn"}) check_resume(backend, backend, network);
  }
}

TEST_F(TrainingOnGpu, LossesOfEveryKindAndOptimizerAgreeWithTheCpu) {
  const std::string loss = "type: softmax_cross_entropy";
  for (const std::string& kind :
       {loss + ", label_smoothing: 0.1, class_weights: [1, 2, 0.5, 1, 1, 1, 1, 1, 1, 1]",
        std::string("type: mse"), std::string("type: bce_with_logits"),
        std::string("type: multi_margin")}) {
    for (const auto network : {averaged_training, muon_training}) {
      const auto with_loss = [&](const std::string& backend) {
        std::string yaml = network(backend);
        return yaml.replace(yaml.find(loss), loss.size(), kind);
      };
      TestTraining cpu(with_loss("cpu")), custom(with_loss("custom")), cudnn(with_loss("cudnn"));
      for (int i = 0; i < 10; ++i) {
        for (TestTraining* t : {&cpu, &custom, &cudnn}) t->training->step();
        const double expected = cpu.training->state().last_loss;
        EXPECT_NEAR(custom.training->state().last_loss, expected, 1e-3 * expected) << kind << i;
        EXPECT_NEAR(cudnn.training->state().last_loss, expected, 1e-3 * expected) << kind << i;
      }
    }
  }
}

TEST_F(TrainingOnGpu, MixedImagesAreLearntAsOnTheCpu) {
  TestTraining cpu(mixed_training("cpu")), custom(mixed_training("custom")),
      naive(mixed_training("custom_naive")), cudnn(mixed_training("cudnn"));
  for (int i = 0; i < 20; ++i) {
    for (TestTraining* t : {&cpu, &custom, &naive, &cudnn}) t->training->step();
    const StepState expected = cpu.training->state();
    for (TestTraining* t : {&custom, &naive, &cudnn}) {
      EXPECT_NEAR(t->training->state().last_loss, expected.last_loss, 1e-3 * expected.last_loss)
          << i;
      EXPECT_NEAR(t->training->state().totals[1].sum, expected.totals[1].sum, 3) << i;
    }
  }
  // Labels are counted by class from the same columns.
  const Metrics metrics = custom.training->evaluation().run();
  int64_t right = 0;
  for (const ClassMetrics& each : metrics.classes) right += each.right;
  EXPECT_EQ(metrics.rows, 250);
  EXPECT_EQ(static_cast<double>(right) / 250, metrics.accuracy);
  check_resume("custom", "custom", mixed_training);
}

// Labels, a tensor as the target of another, and a metric of both.
std::string losses_training(const std::string& backend) {
  return "backend: " + backend + R"(
data: {dataset: synthetic_images, batch: 100, train_count: 1000, validation_count: 250}
optimizer: {type: sgd, learning_rate: 0.05, momentum: 0.9}
layers:
  - {type: flatten}
  - {name: fc1, type: linear, out_features: 10}
  - {name: aux, type: bce_with_logits, weight: 0.25}
  - {name: tanh1, type: tanh, inputs: fc1}
  - {name: near, type: mse_loss, inputs: [tanh1, fc1], weight: 0.5}
  - {name: apart, type: mean_squared_error, inputs: [tanh1, fc1]}
  - {name: fc2, type: linear, inputs: tanh1, out_features: 10}
  - {name: main, type: softmax_cross_entropy}
)";
}

TEST_F(TrainingOnGpu, SeveralLossesAndAMetricAreThoseOfTheCpu) {
  TestTraining cpu(losses_training("cpu"));
  TestTraining custom(losses_training("custom")), cudnn(losses_training("cudnn")),
      eager("graph: false\n" + losses_training("custom"));
  for (int i = 0; i < 20; ++i) {
    for (TestTraining* t : {&cpu, &custom, &cudnn, &eager}) t->training->step();
    const double expected = cpu.training->state().last_loss;
    for (TestTraining* t : {&custom, &cudnn}) {
      EXPECT_NEAR(t->training->state().last_loss, expected, 1e-3 * expected) << i;
    }
  }
  EXPECT_EQ(snapshot(custom), snapshot(eager));
  const Metrics expected = cpu.training->evaluate(), found = custom.training->evaluate();
  EXPECT_EQ(found.rows, 250);
  const Metrics::Values wanted = expected.values(), values = found.values();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].name, wanted[i].name);
    EXPECT_NEAR(values[i].value, wanted[i].value, 0.01) << values[i].name;
  }
}

TEST_F(TrainingOnGpu, ClassWeightsWeighMeansOverBatches) {
  for (const std::string backend : {"custom", "custom_naive", "cudnn"}) {
    check_weighted_means(backend);
    TestTraining cpu(weighted_mixed_training("cpu")), gpu(weighted_mixed_training(backend));
    EXPECT_EQ(cpu.training->evaluation().run().rows, gpu.training->evaluation().run().rows);
    EXPECT_NEAR(cpu.training->evaluation().run().loss, gpu.training->evaluation().run().loss, 1e-4);
    TestTraining graph("graph_steps: 4\n" + weighted_mixed_training(backend)),
        eager("graph: false\n" + weighted_mixed_training(backend));
    for (TestTraining* t : {&graph, &eager}) t->training->step(9);
    EXPECT_EQ(snapshot(graph), snapshot(eager)) << backend;
  }
}

TEST_F(TrainingOnGpu, TwoRunsGiveTheSameBits) {
  for (const std::string backend : {"custom", "cudnn"}) {
    TestTraining first(small_training(backend)), second(small_training(backend));
    for (int i = 0; i < 30; ++i) {
      first.training->step();
      second.training->step();
    }
    EXPECT_EQ(snapshot(first), snapshot(second)) << backend;
  }
}

TEST_F(TrainingOnGpu, FirstTenLossesAgreeBetweenFamilies) {
  for (const std::string extra : {"", "layout: nhwc\n", "fuse: false\n"}) {
    TestTraining cpu(small_training("cpu")), custom(extra + small_training("custom")),
        cudnn(extra + small_training("cudnn"));
    for (int i = 0; i < 10; ++i) {
      for (TestTraining* t : {&cpu, &custom, &cudnn}) t->training->step();
      const double expected = cpu.training->state().last_loss;
      EXPECT_NEAR(custom.training->state().last_loss, expected, 1e-4 * expected) << i << extra;
      EXPECT_NEAR(cudnn.training->state().last_loss, expected, 1e-4 * expected) << i << extra;
    }
  }
}

// Every arm stores bfloat16, and rounds elsewhere.
TEST_F(TrainingOnGpu, FirstTenLossesAgreeBetweenFamiliesInBf16) {
  for (const std::string extra : {"math: bf16\n", "math: bf16\nlayout: nhwc\n"}) {
    for (const auto network : {small_training, small_residual_training}) {
      TestTraining cpu(extra + network("cpu")), custom(extra + network("custom")),
          cudnn(extra + network("cudnn"));
      for (int i = 0; i < 10; ++i) {
        for (TestTraining* t : {&cpu, &custom, &cudnn}) t->training->step();
        const double expected = cpu.training->state().last_loss;
        EXPECT_NEAR(custom.training->state().last_loss, expected, 0.02 * expected) << i << extra;
        EXPECT_NEAR(cudnn.training->state().last_loss, expected, 0.02 * expected) << i << extra;
      }
    }
  }
}

TEST_F(TrainingOnGpu, PassesOfABlockCanBeMixed) {
  try {
    check_passes_of_a_block({"custom_winograd", "custom_direct", "custom_fused"});
  } catch (const UnsupportedError& error) {
    GTEST_SKIP() << error.what();  // custom_winograd needs Hopper
  }
}

// custom_mma rounds the weights, custom_direct does not.
TEST_F(TrainingOnGpu, PassesOfABlockCanBeMixedInBf16) {
  check_passes_of_a_block({"custom_direct", "custom_mma"}, "bf16", 0.02);
}

TEST_F(TrainingOnGpu, ResumesToTheSameBits) {
  for (const std::string backend : {"custom", "cudnn"}) {
    check_resume(backend, backend);
    check_resume(backend, backend + "\ngraph: false");
    check_resume(backend + "\ngraph: false", backend);
    check_resume(backend + "\nmath: bf16", backend + "\nmath: bf16", small_residual_training);
  }
}

TEST_F(TrainingOnGpu, SchedulesOfTheLearningRate) {
  check_resume_of_schedules("custom");
  check_resume_of_schedules("custom\ngraph: false");
  for (const std::string type : {"cosine", "one_cycle"}) {
    const std::string schedule = "custom\nschedule: {type: " + type + ", total_steps: 40, ";
    TestTraining graph(small_training(schedule + "warmup_steps: 5}"));
    TestTraining eager(small_training(schedule + "warmup_steps: 5}\ngraph: false"));
    for (uint64_t i = 0; i < 40; ++i) {
      // The host's functions may differ from the device's in the last digit of a double.
      EXPECT_FLOAT_EQ(graph.training->state().learning_rate, graph.training->schedule().rate(i));
      graph.training->step();
      eager.training->step();
    }
    EXPECT_EQ(snapshot(graph), snapshot(eager)) << type;
  }
  check_halt("custom\nschedule: {type: exponential, gamma: 0.5, per: step}");
}

// batch_norm and relu, one by one and as a block, whose kernels do the same sums.
TEST_F(TrainingOnGpu, BlocksOfReluGiveTheBitsOfTheirLayers) {
  for (const std::string backend :
       {"custom", "custom_welford", "custom_two_pass", "cudnn", "custom\nlayout: nhwc",
        "cudnn\nlayout: nhwc", "custom\nmath: bf16", "cudnn\nmath: bf16"}) {
    check_resume(backend, backend + "\nfuse: false", small_residual_training);
    check_resume(backend + "\nfuse: false", backend, small_residual_training);
  }
}

TEST_F(TrainingOnGpu, ATraceShowsEveryOperation) {
  check_trace("custom");
  check_trace("cudnn");
  check_trace("custom\ngraph: false");
  check_trace("custom", streamed_training);
}

TEST_F(TrainingOnGpu, StreamedDataGiveTheSameBits) {
  for (const std::string backend : {"custom", "cudnn", "custom\ngraph: false"}) {
    check_streaming(backend);
  }
}

TEST_F(TrainingOnGpu, StopsWhereTheLossIsNotFinite) {
  check_halt("custom");
  check_halt("cudnn");
  check_halt("custom\nmath: bf16");
  check_halt("custom", streamed_training);
}

}  // namespace
}  // namespace duet
