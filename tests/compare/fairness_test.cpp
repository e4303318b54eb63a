// What the arms do differently is told from the results.
#include "compare/fairness.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compare/results/results_json.h"
#include "compare/tables/markdown.h"
#include "compare/tables/summary.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

json pass(const std::string& name, const json& calls) {
  return {{"pass", name}, {"implementation", "x"}, {"calls", calls}};
}

json layer(const std::string& name, const std::vector<json>& passes) {
  return {{"name", name}, {"passes", passes}};
}

Results results_of(const std::vector<std::pair<std::string, std::vector<json>>>& arms) {
  json results = {{"arms", json::array()}};
  for (const auto& [name, network] : arms) {
    results["arms"].push_back({{"name", name}, {"network", network}});
  }
  return results_from(results);
}

json fused(const std::string& name) {
  return layer(name, {pass("forward", json::array()), pass("backward_filter", json::array())});
}

json called(const std::string& name) {
  return layer(name, {pass("forward", {"cudnnConvolutionForward", "cudnnPoolingForward"}),
                      pass("backward_filter", {"cudnnPoolingBackward",
                                               "cudnnConvolutionBackwardFilter", "cublasSgemv"})});
}

TEST(Fairness, TellsWhatIsMultipliedInParts) {
  const auto by = [](const std::string& id) {
    return json{{"pass", "forward"}, {"implementation", id}, {"calls", json::array()}};
  };
  const Results results = results_of(
      {{"custom",
        {layer("fc1", {by("custom_wgmma_3xtf32")}), layer("fc2", {by("custom_large_tile")})}},
       {"naive", {layer("fc1", {by("custom_naive")})}}});
  const std::vector<std::string> lines = fairness_lines(results);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(has(lines[0], "custom multiplies fc1 on tensor cores", "fp32_in_parts: false"));
  EXPECT_FALSE(has(lines[0], "fc2"));
}

TEST(Fairness, TellsWhoIsFusedAndWhoCallsHowOften) {
  const Results results = results_of({{"custom", {fused("c1+p1+r1"), fused("c2+p2+r2")}},
                                      {"cudnn", {called("c1+p1+r1"), called("c2+p2+r2")}}});
  const std::vector<std::string> lines = fairness_lines(results);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "not computed alike: c1+p1+r1 and c2+p2+r2: custom fused, by kernels of its own; cudnn "
            "by 2 to 3 calls a pass, one after the other (cudnnConvolutionForward, "
            "cudnnPoolingForward in forward)");
  EXPECT_EQ(lines[1],
            "cudnn calls cuDNN's legacy API and cuBLAS, and not cuDNN's graph API, which can fuse "
            "layers");
  const auto headlines = summarise(results).headlines;
  EXPECT_NE(std::find(headlines.begin(), headlines.end(), lines[0]), headlines.end());
  EXPECT_TRUE(has(results_summary(results), "c2+p2+r2: custom fused"));
}

TEST(Fairness, SaysNothingWhereNothingDiffersOrIsKnown) {
  EXPECT_TRUE(
      fairness_lines(results_of({{"a", {fused("c+p+r")}}, {"b", {fused("c+p+r")}}})).empty());
  const json old = {{"name", "c+p+r"}, {"passes", {{{"pass", "forward"}}}}};
  EXPECT_TRUE(fairness_lines(results_of({{"a", {old}}, {"b", {fused("c+p+r")}}})).empty());
  EXPECT_TRUE(fairness_lines(Results()).empty());
}

TEST(Fairness, TellsWhatAnArmDoesNotFuseAndWhy) {
  json single = layer("c", {pass("forward", json::array())});
  single["unfused"] = "c+p+r: p names an implementation of its own";
  const auto lines =
      fairness_lines(results_of({{"a", {fused("c+p+r")}}, {"b", {single, layer("p", {})}}}));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(
      lines[0],
      "not computed alike: c+p+r: a fused, by kernels of its own; b one layer after the other "
      "(p names an implementation of its own)");
}

TEST(Fairness, WarnsOfLibrariesOlderThanThoseCompiledAgainst) {
  Results results;
  results.environment.machine.versions = {
      {"NVIDIA driver", "supports CUDA 12.4"},
      {"CUDA runtime", "13.0 loaded, compiled against 13.0, from /a/libcudart.so"},
      {"cuDNN", "9.14.0 loaded, compiled against 9.19.0, from /b/libcudnn.so"},
      {"cuBLAS", "13.10.0 loaded, compiled against 13.9.1, from /c/libcublas.so"}};
  const auto lines = version_warnings(results.environment.machine.versions);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "the driver supports CUDA 12.4, older than the runtime's 13.0: install a "
            "newer driver");
  EXPECT_EQ(lines[1].find("cuDNN 9.14.0 is loaded from /b/libcudnn.so, older than the 9.19.0"), 0u);
  const auto headlines = summarise(results).headlines;
  EXPECT_NE(std::find(headlines.begin(), headlines.end(), lines[1]), headlines.end());
  EXPECT_TRUE(version_warnings({{"CUDA", "not built in"}}).empty());
}

}  // namespace
}  // namespace duet
