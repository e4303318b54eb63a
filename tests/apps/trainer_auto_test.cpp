// `backend: auto` as people meet it: measured once, shown, kept, and used by the next run.
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

using nlohmann::json;

TEST(TrainerAuto, MeasuresOnceAndTells) {
  const TrainerFolder folder;
  const std::string home = folder / "home";
  const auto run = [&](const std::string& arguments) {
    return folder.run(
        "--config tiny.yaml --set layers.conv1.backend=auto --set "
        "layers.fc1.backend.forward=auto " +
            arguments,
        {.environment = {"XDG_CACHE_HOME=" + home}});
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const Outcome before = run("--dry-run");
  EXPECT_EQ(before.code, kExitDone) << before.err;
  EXPECT_TRUE(has(before.out, "to be measured: cpu_blas, cpu_reference")) << before.out;
  EXPECT_FALSE(std::filesystem::exists(home));

  EXPECT_OUTCOME(run("--out first"), kExitDone, "auto: measuring the implementations of 3 passes",
                 "the result is kept in " + home + "/duet/auto.json");
  // The gradient of the images is not among them: nobody needs it.
  const json layers = json::parse(folder.read("first/run.json"))["layers"];
  const json choice = layers[3]["passes"][0];
  EXPECT_EQ(layers[3]["name"], "fc1");
  EXPECT_EQ(choice["auto"].size(), 2u);
  EXPECT_EQ(choice["implementation"], choice["auto"][0]["implementation"]);
  EXPECT_FALSE(layers[3]["passes"][1].contains("auto"));

  const Outcome second = run("--out second");
  EXPECT_EQ(second.code, kExitDone) << second.err;
  EXPECT_FALSE(has(second.err, "measuring")) << second.err;
  EXPECT_EQ(json::parse(folder.read("second/run.json"))["layers"], layers);
  EXPECT_EQ(tensors(folder / "second/checkpoints/last.safetensors"),
            tensors(folder / "first/checkpoints/last.safetensors"));
  const Outcome after = run("--dry-run");
  EXPECT_FALSE(has(after.out, "to be measured")) << after.out;
  EXPECT_TRUE(has(after.out, " us; cpu_")) << after.out;

  // A home that cannot be written to costs the search, no more.
  folder.write("file", "");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --out third --set layers.conv1.backend=auto",
                            {.environment = {"XDG_CACHE_HOME=" + (folder / "file").string()}}),
                 kExitDone, "auto: measuring", "the result is not kept: ", "file/duet: ");
}

}  // namespace
}  // namespace duet
