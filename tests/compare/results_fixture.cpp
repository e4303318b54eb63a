#include "compare/results_fixture.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace duet {

using nlohmann::json;

namespace {

constexpr double kGflops = 50000, kBandwidth = 4000;  // GB/s

struct TestPass {
  std::string layer, type, pass;
  double flops, bytes;  // of one image; no flops: not counted
};

const std::vector<TestPass>& passes() {
  static const std::vector<TestPass> all = {
      {"conv1+pool1+relu1", "conv2d_pool_relu", "forward", 4.5e5, 2.4e4},
      {"conv1+pool1+relu1", "conv2d_pool_relu", "backward_filter", 4.5e5, 2.9e4},
      {"conv2+pool2+relu2", "conv2d_pool_relu", "forward", 2.5e7, 6.7e4},
      {"conv2+pool2+relu2", "conv2d_pool_relu", "backward_filter", 2.5e7, 8.1e4},
      {"conv2+pool2+relu2", "conv2d_pool_relu", "backward_data", 2.5e7, 8.3e4},
      {"fc1+relu3", "linear", "forward", 1.6e6, 2.6e4},
      {"fc1+relu3", "linear", "backward_filter", 1.6e6, 2.7e4},
      {"fc1+relu3", "linear", "backward_data", 1.6e6, 2.8e4},
      {"drop1", "dropout", "forward", 0, 4.1e3},
      {"drop1", "dropout", "backward", 0, 4.2e3},
      {"fc2", "linear", "forward", 5.1e3, 2.3e3},
      {"fc2", "linear", "backward_filter", 5.1e3, 2.4e3},
      {"fc2", "linear", "backward_data", 5.1e3, 2.5e3},
      {"loss", "softmax_cross_entropy", "forward", 0, 80},
      {"loss", "softmax_cross_entropy", "backward", 0, 84},
  };
  return all;
}

std::string arm_name(size_t arm) {
  static const char* const names[] = {"custom", "cudnn"};
  return arm < 2 ? names[arm] : "other" + std::to_string(arm + 1);
}

json time_json(double median) {
  return {{"median", median}, {"p20", 0.985 * median}, {"p80", 1.02 * median}};
}

json ratio_json(size_t a, size_t b, double speedup) {
  const double low = 0.99 * speedup, high = 1.01 * speedup;
  const char* const verdict = low > 1 ? "faster" : high < 1 ? "slower" : "same";
  return {{"a", a},     {"b", b},       {"speedup", speedup},
          {"low", low}, {"high", high}, {"verdict", verdict}};
}

// Each arm against the last.
json ratios_json(const std::vector<double>& times) {
  json all = json::array();
  const size_t b = times.size() - 1;
  for (size_t a = 0; a < b; ++a) all.push_back(ratio_json(a, b, times[b] / times[a]));
  return all;
}

double floor_us(const TestPass& pass, double batch) {
  return batch * std::max(pass.flops / (kGflops * 1e3), pass.bytes / (kBandwidth * 1e3));
}

double pass_us(size_t index, size_t arm, double batch) {
  const double floor = floor_us(passes()[index], batch);
  const double swing = 1 + 0.35 * std::sin(1.7 * static_cast<double>(index) + 2.1 * arm);
  return 1.4 + floor * (1.8 + 0.6 * static_cast<double>(arm)) * swing;
}

json tensor_json(size_t index, size_t arm) {
  const double share = 0.08 + 0.03 * static_cast<double>((index * 7 + arm * 3) % 11);
  return {{"name", index % 2 ? "dw" : "y[0]"},     {"max_error", 3e-6 * share},
          {"rms_relative", 3e-7 * share},          {"cosine", 1 - 1e-13 * share},
          {"worst", "[n=0 c=2 h=1 w=5]"},          {"expected", 0.7312},
          {"found", 0.7312 + 3e-6 * share},        {"share_of_limit", share},
          {"limit", "RMS-relative 3e-7 x sqrt(K)"}};
}

json arm_json(size_t index, size_t arm, double batch) {
  const TestPass& pass = passes()[index];
  const double us = pass_us(index, arm, batch);
  json result = {{"implementation", arm_name(arm) + "_test"},
                 {"shared", pass.type == "dropout"},
                 {"detail", arm ? "a library's algorithm, fp32 FMA" : ""},
                 {"workspace_bytes", arm * 1048576},
                 {"agrees", true},
                 {"faults", json::array()},
                 {"tensors", {tensor_json(index, arm)}},
                 {"us", time_json(us)},
                 {"cold_us", time_json(1.3 * us)},
                 {"in_network_us", 1.08 * us},
                 {"gb_per_s", batch * pass.bytes / us / 1e3},
                 {"share_of_floor", floor_us(pass, batch) / us}};
  if (pass.flops > 0) result["gflop_per_s"] = batch * pass.flops / us / 1e3;
  return result;
}

json row_json(size_t index, size_t arms, double batch) {
  const TestPass& pass = passes()[index];
  json row = {{"layer", pass.layer},
              {"type", pass.type},
              {"pass", pass.pass},
              {"problem", "n=" + std::to_string(static_cast<int>(batch)) + " invented=1"},
              {"bytes", batch * pass.bytes},
              {"floor_us", floor_us(pass, batch)},
              {"repeat", "bench " + pass.type + " --pass " + pass.pass},
              {"arms", json::array()},
              {"error_ratio", {{"a", 0}, {"b", 1}, {"value", 0.8}, {"ok", true}}}};
  if (pass.flops > 0) row["flops"] = batch * pass.flops;
  std::vector<double> times;
  for (size_t arm = 0; arm < arms; ++arm) {
    row["arms"].push_back(arm_json(index, arm, batch));
    times.push_back(pass_us(index, arm, batch));
  }
  row["ratios"] = ratios_json(times);
  return row;
}

double sum_us(size_t arm, double batch) {
  double sum = 0;
  for (size_t i = 0; i < passes().size(); ++i) sum += pass_us(i, arm, batch);
  return sum;
}

double step_us(size_t arm, double batch) { return 1.08 * sum_us(arm, batch) + 9; }

json layers_json(size_t arms, double batch) {
  json part = {
      {"batch", batch}, {"math", "fp32"}, {"rows", json::array()}, {"totals", json::array()}};
  for (size_t i = 0; i < passes().size(); ++i) part["rows"].push_back(row_json(i, arms, batch));
  std::vector<double> times;
  for (size_t arm = 0; arm < arms; ++arm) {
    times.push_back(step_us(arm, batch));
    part["totals"].push_back({{"arm", arm},
                              {"step_us", time_json(times.back())},
                              {"sum_us", sum_us(arm, batch)},
                              {"in_network_sum_us", 1.08 * sum_us(arm, batch)},
                              {"gap_us", 9},
                              {"prepare_s", 0.4 + static_cast<double>(arm)},
                              {"memory_bytes", 4.1e5 * batch}});
  }
  part["step_ratios"] = ratios_json(times);
  return part;
}

// `run` 1 is the same arm once more.
double loss(size_t arm, int step, int run) {
  const double path = 2.3 * std::exp(-step / 60.0) + 0.45 + 0.06 * std::sin(step * 0.9);
  const double parted = 1e-7 * std::exp(step / 20.0) * (static_cast<double>(arm) + 0.7 * run);
  return path + parted * std::cos(step * 1.3 + run);
}

json training_json(size_t arms) {
  constexpr int kSteps = 200;
  json training = {{"batch", 64},
                   {"epochs", 5},
                   {"seeds", {1, 2, 3, 4, 5}},
                   {"steps_compared", kSteps},
                   {"arms", json::array()},
                   {"differences", json::array()}};
  for (size_t arm = 0; arm < arms; ++arm) {
    json one = {{"arm", arm},
                {"images_per_second", 64e6 / step_us(arm, 64)},
                {"step_us", step_us(arm, 64)},
                {"peak_memory_bytes", 2.6e7 + 1e6 * static_cast<double>(arm)},
                {"prepare_s", 0.4},
                {"halted_at", nullptr}};
    for (int step = 0; step < kSteps; ++step) {
      one["loss"].push_back(loss(arm, step, 0));
      one["repeat_loss"].push_back(loss(arm, step, 1));
    }
    for (int seed = 0; seed < 5; ++seed) {
      one["accuracy"].push_back(0.912 + 0.002 * std::sin(2.0 * seed + static_cast<double>(arm)));
      one["final_loss"].push_back(0.24 + 0.003 * std::cos(seed + static_cast<double>(arm)));
      one["seconds"].push_back(1.9 + 0.4 * static_cast<double>(arm));
    }
    training["arms"].push_back(one);
  }
  for (size_t a = 0; a + 1 < arms; ++a) {
    const size_t b = arms - 1;
    json difference = {{"a", a},
                       {"b", b},
                       {"accuracy_mean_difference", 0.0004},
                       {"low", -0.0011},
                       {"high", 0.0019},
                       {"verdict", "same"},
                       {"first_10_max", 0},
                       {"first_10_share", 1e-7}};
    for (int step = 0; step < kSteps; ++step) {
      const double apart = std::fabs(loss(a, step, 0) - loss(b, step, 0));
      difference["loss"].push_back(apart);
      if (step < 10 && apart > difference["first_10_max"]) difference["first_10_max"] = apart;
    }
    training["differences"].push_back(difference);
  }
  return training;
}

json throughput_json(size_t arms) {
  json all = json::array();
  for (const double batch : {1, 8, 32, 64, 256, 1024}) {
    json entry = {{"batch", batch}, {"arms", json::array()}};
    std::vector<double> training, inference;
    for (size_t arm = 0; arm < arms; ++arm) {
      training.push_back(step_us(arm, batch));
      inference.push_back(0.31 * step_us(arm, batch));
      entry["arms"].push_back({{"arm", arm},
                               {"training_us", time_json(training.back())},
                               {"training_images_per_s", batch * 1e6 / training.back()},
                               {"inference_us", time_json(inference.back())},
                               {"inference_images_per_s", batch * 1e6 / inference.back()}});
    }
    entry["training_ratios"] = ratios_json(training);
    entry["inference_ratios"] = ratios_json(inference);
    all.push_back(entry);
  }
  return all;
}

json network_json(size_t arm) {
  json network = json::array();
  for (const TestPass& pass : passes()) {
    if (network.empty() || network.back()["name"] != pass.layer) {
      network.push_back({{"name", pass.layer},
                         {"type", pass.type},
                         {"problem", "invented=1"},
                         {"output", "64x32x13x13 nchw"},
                         {"parameters", 18496},
                         {"passes", json::array()}});
    }
    network.back()["passes"].push_back({{"pass", pass.pass},
                                        {"implementation", arm_name(arm) + "_test"},
                                        {"shared", pass.type == "dropout"},
                                        {"workspace_bytes", arm * 1048576},
                                        {"detail", arm ? "a library's algorithm" : ""}});
  }
  return network;
}

json environment_json() {
  return {{"duet", "0.0.0 (test data)"},
          {"gpu", "Invented GPU for tests"},
          {"gpu_memory_bytes", 150e9},
          {"driver", "000.00"},
          {"versions", json::array({{"CUDA runtime", "0.0"}, {"cuDNN", "0.0.0"}})},
          {"cpu", "Invented CPU for tests"},
          {"cpu_threads", 16},
          {"os", "test data"},
          {"compiler", "test data"},
          {"ceilings",
           {{"device", "gpu"},
            {"copy_gb_per_s", kBandwidth},
            {"fp32_gflop_per_s", kGflops},
            {"tf32_gflop_per_s", 6 * kGflops},
            {"launch_us", 1.4}}},
          {"clocks",
           {{"samples", 41},
            {"sm_mhz_min", 1905},
            {"sm_mhz_max", 1980},
            {"temperature_c_max", 47},
            {"throttled", false},
            {"reasons", json::array()}}}};
}

// Every text that is not a key becomes `text`.
void rename_all(const std::string& text, json* value) {
  for (json& part : *value) {
    if (part.is_string()) {
      part = text;
    } else if (part.is_structured()) {
      rename_all(text, &part);
    }
  }
}

}  // namespace

const char* const kNastyText =
    "</script><script>alert(1)</script><!--<script> <img src=x onerror=alert(2)> "
    "{{results}} \" ' & | `a` *b* _c_ [d](https://example.org) \\ \n end";

json results_fixture(size_t arms) {
  json results = {{"schema", "duet.compare/1"},
                  {"name", "test_data"},
                  {"command", "compare --config test_data.yaml --a custom --b cudnn"},
                  {"date", "2000-01-01T00:00:00Z"},
                  {"seconds", 48.3},
                  {"quick", false},
                  {"math", "fp32"},
                  {"environment", environment_json()},
                  {"arms", json::array()},
                  {"layers", {layers_json(arms, 64), layers_json(arms, 1024)}},
                  {"training", training_json(arms)},
                  {"throughput", throughput_json(arms)}};
  for (size_t arm = 0; arm < arms; ++arm) {
    results["arms"].push_back({{"name", arm_name(arm)},
                               {"request", arm_name(arm)},
                               {"device", "gpu"},
                               {"config", "name: test_data\nlayers: []\n"},
                               {"network", network_json(arm)}});
  }
  results["summary"] = {{"ok", true},
                        {"first_mismatch", nullptr},
                        {"headlines",
                         {"made-up headline: custom is faster than cudnn in a step of batch 64",
                          "made-up headline: the same accuracy over 5 seeds"}}};
  return results;
}

json mismatch_fixture() {
  json results = results_fixture();
  json& row = results["layers"][0]["rows"][2];
  json& arm = row["arms"][1];
  arm["agrees"] = false;
  arm["us"] = nullptr;
  arm["cold_us"] = nullptr;
  arm.erase("gflop_per_s");
  arm.erase("gb_per_s");
  arm.erase("share_of_floor");
  arm["tensors"][0]["share_of_limit"] = 123456.0;
  arm["faults"] = {{{"kind", "zeros"}, {"text", "y[0] is all zeros"}}};
  row["ratios"] = json::array();
  results["summary"]["ok"] = false;
  results["summary"]["first_mismatch"] = {
      {"layer", row["layer"]},
      {"pass", "forward"},
      {"arm", "cudnn"},
      {"text", "conv2+pool2+relu2 forward by cudnn_test: y[0] is all zeros (batch 64)"}};
  return results;
}

json nasty_fixture() {
  json results = mismatch_fixture();
  rename_all(kNastyText, &results);
  return results;
}

}  // namespace duet
