// Schedules of the learning rate: PyTorch's values, lengths in epochs and steps, the same rates
// after a stop, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "optim/schedule.h"
#include "support/text.h"
#include "support/training_cases.h"
#include "test_paths.h"
#include "train/checkpoint/checkpoint.h"
#include "train/setup.h"

namespace duet {
namespace {

using nlohmann::json;

constexpr double kPi = 3.14159265358979323846;

Schedule read(const std::string& yaml, int64_t epochs = 1) {
  ConfigNode config = read_yaml(yaml, "schedule.yaml");
  ConfigErrors errors("schedule.yaml");
  ConfigReader reader(config, "schedule", errors);
  const Schedule schedule = read_schedule(reader, epochs);
  errors.raise_if_any();
  return schedule;
}

std::vector<float> rates(const std::string& yaml, double learning_rate, int count,
                         int64_t steps_per_epoch = 1) {
  const ScheduleRule rule = read(yaml).rule(learning_rate, steps_per_epoch);
  std::vector<float> rates;
  for (int step = 0; step < count; ++step) rates.push_back(rule.rate(static_cast<uint64_t>(step)));
  return rates;
}

void expect_rates(const std::vector<float>& rates, const std::vector<double>& expected) {
  ASSERT_EQ(rates.size(), expected.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    EXPECT_NEAR(rates[i], expected[i], 1e-7 * expected[i] + 1e-12) << "step " << i;
  }
}

TEST(LearningRate, OfTheExamplesInPyTorchsDocumentation) {
  // StepLR(step_size=30, gamma=0.1) of 0.05.
  const std::vector<float> steps = rates("{type: step, step_size: 30, per: step}", 0.05, 90);
  for (int i = 0; i < 90; ++i) EXPECT_FLOAT_EQ(steps[i], i < 30 ? 0.05 : i < 60 ? 0.005 : 0.0005);
  // LinearLR(start_factor=0.5, total_iters=4) of 0.05.
  expect_rates(rates("{type: linear, start_factor: 0.5, end_factor: 1, total_steps: 4}", 0.05, 6),
               {0.025, 0.03125, 0.0375, 0.04375, 0.05, 0.05});
  // OneCycleLR(max_lr=25, final_div_factor=2, total_steps=10) of PyTorch's own tests.
  const std::string one_cycle = "{type: one_cycle, final_div_factor: 2, total_steps: 10";
  expect_rates(rates(one_cycle + ", anneal_strategy: linear}", 25, 12),
               {1, 13, 25, 21.5, 18, 14.5, 11, 7.5, 4, 0.5, 0.5, 0.5});
  const auto cosine = [](double from, double to, double share) {
    return to + (from - to) / 2 * (1 + std::cos(kPi * share));
  };
  expect_rates(rates(one_cycle + "}", 25, 10),
               {1, cosine(1, 25, 0.5), 25, cosine(25, 0.5, 1 / 7.0), cosine(25, 0.5, 2 / 7.0),
                cosine(25, 0.5, 3 / 7.0), cosine(25, 0.5, 4 / 7.0), cosine(25, 0.5, 5 / 7.0),
                cosine(25, 0.5, 6 / 7.0), 0.5});
}

// A training of 2 epochs of 5 steps.
TEST(LearningRate, SchedulesOfOtherLengthsThanTheTrainingAreToldOf) {
  const auto misfit = [](const std::string& yaml) { return read(yaml, 2).misfit(0.1, 5, 10); };
  EXPECT_EQ(misfit("{type: cosine}"), "");
  EXPECT_EQ(misfit("{type: one_cycle, warmup_epochs: 1}"), "");
  EXPECT_EQ(misfit("{type: exponential, gamma: 0.9}"), "");
  EXPECT_EQ(misfit("{type: step, step_size: 1}"), "");
  EXPECT_EQ(misfit("{type: cosine, total_epochs: 1}"),
            "the schedule of the learning rate ends at step 5 of 10");
  EXPECT_EQ(
      misfit("{type: linear, start_factor: 0, end_factor: 1, total_epochs: 20}"),
      "the schedule of the learning rate ends at step 100, and the training at step 10, with a "
      "rate of 0.009");
  EXPECT_EQ(misfit("{type: constant, warmup_epochs: 4}"),
            "the warm-up of the learning rate ends at step 20, and the training at step 10, with a "
            "rate of 0.0476");
  EXPECT_EQ(misfit("{type: step, step_size: 2}"),
            "the learning rate would first fall at step 10; the training ends at step 10");
  EXPECT_EQ(misfit("{type: step, step_size: 9, per: step}"), "");
}

TEST(LearningRate, ARateThatChangesNothingIsToldOf) {
  const auto misfit = [](const std::string& yaml, double rate) {
    return read(yaml, 2).misfit(rate, 5, 10);
  };
  const char* const zero = "the learning rate is 0 at every step: no weight changes";
  EXPECT_EQ(misfit("{type: constant}", 0.0), zero);
  EXPECT_EQ(misfit("{type: constant}", 1e-60), zero);  // 0 as a float
  EXPECT_EQ(misfit("{type: linear, start_factor: 0, end_factor: 0}", 0.1), zero);
  EXPECT_EQ(misfit("{type: linear, start_factor: 0, end_factor: 1}", 0.1), "");
  EXPECT_EQ(misfit("{type: exponential, gamma: 0}", 0.1), "");
  EXPECT_EQ(misfit("{type: constant, warmup_epochs: 1}", 0.1), "");
}

// tests/pytorch/make_schedules.py. A rate is a float, which PyTorch has in double, made from the one
// before.
TEST(LearningRate, IsPyTorchs) {
  const json fixture = json::parse(std::ifstream(DUET_SOURCE_DIR "/tests/pytorch/schedules.json"));
  std::set<std::string> types;
  for (const json& expected : fixture["cases"]) {
    const std::string yaml = expected["schedule"].dump();
    SCOPED_TRACE(yaml);
    types.insert(expected["schedule"]["type"].get<std::string>());
    const double learning_rate = expected["learning_rate"];
    if (expected.contains("metrics")) {
      const Schedule schedule = read(yaml);
      Plateau plateau;
      for (size_t epoch = 0; epoch < expected["metrics"].size(); ++epoch) {
        const double before = plateau.scale;
        const bool fell = plateau.watch(*schedule.plateau, expected["metrics"][epoch],
                                        expected["larger_is_better"], learning_rate);
        EXPECT_EQ(fell, plateau.scale < before);
        const double rate = expected["rates"][epoch];
        EXPECT_NEAR(plateau.scale * learning_rate, rate, 1e-14 * rate) << "epoch " << epoch;
      }
      continue;
    }
    const auto found = rates(yaml, learning_rate, static_cast<int>(expected["rates"].size()),
                             expected["steps_per_epoch"]);
    for (size_t step = 0; step < found.size(); ++step) {
      const double rate = expected["rates"][step];
      EXPECT_NEAR(found[step], rate, 0x1p-24 * rate + 1e-14 * learning_rate) << "step " << step;
    }
  }
  EXPECT_EQ(types.size(), schedule_types().size());
}

TEST(LearningRate, BehindTheEndOfASchedule) {
  // CosineAnnealingLR goes on with its cosine.
  expect_rates(rates("{type: cosine, total_steps: 4}", 1, 9),
               {1, 0.5 + std::sqrt(0.125), 0.5, 0.5 - std::sqrt(0.125), 0, 0.5 - std::sqrt(0.125),
                0.5, 0.5 + std::sqrt(0.125), 1});
  expect_rates(rates("{type: one_cycle, total_steps: 1}", 25, 3), {1e-4, 1e-4, 1e-4});
  expect_rates(rates("{type: one_cycle, total_steps: 4, pct_start: 0.25}", 25, 2),
               {25, 25 - (25 - 1e-4) * 0.25});
  expect_rates(rates("{type: one_cycle, total_steps: 3, pct_start: 1}", 25, 5),
               {1, 13, 25, 25, 25});
}

TEST(LearningRate, WarmsUpToTheFirstRateOfTheSchedule) {
  // SequentialLR of LinearLR(start_factor=1/5, total_iters=4) and the schedule.
  const std::vector<double> up = {0.2, 0.4, 0.6, 0.8};
  const auto expect = [&](const std::string& keys, double first, std::vector<double> rest) {
    std::vector<double> expected;
    for (double share : up) expected.push_back(share * first);
    expected.insert(expected.end(), rest.begin(), rest.end());
    expect_rates(rates("{" + keys + ", warmup_steps: 4}", 1, static_cast<int>(expected.size())),
                 expected);
  };
  expect("type: constant", 1, {1, 1, 1});
  expect("type: exponential, gamma: 0.5, per: step", 1, {1, 0.5, 0.25});
  expect("type: linear, start_factor: 0.5, end_factor: 1, total_steps: 6", 0.5, {0.5, 0.75, 1, 1});
  expect("type: cosine, total_steps: 8", 1, {1, 0.5 + std::sqrt(0.125), 0.5});
  expect("type: one_cycle, anneal_strategy: linear, pct_start: 0.5, total_steps: 10", 0.04,
         {0.04, 0.52, 1});
}

TEST(LearningRate, CountsEpochsOfAnyLength) {
  const auto rate = [](const std::string& yaml, int step, int64_t per_epoch, int64_t epochs = 3) {
    return read(yaml, epochs).rule(1.0, per_epoch).rate(static_cast<uint64_t>(step));
  };
  for (const int per_epoch : {1, 7, 938}) {
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (const int step : {epoch * per_epoch, (epoch + 1) * per_epoch - 1}) {
        EXPECT_FLOAT_EQ(rate("{type: exponential, gamma: 0.5}", step, per_epoch),
                        std::pow(0.5, epoch));
        EXPECT_FLOAT_EQ(rate("{type: step, step_size: 2, gamma: 0.5}", step, per_epoch),
                        std::pow(0.5, epoch / 2));
        // Behind a warm-up they are counted from its end.
        EXPECT_FLOAT_EQ(rate("{type: exponential, gamma: 0.5, warmup_epochs: 2}",
                             2 * per_epoch + step, per_epoch),
                        std::pow(0.5, epoch));
      }
    }
  }
  // A schedule without a length of its own takes the training's.
  const std::string linear = "{type: linear, start_factor: 1, end_factor: 0";
  EXPECT_FLOAT_EQ(rate(linear + "}", 60, 40, 3), 0.5);
  EXPECT_FLOAT_EQ(rate(linear + "}", 60, 40, 6), 0.75);
  EXPECT_FLOAT_EQ(rate(linear + ", total_epochs: 2.5}", 60, 40, 6), 0.4);
  EXPECT_FLOAT_EQ(rate(linear + ", total_steps: 80}", 60, 40, 6), 0.25);
  EXPECT_FLOAT_EQ(rate(linear + ", warmup_epochs: 0.5}", 70, 40, 3), 0.5);
  EXPECT_FLOAT_EQ(rate(linear + ", warmup_epochs: 0.5}", 9, 40, 3), 10.0 / 21);
}

TEST(LearningRate, IsWhatTheTrainingUses) {
  TestTraining t(small_training("cpu\nschedule: {type: one_cycle, total_epochs: 2}"));
  Training& training = *t.training;
  EXPECT_EQ(training.steps_per_epoch(), 10);
  EXPECT_FLOAT_EQ(training.schedule().rate(5), 0.005f);  // the highest, of the optimizer
  for (uint64_t step = 0; step < 25; ++step) {
    EXPECT_EQ(training.state().learning_rate, training.schedule().rate(step));
    training.step();
    EXPECT_EQ(training.state().last_learning_rate, training.schedule().rate(step));
  }
  // A step of rate zero changes nothing.
  TestTraining still(
      small_training("cpu\nschedule: {type: step, step_size: 3, gamma: 0, per: step}"));
  const auto weights = [&] {
    return still.training->weights().read(still.training->weights().parameters()[0]);
  };
  const std::vector<float> before = weights();
  for (int i = 0; i < 3; ++i) still.training->step();
  const std::vector<float> after = weights();
  EXPECT_NE(before, after);
  for (int i = 0; i < 3; ++i) still.training->step();
  EXPECT_EQ(weights(), after);
}

TEST(LearningRate, ResumesToTheSameBits) { check_resume_of_schedules("cpu"); }

TEST(LearningRate, StaysWhereTheTrainingHalts) {
  check_halt("cpu\nschedule: {type: exponential, gamma: 0.5, per: step}");
}

TEST(LearningRate, WrongSchedulesAreRefused) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{}", "required key 'type' is missing"},
      {"{gamma: 0.1}", "required key 'type' is missing"},
      {"{type: cosin}", "unknown value 'cosin' (did you mean 'cosine'?); known: constant, step"},
      {"{type: constant, gamma: 0.1}", "unknown key 'gamma'"},
      {"{type: step}", "required key 'step_size' is missing"},
      {"{type: step, step_size: 0}", "step_size: expected a whole number of at least 1, found '0'"},
      {"{type: step, step_size: 1, gamma: -1}", "gamma: expected a number of at least 0"},
      {"{type: step, step_size: 1, per: batch}", "per: unknown value 'batch'"},
      {"{type: step, step_size: 1, total_epochs: 3}", "unknown key 'total_epochs'"},
      {"{type: exponential}", "required key 'gamma' is missing"},
      {"{type: cosine, eta_min: -1}", "eta_min: expected a number of at least 0"},
      {"{type: cosine, T_max: 3}", "there is no key 'T_max'; write total_epochs or total_steps"},
      {"{type: cosine, eta_mn: 1}", "unknown key 'eta_mn' (did you mean 'eta_min'?)"},
      {"{type: one_cycle, max_lr: 1}", "the highest rate is the optimizer's learning_rate"},
      {"{type: one_cycle, pct_start: 1.1}", "pct_start: expected a number from 0 to 1"},
      {"{type: one_cycle, div_factor: 0}", "div_factor: expected a number of at least 1"},
      {"{type: one_cycle, anneal_strategy: cosine}", "known: cos, linear"},
      {"{type: linear, end_factor: 0}", "required key 'start_factor' is missing"},
      {"{type: linear, start_factor: 2, end_factor: 0}", "start_factor: expected a number from 0"},
      {"{type: cosine, total_epochs: 1, total_steps: 3}", "give this or total_steps, not both"},
      {"{type: cosine, warmup_epochs: 1, warmup_steps: 3}", "give this or warmup_steps, not both"},
      {"{type: cosine, total_steps: 0}", "total_steps: expected a whole number of at least 1"},
      {"{type: cosine, total_epochs: 0}", "total_epochs: expected a number above 0"},
      {"{type: cosine, warmup_steps: -1}", "warmup_steps: expected a whole number of at least 0"},
      {"{type: cosine, warmup_epochs: 1}", "the warm-up must end before the schedule does"},
      {"{type: cosine, warmup_steps: 8, total_steps: 8}", "must end before the schedule does"},
  };
  for (const auto& [yaml, mistake] : cases) {
    try {
      read(yaml);
      ADD_FAILURE() << yaml << " is taken";
    } catch (const ConfigError& error) {
      EXPECT_TRUE(has(error.what(), mistake)) << yaml << ": " << error.what();
    }
  }
  EXPECT_NO_THROW(read("{type: step, step_size: 1, warmup_epochs: 5}"));
}

TEST(LearningRate, AWarmUpOfTheWholeTrainingIsRefusedOnceTheDataAreKnown) {
  const auto check = [](const std::string& schedule) {
    const std::string yaml = small_training("cpu\ntrain: {epochs: 2}\nschedule: " + schedule);
    const duet::Setup setup = read_setup(read_yaml(yaml, "net.yaml"), {.config = "net.yaml"});
    check_schedule(setup, "net.yaml", setup.dataset.load({}));
  };
  check("{type: cosine, warmup_steps: 19}");
  EXPECT_THROW(check("{type: cosine, warmup_steps: 20}"), ConfigError);
  EXPECT_THROW(check("{type: cosine, warmup_epochs: 1, total_steps: 10}"), ConfigError);
  check("{type: constant, warmup_steps: 50}");
}

TEST(LearningRate, APartOfARunKeepsTheScheduleOfTheFile) {
  const auto epochs = [](bool part_of_run, const std::string& keys) {
    const std::string yaml =
        small_training("cpu\ntrain: {epochs: 7}\nschedule: {type: cosine" + keys + "}");
    return read_setup(read_yaml(yaml, "net.yaml"),
                      {.config = "net.yaml", .epochs = 2, .part_of_run = part_of_run})
        .schedule.total.epochs;
  };
  EXPECT_EQ(epochs(false, ""), 2);
  EXPECT_EQ(epochs(true, ""), 7);
  EXPECT_EQ(epochs(false, ", total_epochs: 4"), 4);
  EXPECT_EQ(epochs(true, ", total_epochs: 4"), 4);
}

}  // namespace
}  // namespace duet
