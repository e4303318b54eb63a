#include "net/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/network.h"

namespace duet {
namespace {

// x -> fc1 -> split -> relu -> add -> fc2 -> loss, where add also reads what fc1 made.
TestNetwork with_shortcut() {
  return make_network(
      "backend: cpu_reference\n"
      "data: {dataset: synthetic_images, batch: 4}\n"
      "layers:\n"
      "  - {type: flatten}\n"
      "  - {name: fc1, type: linear, out_features: 6}\n"
      "  - {name: relu, type: relu}\n"
      "  - {name: sum, type: add, inputs: [relu, fc1]}\n"
      "  - {name: fc2, type: linear, out_features: 10}\n"
      "  - {name: loss, type: softmax_cross_entropy}\n",
      {{4, 1, 8, 8}});
}

size_t number_of(const TestNetwork& network, const std::string& name) {
  const auto& layers = network.layers;
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [&](const ResolvedLayer& layer) { return layer.name == name; });
  EXPECT_NE(found, layers.end()) << name;
  return static_cast<size_t>(found - layers.begin());
}

std::vector<std::string> names(const TestNetwork& network, const std::vector<PlannedCall>& calls) {
  std::vector<std::string> list;
  for (const PlannedCall& call : calls) {
    list.push_back(network.layers[static_cast<size_t>(call.layer)].name + " " +
                   std::string(to_string(call.pass)));
  }
  return list;
}

int call_of(const TestNetwork& network, const NetPlan& plan, const std::string& name) {
  const auto list = names(network, plan.calls);
  return static_cast<int>(std::find(list.begin(), list.end(), name) - list.begin());
}

TEST(Plan, CallsGoThroughTheLayersAndBack) {
  const TestNetwork network = with_shortcut();
  const NetPlan training = plan(network.layers, NetMode::kTraining);
  const std::string split = network.layers[2].name;
  EXPECT_EQ(names(network, training.calls),
            (std::vector<std::string>{"fc1 forward", "relu forward", "sum forward", "fc2 forward",
                                      "loss forward", "loss backward", "fc2 backward_filter",
                                      "fc2 backward_data", "relu backward", split + " backward",
                                      "fc1 backward_filter"}))
      << "a step runs no view, no gradient of the images";
  EXPECT_EQ(training.forward_calls, 5u);
  const NetPlan inference = plan(network.layers, NetMode::kInference);
  EXPECT_EQ(inference.calls.size(), 5u);
  for (const PlannedValue& value : inference.values) EXPECT_FALSE(value.gradient);
}

TEST(Plan, ASumHasOneOutputAndOneGradientForAllThatShareThem) {
  const TestNetwork network = make_network(
      "backend: cpu_reference\n"
      "data: {dataset: synthetic_images, batch: 4}\n"
      "layers:\n"
      "  - {type: flatten}\n"
      "  - {name: fc1, type: linear, out_features: 6}\n"
      "  - {name: fc2, type: linear, out_features: 6}\n"
      "  - {name: sum, type: add, inputs: [fc2, fc1]}\n"
      "  - {name: relu, type: relu}\n"
      "  - {name: fc3, type: linear, out_features: 6}\n"
      "  - {name: end, type: add, inputs: [fc3, relu]}\n"
      "  - {name: fc4, type: linear, out_features: 10}\n"
      "  - {name: loss, type: softmax_cross_entropy}\n",
      {{4, 1, 8, 8}});
  const NetPlan training = plan(network.layers, NetMode::kTraining);
  const PlannedLayer& sum = training.layers[number_of(network, "sum+relu")];
  ASSERT_EQ(sum.y.size(), 2u);
  EXPECT_EQ(sum.y[0], sum.y[1]);
  EXPECT_NE(sum.dy[0], sum.dy[1]);
  EXPECT_EQ(sum.dx[0], sum.dx[1]);
  const std::vector<std::string> calls = names(network, training.calls);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "sum+relu backward"), 1);
}

TEST(Plan, AValueIsNeededNoLongerThanPassesReadIt) {
  const TestNetwork network = make_network(
      "backend: cpu_reference\ndata: {dataset: synthetic_images, batch: 4}\nlayers:\n"
      "  - {type: flatten}\n"
      "  - {name: fc1, type: linear, out_features: 6}\n"
      "  - {name: tanh, type: tanh}\n"
      "  - {name: fc2, type: linear, out_features: 10}\n"
      "  - {name: loss, type: softmax_cross_entropy}\n",
      {{4, 1, 8, 8}});
  const auto y_of_fc1 = [&](const NetPlan& plan) {
    return plan.values[static_cast<size_t>(plan.layers[number_of(network, "fc1")].y[0])];
  };
  const NetPlan all = plan(network.layers, NetMode::kTraining);
  EXPECT_EQ(y_of_fc1(all).last, call_of(network, all, "fc1 backward_filter"));
  const NetPlan some = plan(network.layers, NetMode::kTraining, [&](size_t layer, Pass pass) {
    const bool weighted = network.layers[layer].layer->passes().size() == 3;
    return SavedTensors{.x = !weighted || pass == Pass::kBackwardFilter, .y = !weighted};
  });
  EXPECT_EQ(y_of_fc1(some).last, call_of(network, some, "tanh backward"));
  EXPECT_EQ(some.calls.size(), all.calls.size());
}

TEST(Plan, AValueIsNeededFromItsProducerToItsLastReader) {
  const TestNetwork network = with_shortcut();
  const NetPlan inference = plan(network.layers, NetMode::kInference);
  const size_t fc1 = number_of(network, "fc1"), relu = number_of(network, "relu");
  const PlannedValue& shortcut = inference.values[static_cast<size_t>(inference.layers[fc1].y[0])];
  EXPECT_EQ(shortcut.producer, static_cast<int>(fc1));
  EXPECT_EQ(shortcut.desc, network.layers[fc1].layer->outputs()[0]);
  EXPECT_EQ(shortcut.first, call_of(network, inference, "fc1 forward"));
  EXPECT_EQ(shortcut.last, call_of(network, inference, "sum forward"));
  EXPECT_EQ(shortcut.readers, (std::vector<int>{static_cast<int>(relu),
                                                static_cast<int>(number_of(network, "sum"))}));

  // In training the products of backward_filter need the input again.
  const NetPlan training = plan(network.layers, NetMode::kTraining);
  const size_t sum = number_of(network, "sum");
  const PlannedValue& added = training.values[static_cast<size_t>(training.layers[sum].y[0])];
  EXPECT_EQ(added.first, call_of(network, training, "sum forward"));
  // That may run beside the passes that follow, to the end of the next layer's.
  EXPECT_EQ(added.last, call_of(network, training, "fc2 backward_filter") + 3);
  const PlannedValue& gradient = training.values[static_cast<size_t>(training.layers[sum].dy[0])];
  EXPECT_TRUE(gradient.gradient);
  EXPECT_EQ(gradient.producer, static_cast<int>(number_of(network, "fc2")));
  EXPECT_EQ(gradient.first, call_of(network, training, "fc2 backward_data"));
}

TEST(Plan, WhatComesWithTheBatchIsThereBeforeAndAfter) {
  const TestNetwork network = with_shortcut();
  const NetPlan training = plan(network.layers, NetMode::kTraining);
  const int images = training.layers[number_of(network, "fc1")].x[0];
  const int labels = training.layers.back().x[1];
  for (int number : {images, labels}) {
    const PlannedValue& value = training.values[static_cast<size_t>(number)];
    EXPECT_EQ(value.producer, kField);
    EXPECT_EQ(value.first, -1);
    EXPECT_EQ(value.last, static_cast<int>(training.calls.size()));
  }
  EXPECT_EQ(training.layers[number_of(network, "fc1")].dx[0], kNoValue);  // nobody's
}

TEST(Plan, GradientsThatAreWantedStayAndThatOfTheResultIsThereBefore) {
  const TestNetwork network = make_network(
      "backend: cpu_reference\n"
      "data: {dataset: synthetic_images, batch: 4}\n"
      "layers:\n"
      "  - {name: conv, type: conv2d, out_channels: 2, kernel: 3}\n"
      "  - {type: flatten}\n"
      "  - {name: fc, type: linear, out_features: 10}\n"
      "  - {name: loss, type: softmax_cross_entropy}\n",
      {{4, 1, 8, 8}}, 10, {"images"});
  const auto layers = without_losses(network.layers);
  for (const NetMode mode : {NetMode::kTraining, NetMode::kGradients}) {
    const NetPlan planned = plan(layers, mode);
    const int end = static_cast<int>(planned.calls.size());
    EXPECT_EQ(end, 6);
    ASSERT_EQ(planned.field_gradients.size(), 1u);
    const int images = planned.field_gradients.at("images");
    EXPECT_EQ(images, planned.layers[0].dx[0]);
    EXPECT_EQ(planned.values[static_cast<size_t>(images)].last, end);
    EXPECT_EQ(planned.result_gradient, planned.layers.back().dy[0]);
    const PlannedValue& start = planned.values[static_cast<size_t>(planned.result_gradient)];
    EXPECT_TRUE(start.gradient);
    EXPECT_EQ(start.first, -1);
    EXPECT_EQ(start.last, end);
  }
  EXPECT_EQ(plan(network.layers, NetMode::kTraining).result_gradient, kNoValue);
  const NetPlan inference = plan(layers, NetMode::kInference);
  EXPECT_EQ(inference.calls.size(), 2u);
  EXPECT_EQ(inference.result_gradient, kNoValue);
  EXPECT_TRUE(inference.field_gradients.empty());
}

}  // namespace
}  // namespace duet
