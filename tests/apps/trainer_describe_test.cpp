// What the trainer says of layers and implementations.
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "device/device.h"
#include "layers/layers.h"
#include "net/expand.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

using nlohmann::json;

json described(const TrainerFolder& folder, const std::string& name) {
  const Outcome outcome = folder.run("describe " + name + " --json");
  EXPECT_OUTCOME(outcome, kExitDone);
  return json::parse(outcome.out);
}

TEST(TrainerDescribe, LayersHaveKeysAndWhatIsSupported) {
  const TrainerFolder folder;
  const json conv2d = described(folder, "conv2d");
  EXPECT_EQ(conv2d["keys"]["out_channels"], "required");
  EXPECT_EQ(conv2d["keys"]["stride"], "1");
  EXPECT_EQ(conv2d["keys"]["bias"], "true");
  EXPECT_EQ(described(folder, "softmax_cross_entropy")["keys"]["label_smoothing"], "optional");
  const Outcome text = folder.run("describe conv2d");
  EXPECT_TRUE(has(text.out, "conv2d: 2-D convolution", "out_channels  required", "implementation",
                  "cpu_blas", "cpu_reference", "bf16", "nchw, nhwc"));
  // A mistake of a configuration is what the table says.
  for (const json& row : conv2d["implementations"]) {
    if (row["implementation"] != "cpu_blas" || row["supported"] != "no") continue;
    const Outcome refused =
        folder.run("show tiny.yaml --set layers.conv1.backend=cpu_blas --set math=" +
                   row["math"].get<std::string>());
    EXPECT_OUTCOME(refused, kExitUnsupported, row["reasons"][0].get<std::string>());
  }
}

TEST(TrainerDescribe, ADefaultMayBeTheValueOfAnotherKey) {
  const TrainerFolder folder;
  const json pool = described(folder, "max_pool2d")["keys"];
  EXPECT_EQ(pool["kernel"], "required");
  EXPECT_EQ(pool["stride"], "as kernel");
  EXPECT_EQ(pool["padding"], "0");
  const json block = described(folder, "conv2d_pool_relu");
  EXPECT_EQ(block["keys"]["pool_stride"], "as pool_kernel");
  EXPECT_EQ(block["keys"]["stride"], "1");
  // The sample pools by windows of 2x2, as the kernels do.
  for (const json& row : block["implementations"]) {
    if (row["implementation"] == "custom_fused" && row["math"] == "fp32") {
      EXPECT_EQ(row["supported"], "yes") << row;
    }
  }
}

TEST(TrainerDescribe, EveryLayerIsDescribed) {
  const TrainerFolder folder;
  for (const LayerType* type : layer_types()) {
    SCOPED_TRACE(type->name);
    const json layer = described(folder, std::string(type->name));
    EXPECT_EQ(layer["summary"], std::string(type->summary));
    std::set<std::string> found, listed;
    for (const json& row : layer["implementations"]) found.insert(row["implementation"]);
    for (const ImplInfo& info : type->implementations()) listed.insert(std::string(info.id));
    EXPECT_EQ(found, listed) << "no ordinary problem of it was found";
  }
  for (const CompositeType& type : composite_types()) {
    EXPECT_EQ(described(folder, type.name)["summary"], type.summary);
  }
}

TEST(TrainerDescribe, ImplementationsSayWhatTheirFilesSay) {
  const TrainerFolder folder;
  const json naive = described(folder, "custom_naive");
  bool conv2d = false;
  for (const json& file : naive["files"]) {
    const std::string name = file["file"], text = file["text"];
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(DUET_SOURCE_DIR) / name)) << name;
    if (name != "framework/layers/conv2d/ladder/conv2d_custom_naive.cu") continue;
    conv2d = true;
    EXPECT_TRUE(text.starts_with("conv2d custom_naive: the definition")) << text;
    EXPECT_TRUE(has(text, "Mapping:", "Traffic:", "Limits:"));
    EXPECT_EQ(text.find("#include"), std::string::npos);
  }
  EXPECT_TRUE(conv2d);
  EXPECT_EQ(naive["layers"].empty(), !DUET_WITH_CUDA);
  // A file may begin with the ids of several.
  const auto names_file = [&](const char* id, const std::string& name) {
    const json files = described(folder, id)["files"];
    for (const json& file : files) {
      if (file["file"] == "framework/layers/" + name) return true;
    }
    return false;
  };
  EXPECT_TRUE(names_file("custom_composed", "conv2d_pool_relu/conv2d_pool_relu_composed.cpp"));
  EXPECT_TRUE(names_file("cudnn_persistent", "batch_norm/batch_norm_cudnn.cpp"));
  const Outcome reference = folder.run("describe cpu_reference");
  EXPECT_TRUE(has(reference.out, "framework/layers/linear/linear_cpu_reference.cpp:\nlinear",
                  "softmax_cross_entropy", "yes"));
}

TEST(TrainerDescribe, UnknownNamesAreTold) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("describe conv2"), kExitUsage, "no implementation 'conv2'",
                 "did you mean 'conv2d'?", "trainer list impls");
  EXPECT_OUTCOME(folder.run("describe"), kExitUsage, "name is required");
}

}  // namespace
}  // namespace duet
