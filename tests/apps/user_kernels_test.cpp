// Kernels of files on the command line and in configurations; what needs a GPU is skipped without one.
#include <gtest/gtest.h>
#include <signal.h>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "device/device.h"
#include "device/nvrtc.h"
#include "net/spec.h"
#include "net/yaml.h"
#include "support/trainer_process.h"
#include "train/config_changes.h"
#include "user_kernels/kernel_file.h"

namespace duet {
namespace {

class UserKernelsApps : public testing::Test {
 protected:
  const TrainerFolder folder_;
  const TrainerFolder bench_{DUET_BENCH};
  // With a cache.
  const TrainerFolder::Options home_{.environment = {"HOME=" + bench_.path().string()}};
};

TEST_F(UserKernelsApps, NewKernelWritesAFileThatIsThenListed) {
  const Outcome made = folder_.run("new-kernel relu mine");
  EXPECT_OUTCOME(made, kExitDone);
  EXPECT_TRUE(has(made.out, "relu_custom_mine.cu", "bench relu --kernels ."));
  EXPECT_TRUE(has(folder_.read("relu_custom_mine.cu"), "// relu custom_mine: ", "DUET_LAUNCH"));
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine"), kExitUsage, "is there already");
  const Outcome listed = folder_.run("list impls --kernels .");
  EXPECT_OUTCOME(listed, kExitDone);
  EXPECT_TRUE(has(listed.out, "custom_mine", "relu_custom_mine.cu, source "));
  if (!Nvrtc::find()) GTEST_SKIP() << Nvrtc::missing_reason();
  const Outcome described = folder_.run("describe custom_mine --kernels relu_custom_mine.cu");
  EXPECT_OUTCOME(described, kExitDone);
  EXPECT_TRUE(has(described.out, "a thread computes one element", "fp32", "yes"));
}

TEST_F(UserKernelsApps, AFileForTheCpuIsMeasuredTunedAndTrains) {
  const Outcome made = folder_.run("new-kernel relu mine --device cpu");
  EXPECT_OUTCOME(made, kExitDone);
  EXPECT_TRUE(has(made.out, "--device cpu --watch")) << made.out;
  const std::string text = folder_.read("relu_cpu_mine.cpp");
  EXPECT_TRUE(has(text, "// relu cpu_mine: ", "void forward(const"));
  bench_.write("relu_cpu_mine.cpp", "DUET_TUNE(CHUNK, 64, 128);\n" + text);
  const std::string problem = "relu --shape n=4,in=8 --kernels . --device cpu ";
  const Outcome measured = bench_.run(problem + "--impl cpu_mine,cpu_reference --quick", home_);
  EXPECT_OUTCOME(measured, kExitDone);
  EXPECT_TRUE(has(measured.out, "cpu_mine", "ok 0%", "source "));
  const Outcome tuned = bench_.run(problem + "--tune --quick", home_);
  EXPECT_OUTCOME(tuned, kExitDone);
  EXPECT_TRUE(has(tuned.out, "CHUNK", "--tune --device cpu --quick")) << tuned.out;
  EXPECT_FALSE(has(tuned.out, "--impl cpu_mine[")) << "which bench knows in --tune alone";

  folder_.write("net.yaml",
                changed(kTinyNetwork, {{"type: relu", "type: relu, backend: cpu_mine"}}));
  EXPECT_OUTCOME(folder_.run("--config net.yaml --backend cpu --kernels . --out run", home_),
                 kExitDone);
  EXPECT_EQ(folder_.read("run/kernels/relu_cpu_mine.cpp"), text);
  EXPECT_TRUE(has(folder_.read("run/config.yaml"), "cpu_mine"));
}

TEST_F(UserKernelsApps, ATrainingOnTheCpuIsResumedByNoOtherSourceAndKeepsBoth) {
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine --device cpu"), kExitDone);
  const std::string first = folder_.read("relu_cpu_mine.cpp"), second = "// other\n" + first;
  folder_.write("net.yaml",
                changed(kTinyNetwork, {{"type: relu", "type: relu, backend: cpu_mine"}}));
  const std::string train = "--config net.yaml --backend cpu --kernels . --out run";
  EXPECT_OUTCOME(folder_.run(train, home_), kExitDone);
  const Outcome without = folder_.run("evaluate --checkpoint run");
  EXPECT_OUTCOME(without, kExitUsage, "unknown implementation 'cpu_mine'", "--kernels PATH");
  const std::string hash = read_kernel_file(folder_ / "run/kernels/relu_cpu_mine.cpp").hash;
  folder_.write("relu_cpu_mine.cpp", second);
  EXPECT_OUTCOME(folder_.run(train + " --resume last --epochs 3", home_), kExitUsage,
                 "sources.relu_cpu_mine: ", "--allow-changes");
  EXPECT_EQ(folder_.read("run/kernels/relu_cpu_mine.cpp"), first);
  EXPECT_OUTCOME(folder_.run(train + " --resume last --epochs 3 --allow-changes", home_),
                 kExitDone);
  EXPECT_EQ(folder_.read("run/kernels/relu_cpu_mine.cpp"), second);
  EXPECT_EQ(folder_.read("run/kernels/earlier/" + hash + "/relu_cpu_mine.cpp"), first);
}

TEST_F(UserKernelsApps, HistoryIsAFileOfItsOwn) {
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine --device cpu"), kExitDone);
  const std::string kernel = folder_.read("relu_cpu_mine.cpp");
  bench_.write("relu_cpu_mine.cpp", kernel);
  std::filesystem::create_symlink("relu_cpu_mine.cpp", bench_ / "relu_cpu_mine.history.jsonl");
  const Outcome watched =
      bench_.run_until("relu --shape n=4,in=8 --kernels . --device cpu --quick --watch", "stdout",
                       SIGINT, "from the save", home_);
  EXPECT_OUTCOME(watched, kExitDone);
  EXPECT_TRUE(has(watched.out, "relu_cpu_mine.history.jsonl: is a link")) << watched.out;
  EXPECT_EQ(bench_.read("relu_cpu_mine.cpp"), kernel);
}

TEST_F(UserKernelsApps, WatchOfAFileForTheCpuTellsOfNoRegisters) {
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine --device cpu"), kExitDone);
  bench_.write("relu_cpu_mine.cpp", folder_.read("relu_cpu_mine.cpp"));
  const Outcome watched =
      bench_.run_until("relu --shape n=4,in=8 --kernels . --device cpu --quick --watch", "stdout",
                       SIGINT, "from the save", home_);
  EXPECT_OUTCOME(watched, kExitDone);
  EXPECT_TRUE(has(watched.out, "forward: right (", "backward: right (", "x cpu_reference"));
  EXPECT_FALSE(has(watched.out, "registers")) << watched.out;
  EXPECT_TRUE(has(bench_.read("relu_cpu_mine.history.jsonl"), "\"us\":"));
}

TEST_F(UserKernelsApps, AFileOfTheOtherDeviceIsLeftOutAndTold) {
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine"), kExitDone);
  bench_.write("relu_custom_mine.cu", folder_.read("relu_custom_mine.cu"));
  EXPECT_OUTCOME(bench_.run("relu --shape n=4,in=8 --kernels . --device cpu --check-only"),
                 kExitDone,
                 "relu custom_mine is left out, neither compiled nor checked: it runs on the GPU");
}

TEST_F(UserKernelsApps, AFileForTheCpuThatCrashesIsALine) {
  bench_.write("relu_cpu_mine.cpp",
               "void forward(const float*, float*) { *(volatile int*)8 = 1; }\n");
  const Outcome crashed =
      bench_.run("relu --shape n=4,in=8 --kernels . --device cpu --pass forward --quick", home_);
  EXPECT_OUTCOME(crashed, kExitComparison);
  EXPECT_TRUE(has(crashed.out, "cpu_reference   ok", "cpu_mine: failed: crashed: SIGSEGV"))
      << crashed.out;
}

std::string new_run() {
  static int runs = 0;
  return "run" + std::to_string(++runs);
}

// Of a layer that does all right until it ends the training in its third step.
std::string ending_relu(const std::string& how) {
  return "#include <cstdlib>\n#include <unistd.h>\nvoid forward(const float* x, float* y) {\n"
         "  static int calls = 0;\n  if (++calls == 3) " +
         how +
         ";\n  for (int i = 0; i < ELEMENTS; ++i) y[i] = x[i] > 0 ? x[i] : 0;\n}\n"
         "void backward(const float* x, const float*, const float* dy, float* dx) {\n"
         "  for (int i = 0; i < ELEMENTS; ++i) dx[i] = x[i] > 0 ? dy[i] : 0;\n}\n";
}

TEST_F(UserKernelsApps, ATrainingThatAKernelEndsFailsAndNamesIt) {
  folder_.write("net.yaml",
                changed(kTinyNetwork, {{"type: relu", "type: relu, backend: cpu_mine"}}));
  for (const char* how :
       {"std::exit(0)", "std::exit(3)", "std::quick_exit(0)", "_exit(0)", "std::_Exit(0)"}) {
    SCOPED_TRACE(how);
    folder_.write("relu_cpu_mine.cpp", ending_relu(how));
    EXPECT_OUTCOME(
        folder_.run("--config net.yaml --backend cpu --kernels . --out " + new_run(), home_),
        kExitFailure, "error: cpu_mine in relu forward (layer relu1) ended the process by exit()");
  }
}

TEST_F(UserKernelsApps, WhateverAKernelThrowsIsAnErrorThatNamesIt) {
  folder_.write("net.yaml",
                changed(kTinyNetwork, {{"type: relu", "type: relu, backend: cpu_mine"}}));
  const std::vector<std::pair<std::string, std::string>> all = {
      {"throw 7", "cpu_mine threw an exception of type int"},
      {"throw \"text\"", "cpu_mine threw an exception of type char const*"},
      {"throw std::runtime_error(\"oops\")", "cpu_mine threw an exception: oops"},
      {"throw std::bad_alloc()", "cpu_mine: out of memory"}};
  for (const auto& [how, expected] : all) {
    SCOPED_TRACE(how);
    const std::string text = "#include <new>\n#include <stdexcept>\n" + ending_relu(how);
    folder_.write("relu_cpu_mine.cpp", text);
    EXPECT_OUTCOME(
        folder_.run("--config net.yaml --backend cpu --kernels . --out " + new_run(), home_),
        kExitFailure, "error: ", expected);
    bench_.write("relu_cpu_mine.cpp", text);
    const Outcome measured =
        bench_.run("relu --shape n=4,in=8 --kernels . --device cpu --check-only", home_);
    EXPECT_OUTCOME(measured, kExitComparison);
    EXPECT_TRUE(has(measured.out, "cpu_mine: failed: " + expected)) << measured.out;
  }
}

TEST_F(UserKernelsApps, AFileThatDoesNotCompileIsNotPassedOverInSilence) {
  const std::string problem = "relu --shape n=4,in=8 --kernels . --device cpu --check-only ";
  bench_.write("relu_cpu_mine.cpp", "oops\n");
  const Outcome measured = bench_.run(problem + "--json", home_);
  EXPECT_OUTCOME(measured, kExitUnsupported,
                 "cannot be compiled, and were not measured: relu cpu_mine");
  const auto results = nlohmann::json::parse(measured.out);
  EXPECT_EQ(results["rows"][0]["unsupported"][0]["broken"], true);
  EXPECT_OUTCOME(bench_.run(problem + "--impl cpu_reference", home_), kExitDone);
  bench_.write("relu_cpu_mine.cpp",
               ending_relu("(void)0") + "DUET_REQUIRES(false, \"not today\");\n");
  EXPECT_OUTCOME(bench_.run(problem, home_), kExitDone);
  bench_.write("relu_cpu_mine.cpp", "oops\n");
  bench_.write("relu_cpu_wrong.cpp", "void forward(const float*, float*) {}\n");
  EXPECT_OUTCOME(bench_.run(problem, home_), kExitComparison);
}

TEST_F(UserKernelsApps, ACompilerThatHangsCostsItsFileAlone) {
  bench_.write("relu_cpu_mine.cpp", ending_relu("(void)0"));
  const std::string problem = "relu --shape n=4,in=8 --kernels . --device cpu --check-only ";
  const auto run = [&](const std::string& compiler) {
    bench_.write("compiler", "#!/bin/sh\n" + compiler);
    std::filesystem::permissions(bench_ / "compiler", std::filesystem::perms::owner_all);
    TrainerFolder::Options options = home_;
    options.environment.push_back("CXX=" + (bench_ / "compiler").string());
    return bench_.run(problem + "--patience 1", options);
  };
  const std::string version = "[ \"$1\" = --version ] && echo 1 && exit\n";
  const auto start = std::chrono::steady_clock::now();
  const Outcome endless = run(version + "sleep 600; true\n");
  EXPECT_OUTCOME(endless, kExitUnsupported);
  EXPECT_TRUE(has(endless.out, "cpu_reference", "has not ended after 1 s, and was ended"))
      << endless.out;
  const Outcome without_version = run("sleep 600; true\n");
  EXPECT_OUTCOME(without_version, kExitUnsupported);
  EXPECT_TRUE(has(without_version.out, "--version has not ended after 1 s")) << without_version.out;
  const Outcome talks = run(version + "yes\n");
  EXPECT_OUTCOME(talks, kExitUnsupported);
  EXPECT_TRUE(has(talks.out, "and was ended")) << talks.out;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST_F(UserKernelsApps, WhatAKernelPrintsIsNoPartOfTheResults) {
  bench_.write(
      "relu_cpu_mine.cpp",
      "#include <cstdio>\n#include <unistd.h>\n" +
          ending_relu(
              "{ printf(\"a line\\n\"); fflush(stdout); (void)!write(1, \"a line\\n\", 7); }"));
  const Outcome measured = bench_.run(
      "relu --shape n=4,in=8 --kernels . --device cpu --pass forward --check-only --json", home_);
  EXPECT_TRUE(nlohmann::json::accept(measured.out)) << measured.out;
  EXPECT_TRUE(has(measured.err, "a line\n"));
}

TEST_F(UserKernelsApps, NewKernelRefusesWhatItCannotWrite) {
  EXPECT_OUTCOME(folder_.run("new-kernel conv3d mine"), kExitUsage, "no layer type 'conv3d'",
                 "did you mean 'conv2d'");
  EXPECT_OUTCOME(folder_.run("new-kernel add mine"), kExitUsage, "no file to begin with for 'add'",
                 "batch_norm2d, conv2d, ");
  EXPECT_TRUE(has(folder_.run("new-kernel --help").out, "the layer type: batch_norm2d, conv2d,"));
  EXPECT_OUTCOME(folder_.run("new-kernel relu ../mine"), kExitUsage);
  EXPECT_OUTCOME(folder_.run("new-kernel relu Mine"), kExitUsage, "small letters");
  if (!built_with_cuda()) return;
  EXPECT_OUTCOME(folder_.run("new-kernel conv2d naive"), kExitUsage,
                 "has a custom_naive of Duet's own");
  EXPECT_EQ(folder_.read("conv2d_custom_naive.cu"), "");
}

TEST_F(UserKernelsApps, WrongPathsAreToldWithTheirPlace) {
  EXPECT_OUTCOME(folder_.run("list impls --kernels none"), kExitUsage,
                 "none: there is no such file or folder of kernels");
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_OUTCOME(bench_.run("relu --shape n=4,in=8 --kernels none"), kExitUsage,
                 "no such file or folder");
  folder_.write("net.yaml", "kernels: [empty, none]\n" + std::string(kTinyNetwork));
  EXPECT_OUTCOME(folder_.run("show net.yaml"), kExitUsage,
                 "net.yaml:1:11: kernels: empty: holds no kernels",
                 "net.yaml:1:18: kernels: none: there is no such file or folder");
  folder_.write("net.yaml", "kernels: {a: b}\n" + std::string(kTinyNetwork));
  EXPECT_OUTCOME(folder_.run("show net.yaml"), kExitUsage,
                 "net.yaml:1:10: ", "a folder of kernels");
  folder_.write("net.yaml", changed(kTinyNetwork, {{"type: relu", "type: relu, backend: ./r.cu"}}));
  EXPECT_OUTCOME(folder_.run("show net.yaml"), kExitUsage,
                 "net.yaml:", "backend: ./r.cu: there is no such file");
  folder_.write("r.cu", "");
  EXPECT_OUTCOME(folder_.run("show net.yaml"), kExitUsage,
                 "backend: ./r.cu: ", "LAYER_custom_NAME.cu");
}

TEST_F(UserKernelsApps, AnUnknownIdSaysWhereToFindIt) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  folder_.write("net.yaml",
                changed(kTinyNetwork, {{"type: relu", "type: relu, backend: custom_of_my_own"}}));
  EXPECT_OUTCOME(folder_.run("show net.yaml --backend custom"), kExitUsage, "custom_of_my_own",
                 "--kernels PATH");
}

TEST_F(UserKernelsApps, WithoutNvrtcTheReasonIsTold) {
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine"), kExitDone);
  TrainerFolder::Options without{.environment = {"DUET_NVRTC=/none/libnvrtc.so"}};
  const Outcome doctor = folder_.run("doctor", without);
  EXPECT_OUTCOME(doctor, kExitDone);
  EXPECT_TRUE(has(doctor.out, "NVRTC", "none: ", "/none/libnvrtc.so", "CUDA toolkit"));
  const Outcome described = folder_.run("describe custom_mine --kernels .", without);
  EXPECT_OUTCOME(described, kExitDone);
  EXPECT_TRUE(has(described.out, "no", "NVRTC, which compiles kernels at run time, was not found"));
}

TEST_F(UserKernelsApps, WatchTellsOfEverySave) {
  if (!Nvrtc::find()) GTEST_SKIP() << Nvrtc::missing_reason();
  bench_.write("relu_custom_mine.cu",
               "__global__ void forward(const float* x, float* y) { oops }\n");
  const Outcome watched =
      bench_.run_until("relu --shape n=4,in=8 --kernels . --watch", "stdout", SIGINT, "oops");
  EXPECT_OUTCOME(watched, kExitDone);
  EXPECT_TRUE(has(watched.out, "relu_custom_mine, source ", "does not compile",
                  "relu_custom_mine.cu(1): error"))
      << watched.out;
  EXPECT_OUTCOME(bench_.run("softmax --shape n=4,in=8 --kernels . --watch"), kExitUsage,
                 "--kernels named no kernels of softmax", "trainer new-kernel softmax mine");
  EXPECT_OUTCOME(bench_.run("relu --shape n=4,in=8 --watch"), kExitUsage, "--kernels");
}

TEST_F(UserKernelsApps, WatchCompilesWithoutAGpu) {
  if (!Nvrtc::find()) GTEST_SKIP() << Nvrtc::missing_reason();
  if (gpu_available()) GTEST_SKIP() << "needs a machine without a GPU";
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine"), kExitDone);
  bench_.write("relu_custom_mine.cu", folder_.read("relu_custom_mine.cu"));
  const Outcome watched = bench_.run_until("relu --shape n=4,in=8 --kernels . --watch", "stdout",
                                           SIGINT, "from the save", home_);
  EXPECT_OUTCOME(watched, kExitDone);
  EXPECT_TRUE(has(watched.out, "registers", "this needs a GPU")) << watched.out;
  EXPECT_OUTCOME(bench_.run("relu --shape n=4,i=8 --kernels . --watch"), kExitUsage,
                 "unknown word 'i'");
}

TEST_F(UserKernelsApps, WatchSeesFilesThatChangeTogether) {
  if (!Nvrtc::find()) GTEST_SKIP() << Nvrtc::missing_reason();
  bench_.write("tile.h", "#error first\n");
  bench_.write("relu_custom_a.cu", "#include \"tile.h\"\n");
  bench_.write("relu_custom_b.cu", "#include \"tile.h\"\n#ifdef OTHER\n#error as_b\n#endif\n");
  std::jthread save([&](const std::stop_token& stop) {
    const auto examined = [&] {
      const std::string told = bench_.read("stdout");
      const size_t one = told.find("#error first");
      return one != std::string::npos && told.find("#error first", one + 1) != std::string::npos;
    };
    while (!stop.stop_requested() && !examined()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    bench_.write("tile.h", "#define OTHER\n");
  });
  EXPECT_OUTCOME(
      bench_.run_until("relu --shape n=4,in=8 --kernels . --watch", "stdout", SIGINT, "as_b"),
      kExitDone);
  EXPECT_OUTCOME(bench_.run("relu --shape n=4,in=8 --kernels . --watch --tune"), kExitUsage,
                 "one of --watch and --tune");
}

TEST_F(UserKernelsApps, AnotherSourceThanTheConfigurationNamesIsTold) {
  if (!built_with_cuda() || !Nvrtc::find()) GTEST_SKIP() << "needs a build with CUDA and NVRTC";
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine"), kExitDone);
  folder_.write("net.yaml",
                "backend: custom\nkernels: [.]\nsources: {relu_custom_mine: 0123}\n" +
                    changed(kTinyNetwork, {{"backend: cpu\n", ""},
                                           {"type: relu", "type: relu, backend: custom_mine"}}));
  EXPECT_OUTCOME(folder_.run("--config net.yaml --dry-run"), kExitDone,
                 "relu_custom_mine.cu is not what the configuration was written with",
                 "names 0123");
}

TEST_F(UserKernelsApps, AMistakeInAFileIsWrongUsageAndAMissingCompilerIsNot) {
  if (!built_with_cuda() || !Nvrtc::find()) GTEST_SKIP() << "needs a build with CUDA and NVRTC";
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine"), kExitDone);
  const std::string right = folder_.read("relu_custom_mine.cu");
  folder_.write("net.yaml",
                changed(kTinyNetwork, {{"type: relu", "type: relu, backend: custom_mine"},
                                       {"backend: cpu", "backend: custom\nfuse: false"}}));
  const auto show = [&] { return folder_.run("show net.yaml --kernels ."); };
  EXPECT_OUTCOME(show(), kExitDone);
  folder_.write("relu_custom_mine.cu", right + "this is no C++\n");
  EXPECT_OUTCOME(show(), kExitUsage, "custom_mine", "does not compile", "error:");
  folder_.write("relu_custom_mine.cu", right + "DUET_LAUNCH(forward, no_kernel, 1, 32);\n");
  EXPECT_OUTCOME(show(), kExitUsage, "custom_mine", "no_kernel");
  folder_.write("relu_custom_mine.cu", right + "DUET_REQUIRES(false, \"not today\");\n");
  EXPECT_OUTCOME(show(), kExitUnsupported, "custom_mine", "not today");
  folder_.write("relu_custom_mine.cu", "this is no C++\n");
  EXPECT_OUTCOME(folder_.run("show net.yaml --kernels .", {.environment = {"DUET_NVRTC=none"}}),
                 kExitUnsupported, "NVRTC");
}

TEST_F(UserKernelsApps, WhatIsNoTextIsRefused) {
  bench_.write("relu_custom_mine.cu", std::string("// relu\0 and more\n", 19));
  EXPECT_OUTCOME(bench_.run("relu --shape n=4,in=8 --kernels ."), kExitUsage, "holds a NUL byte");
  EXPECT_OUTCOME(folder_.run("new-kernel relu __"), kExitUsage, "NAME begins with none");
}

TEST_F(UserKernelsApps, WatchTellsWhetherItIsRightAndHowFast) {
  if (!gpu_available()) GTEST_SKIP() << gpu_missing_reason();
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine"), kExitDone);
  const std::string kernel = folder_.read("relu_custom_mine.cu");
  const auto watch = [&](const std::string& text, const std::string& options = "") {
    bench_.write("relu_custom_mine.cu", text);
    return bench_.run_until("relu --shape n=64,in=3000 --kernels . --quick --watch " + options,
                            "stdout", SIGINT, "from the save", home_);
  };
  const Outcome right = watch(kernel);
  EXPECT_OUTCOME(right, kExitDone);
  EXPECT_TRUE(has(right.out, "registers", "forward: right (", "backward: right (", "x cudnn"))
      << right.out;
  EXPECT_TRUE(
      has(bench_.read("relu_custom_mine.history.jsonl"), "\"us\":", "\"pass\":\"backward\""));
  const Outcome again = watch(kernel);
  EXPECT_TRUE(has(again.out, "compiled before", "since the last, best so far")) << again.out;
  const Outcome wrong = watch(changed(kernel, {{"value > 0.0f", "value > 1.0f"}}));
  EXPECT_OUTCOME(wrong, kExitDone);
  EXPECT_TRUE(has(wrong.out, "forward: WRONG", "backward: right (")) << wrong.out;
  const Outcome wild = watch(changed(kernel, {{"  y[i] = T(", "  y[i + (1ll << 40)] = T("}}));
  EXPECT_OUTCOME(wild, kExitDone);
  EXPECT_TRUE(has(wild.out, "forward: WRONG")) << wild.out;
  const Outcome endless =
      watch(changed(kernel, {{"  y[i] = T(", "  while (clock64() != 1) {}\n  y[i] = T("}}),
            "--pass forward --patience 3");
  EXPECT_OUTCOME(endless, kExitDone);
  EXPECT_TRUE(has(endless.out, "forward: WRONG")) << endless.out;
}

TEST_F(UserKernelsApps, APuzzleIsWrittenOnceAndThenJudged) {
  const Outcome written = bench_.run("relu --puzzle mine/puzzles");
  EXPECT_OUTCOME(written, kExitDone);
  const std::string path = "mine/puzzles/relu_custom_puzzle.cu", text = bench_.read(path);
  EXPECT_TRUE(has(text, "y = max(x, 0)", "  // yours\n}", "DUET_LAUNCH(forward"));
  EXPECT_TRUE(has(written.out, text, "wrote " + path));
  EXPECT_OUTCOME(bench_.run("relu --puzzle mine/puzzles --pass backward"), kExitDone);
  EXPECT_TRUE(has(bench_.read("mine/puzzles/relu_custom_puzzle_backward.cu"), "backward("));
  if (!Nvrtc::find()) GTEST_SKIP() << Nvrtc::missing_reason();
  const Outcome judged = bench_.run("relu --puzzle mine/puzzles", home_);
  EXPECT_EQ(bench_.read(path), text) << "it was overwritten";
  EXPECT_TRUE(has(judged.out, "registers", " must move at least, each tensor")) << judged.out;
  bench_.write(path, text + "oops\n");
  EXPECT_OUTCOME(bench_.run("relu --puzzle mine/puzzles"), kExitComparison);
  EXPECT_TRUE(has(bench_.run("relu --puzzle mine/puzzles").out, "does not compile"));
  if (!gpu_available()) {
    EXPECT_OUTCOME(judged, kExitUnsupported, "it compiles", "needs a GPU");
    return;
  }
  EXPECT_OUTCOME(judged, kExitComparison);
  EXPECT_TRUE(has(judged.out, "WRONG", "leaves y[0] as it was before the call")) << judged.out;
  const std::string body =
      "const int i = blockIdx.x * BLOCK + threadIdx.x;\n"
      "if (i < ELEMENTS) y[i] = T(float(x[i]) < 0.0f ? 0.0f : float(x[i]));\n";
  bench_.write(path, changed(text, {{"  // yours\n", body}}));
  const Outcome solved = bench_.run("relu --puzzle mine/puzzles", home_);
  EXPECT_OUTCOME(solved, kExitDone);
  EXPECT_TRUE(has(solved.out, "right (", "  > ", "yours is ")) << solved.out;
}

TEST_F(UserKernelsApps, PuzzlesThatAreNotThereAreNamed) {
  EXPECT_OUTCOME(bench_.run("dropout --puzzle p"), kExitUsage,
                 "there are puzzles of batch_norm2d, conv2d, ");
  EXPECT_OUTCOME(bench_.run("relu --puzzle p --pass backward_data"), kExitUsage,
                 "of relu there are forward, backward");
  EXPECT_OUTCOME(bench_.run("relu --puzzle p --json"), kExitUsage, "--puzzle takes LAYER");
  EXPECT_OUTCOME(bench_.run("--puzzle p"), kExitUsage, "--puzzle takes LAYER");
  EXPECT_FALSE(std::filesystem::exists(bench_ / "p"));
}

TEST_F(UserKernelsApps, TuneKeepsWhatIsFastest) {
  if (!Nvrtc::find()) GTEST_SKIP() << Nvrtc::missing_reason();
  bench_.write("relu_custom_mine.cu",
               "__global__ void forward(const float* x, float* y) {}\n"
               "DUET_LAUNCH(forward, forward, 1, 32);\n");
  EXPECT_OUTCOME(bench_.run("relu --shape n=4,in=8 --kernels . --tune"), kExitUsage,
                 "relu_custom_mine.cu: has no DUET_TUNE");
  if (!gpu_available()) GTEST_SKIP() << gpu_missing_reason();
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine"), kExitDone);
  bench_.write("relu_custom_mine.cu", folder_.read("relu_custom_mine.cu"));
  const Outcome tuned = bench_.run("relu --shape n=64,in=3000 --kernels . --quick --tune", home_);
  EXPECT_OUTCOME(tuned, kExitDone);
  EXPECT_TRUE(has(tuned.out, "custom_mine[BLOCK=64]", "custom_mine[BLOCK=512]",
                  "relu_custom_mine: BLOCK=", "from now on"))
      << tuned.out;
  EXPECT_FALSE(has(tuned.out, "alone was checked")) << tuned.out;
  const Outcome forward =
      bench_.run("relu --shape n=64,in=3000 --kernels . --quick --tune --pass forward", home_);
  EXPECT_OUTCOME(forward, kExitDone);
  EXPECT_TRUE(has(forward.out, "from now on, in every pass, though forward alone was checked"))
      << forward.out;
  const Outcome timed =
      bench_.run("relu --shape n=64,in=3000 --kernels . --impl custom_mine --quick", home_);
  EXPECT_OUTCOME(timed, kExitDone);
  EXPECT_TRUE(has(timed.out, ", BLOCK=")) << timed.out;
}

TEST(UserKernelPaths, AreNotTakenFromACheckpoint) {
  const ConfigNode config = from_checkpoint(
      read_yaml("kernels: [a]\nbackend: ./relu_custom_a.cu\nlayers:\n"
                "  - {name: a, backend: ./relu_custom_a.cu}\n"
                "  - {name: b, backend: {forward: ./conv2d_custom_a.cu, backward_data: cudnn}}\n"
                "  - {name: c, backend: custom_a}\n",
                "test.yaml"));
  EXPECT_EQ(write_yaml(config).find(".cu"), std::string::npos);
  EXPECT_TRUE(has(write_yaml(config), "backward_data: cudnn", "backend: custom_a"));
  EXPECT_FALSE(config.find("kernels"));
}

TEST(UserKernelChanges, AnotherSourceUnderOneNameIsAnotherTraining) {
  const auto config = [](const std::string& hash) {
    ConfigNode node = ConfigNode::map();
    if (!hash.empty())
      node.at_or_add("sources").at_or_add("relu_custom_mine") = ConfigNode::of(hash);
    return node;
  };
  const auto changes = config_changes(config("0123"), config("4567"));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(to_string(changes[0]), "sources.relu_custom_mine: 0123 -> 4567");
  EXPECT_EQ(changes[0].kind, ConfigChange::Kind::kTraining);
  EXPECT_FALSE(changes[0].of_results);
  // Who computes it may be another one, as with any implementation.
  const auto first = config_changes(config(""), config("4567"));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].kind, ConfigChange::Kind::kImplementation);
}

TEST_F(UserKernelsApps, ATrainingKeepsTheSourceAndIsResumedByNoOther) {
  if (!gpu_available()) GTEST_SKIP() << gpu_missing_reason();
  EXPECT_OUTCOME(folder_.run("new-kernel relu mine"), kExitDone);
  folder_.write("net.yaml",
                changed(kTinyNetwork, {{"type: relu", "type: relu, backend: custom_mine"},
                                       {"backend: cpu", "backend: custom"}}));
  const std::string train = "--config net.yaml --kernels . --out run --set fuse=false";
  const Outcome trained = folder_.run(train);
  EXPECT_OUTCOME(trained, kExitDone, "custom_mine", "source ");
  EXPECT_EQ(folder_.read("run/kernels/relu_custom_mine.cu"), folder_.read("relu_custom_mine.cu"));
  EXPECT_TRUE(has(folder_.read("run/config.yaml"), "sources", "relu_custom_mine: "));
  EXPECT_OUTCOME(folder_.run(train + " --resume last --epochs 3"), kExitDone);
  EXPECT_OUTCOME(folder_.run("evaluate --checkpoint run --kernels run/kernels"), kExitDone);
  EXPECT_OUTCOME(folder_.run("evaluate --checkpoint run"), kExitUsage, "custom_mine", "--kernels");
  folder_.write("relu_custom_mine.cu", "// other\n" + folder_.read("relu_custom_mine.cu"));
  EXPECT_OUTCOME(folder_.run(train + " --resume last --epochs 4"), kExitUsage,
                 "sources.relu_custom_mine: ", "--allow-changes");
  EXPECT_OUTCOME(folder_.run(train + " --resume last --epochs 4 --allow-changes"), kExitDone);
}

}  // namespace
}  // namespace duet
