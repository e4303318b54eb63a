// Pages of a training, made from its folder.
#include <gtest/gtest.h>

#include "compare/report/report_page.h"
#include "core/error.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

TEST(TrainerReport, IsMadeFromTheFolderOfARun) {
  const TrainerFolder folder;
  ASSERT_EQ(folder.run("--config tiny.yaml --quiet --out run --set train.log_every=2").code,
            kExitDone);
  const Outcome outcome = folder.run("report run");
  if (!report_available()) {
    EXPECT_OUTCOME(outcome, kExitFailure, "no chart library", "libjs-chart.js");
    return;
  }
  EXPECT_OUTCOME(outcome, kExitDone, "report, for a browser: run/report.html");
  EXPECT_EQ(outcome.out, "");
  const std::string page = folder.read("run/report.html");
  EXPECT_TRUE(has(page, "<title>tiny</title>", "\"confusion\"", "cpu_", "\"name\":\"conv1.weight\"",
                  "data:image/png;base64,iVBORw0KGgo"));
  EXPECT_OUTCOME(folder.run("report run --quiet --out pages/mine.html"), kExitDone);
  EXPECT_EQ(folder.read("pages/mine.html"), page);
  // Without its checkpoint, or with a damaged one, a page still says the rest.
  folder.write("run/checkpoints/best.safetensors", "damaged");
  EXPECT_OUTCOME(folder.run("report run"), kExitDone, "no filters are shown: run/checkpoints");
  fs::remove_all(folder / "run/checkpoints");
  EXPECT_OUTCOME(folder.run("report run"), kExitDone);
  EXPECT_EQ(folder.read("run/report.html").find("base64,"), std::string::npos);
}

TEST(TrainerReport, SaysWhatToDo) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("report"), kExitUsage, "run is required");
  EXPECT_OUTCOME(folder.run("report nothing"), kExitUsage, "nothing: there is no such folder");
  ASSERT_EQ(folder.run("--config tiny.yaml --quiet --out runs/one").code, kExitDone);
  EXPECT_OUTCOME(folder.run("report nothing"), kExitUsage, "the newest in runs/ is runs/one");
  EXPECT_OUTCOME(folder.run("report tiny.yaml"), kExitUsage, "tiny.yaml: is a file");
  EXPECT_OUTCOME(folder.run("--seed 1 report runs/one"), kExitUsage,
                 "--seed: does not belong to 'report'");
  EXPECT_OUTCOME(folder.run("report runs/one --out tiny.yaml/page.html"), kExitUsage,
                 "cannot be written");
}

}  // namespace
}  // namespace duet
