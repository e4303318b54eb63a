// What commands write: never over what they read, and never into a pipe that nobody reads.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "compare/report/report_page.h"
#include "core/error.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

const std::string kInputPicture = DUET_SOURCE_DIR "/tests/data/pictures/grey8.png";

// Runs programs that might wait for ever: a minute at most.
class Outputs : public testing::Test {
 protected:
  Outcome run(const std::string& program, const std::string& arguments) const {
    return folder_.run("-s KILL 60 " + program + " " + arguments);
  }
  Outcome trainer(const std::string& arguments) const { return run(DUET_TRAINER, arguments); }
  void make_run() const {
    EXPECT_OUTCOME(trainer("--config tiny.yaml --out run --quiet"), kExitDone);
  }
  void make_pipe(const std::string& name) const {
    fs::create_directories((folder_ / name).parent_path());
    ASSERT_EQ(mkfifo((folder_ / name).c_str(), 0600), 0);
  }
  // The command is refused, and `file` keeps its content.
  void expect_kept(const std::string& file, const std::string& program,
                   const std::string& arguments, const std::string& part) const {
    SCOPED_TRACE(arguments);
    const std::string before = folder_.read(file);
    EXPECT_FALSE(before.empty());
    EXPECT_OUTCOME(run(program, arguments), kExitUsage, part);
    EXPECT_TRUE(folder_.read(file) == before) << file << " was destroyed";
  }

  const TrainerFolder folder_{"/usr/bin/timeout"};
  const std::string read_too_ = "is a file that this command reads, too";
};

TEST_F(Outputs, ADrawingIsNoFileOfTheNetwork) {
  folder_.write("kernels/part.h", "// part\n");
  folder_.write("kernels/relu_cpu_mine.cpp",
                "#include \"part.h\"\nvoid forward(const float* x, float* y) { *y = *x; }\n");
  fs::create_symlink("tiny.yaml", folder_ / "link.svg");
  fs::create_hard_link(folder_ / "tiny.yaml", folder_ / "hard.svg");
  for (const char* svg : {"tiny.yaml", "./tiny.yaml", "link.svg", "hard.svg"}) {
    expect_kept("tiny.yaml", DUET_TRAINER, std::string("show tiny.yaml --svg ") + svg, read_too_);
  }
  for (const std::string file : {"kernels/relu_cpu_mine.cpp", "kernels/part.h"}) {
    expect_kept(file, DUET_TRAINER, "show tiny.yaml --kernels kernels --svg " + file, read_too_);
    expect_kept(file, DUET_BENCH,
                "relu --shape n=2,in=3 --device cpu --kernels kernels --quick --out " + file,
                read_too_);
    expect_kept(
        file, DUET_COMPARE,
        "--config tiny.yaml --a cpu_blas --b cpu_reference --kernels kernels --markdown " + file,
        read_too_);
  }
}

TEST_F(Outputs, AReportIsNoFileOfItsRun) {
  make_run();
  fs::create_symlink("run/metrics.jsonl", folder_ / "link.html");
  for (const std::string file : {"checkpoints/last.safetensors", "checkpoints/best.safetensors",
                                 "run.json", "config.yaml", "metrics.jsonl", "evaluation.json"}) {
    expect_kept("run/" + file, DUET_TRAINER, "report run --out run/" + file, "run");
    expect_kept("run/" + file, DUET_TRAINER, "report run/. --out ./run/checkpoints/../" + file,
                "run");
  }
  expect_kept("run/metrics.jsonl", DUET_TRAINER, "report run --out link.html", "run");
  if (!report_available()) return;
  for (int i = 0; i < 2; ++i) {  // the earlier page is replaced
    EXPECT_OUTCOME(trainer("report run --out run/mine.html"), kExitDone);
  }
}

TEST_F(Outputs, ATableIsNoFileOfItsRuns) {
  make_run();
  fs::create_symlink("run/checkpoints/last.safetensors", folder_ / "link.md");
  fs::create_symlink("run/run.json", folder_ / "page.json");
  expect_kept("run/checkpoints/last.safetensors", DUET_TRAINER, "accuracy run --write link.md",
              "is also the file of the run in run");
  expect_kept("run/run.json", DUET_TRAINER, "accuracy run --write page.md",
              "is also the file of the run in run");
  EXPECT_OUTCOME(trainer("accuracy run --write table.md"), kExitDone);
  EXPECT_OUTCOME(trainer("accuracy table.json run --write table.md"), kExitDone);  // its own rows
  fs::create_symlink("table.json", folder_ / "again.md");
  expect_kept("table.json", DUET_TRAINER, "accuracy table.json --write again.md",
              "is also the file of the table table.json");
}

TEST_F(Outputs, ActivationsAreNotWrittenOverWhatIsPredicted) {
  make_run();
  const std::string predict = "predict --checkpoint run --activations maps ";
  EXPECT_OUTCOME(trainer(predict + kInputPicture), kExitDone);
  std::string name;
  for (const auto& map : fs::directory_iterator(folder_ / "maps")) {
    name = "maps/" + map.path().filename().string();
  }
  fs::copy_file(kInputPicture, folder_ / name, fs::copy_options::overwrite_existing);
  expect_kept(name, DUET_TRAINER, predict + name, read_too_);
  EXPECT_OUTCOME(trainer(predict + kInputPicture),
                 kExitDone);  // those of the last time are replaced
  fs::remove(folder_ / name);
  fs::create_symlink(folder_ / "run/checkpoints/best.safetensors", folder_ / name);
  expect_kept("run/checkpoints/best.safetensors", DUET_TRAINER, predict + kInputPicture, read_too_);
}

TEST_F(Outputs, ResultsAreNoFileOfTheData) {
  std::string rows = "x,label\n";
  for (int i = 0; i < 40; ++i) rows += std::to_string(i) + (i % 2 ? ",a\n" : ",b\n");
  folder_.write("data/csv/train.csv", rows);
  folder_.write("table.yaml",
                "data: {dataset: csv, features: 1, classes: 2, batch: 8}\n"
                "layers: [{type: flatten}, {type: linear, out_features: 2}, "
                "{type: softmax_cross_entropy}]\n");
  fs::create_symlink("data/csv/train.csv", folder_ / "results.json");
  for (const std::string out : {"data/csv/train.csv", "results.json"}) {
    for (const std::string how : {"", " --one-process"}) {
      expect_kept("data/csv/train.csv", DUET_COMPARE,
                  "--config table.yaml --a cpu_blas --b cpu_reference --data data --quick "
                  "--only throughput --batch 8 --out " +
                      out + how,
                  read_too_);
    }
  }
}

TEST_F(Outputs, APipeThatNobodyReadsIsAnError) {
  make_pipe("pipe");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_OUTCOME(trainer("show tiny.yaml --svg pipe"), kExitFailure,
                 "cannot write pipe: it is a pipe that nobody reads");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50));
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
}

TEST_F(Outputs, PipesAndDevicesThatAreReadAreWrittenTo) {
  EXPECT_OUTCOME(trainer("show tiny.yaml --svg net.svg"), kExitDone);
  const std::string drawn = folder_.read("net.svg");
  make_pipe("pipe");
  folder_.write("all.sh",
                "set -e\n"
                "cat pipe > from_pipe &\n" DUET_TRAINER
                " show tiny.yaml --svg pipe > shown\n"
                "wait\n" DUET_TRAINER
                " show tiny.yaml --svg >(cat > substituted) > shown\n" DUET_TRAINER
                " show tiny.yaml --svg /dev/stdout | cat > printed\n" DUET_TRAINER
                " show tiny.yaml --svg /dev/null > shown\n"
                "for i in $(seq 500); do [ -s substituted ] && break; sleep 0.01; done\n");
  EXPECT_OUTCOME(run("bash", "all.sh"), kExitDone);
  EXPECT_EQ(folder_.read("from_pipe"), drawn);
  EXPECT_EQ(folder_.read("substituted"), drawn);
  EXPECT_EQ(folder_.read("printed"), drawn + folder_.read("shown"));
}

TEST_F(Outputs, FilesOfARunAreRegularFiles) {
  make_run();
  const std::string resume = "--config tiny.yaml --out run --resume last --epochs 3";
  const std::string last = folder_.read("run/checkpoints/last.safetensors");
  for (const std::string file : {"config.yaml", "run.json", "evaluation.json", "metrics.jsonl",
                                 "profile.json", "checkpoints/best.safetensors"}) {
    SCOPED_TRACE(file);
    fs::remove(folder_ / ("kept"));
    if (fs::exists(folder_ / ("run/" + file)))
      fs::rename(folder_ / ("run/" + file), folder_ / "kept");
    make_pipe("run/" + file);
    EXPECT_OUTCOME(trainer(resume), kExitUsage, "run", file + " is not a regular file");
    fs::remove(folder_ / ("run/" + file));
    if (fs::exists(folder_ / "kept")) fs::rename(folder_ / "kept", folder_ / ("run/" + file));
    make_pipe("new/" + file);
    for (const std::string profile : {"", " --profile"}) {
      EXPECT_OUTCOME(trainer("--config tiny.yaml --out new" + profile), kExitUsage,
                     file + " is not a regular file");
    }
    fs::remove_all(folder_ / "new");
  }
  EXPECT_TRUE(folder_.read("run/checkpoints/last.safetensors") == last);
  EXPECT_OUTCOME(trainer(resume), kExitDone, "epoch 3/3");
}

TEST_F(Outputs, ARunDoesNotOverwriteItsConfigurationThroughALink) {
  make_run();
  const std::string resume = " --out run --resume last --epochs 3";
  fs::remove(folder_ / "run/config.yaml");
  fs::create_symlink("../tiny.yaml", folder_ / "run/config.yaml");
  for (const std::string config : {"tiny.yaml", "run/config.yaml"}) {
    expect_kept("tiny.yaml", DUET_TRAINER, "--config " + config + resume,
                "config.yaml is a link to a file that this command reads");
  }
  fs::remove(folder_ / "run/config.yaml");
  folder_.write("run/config.yaml", folder_.read("tiny.yaml"));
  // The run's own file is written anew, and a link to another disk is followed.
  fs::rename(folder_ / "run/checkpoints/last.safetensors", folder_ / "elsewhere");
  fs::create_symlink("../../elsewhere", folder_ / "run/checkpoints/last.safetensors");
  EXPECT_OUTCOME(trainer("--config run/config.yaml" + resume), kExitDone, "epoch 3/3");
  EXPECT_TRUE(fs::is_symlink(folder_ / "run/checkpoints/last.safetensors"));
}

}  // namespace
}  // namespace duet
