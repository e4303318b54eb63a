// `trainer explain` as people run it: what it writes, and what it says of wrong input. What it writes
// for each implementation is tested in tests/explain.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "core/error.h"
#include "device/device.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

class TrainerExplain : public testing::Test {
 protected:
  void SetUp() override {
    if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  }
  Outcome explain(const std::string& arguments, std::optional<size_t> most_file_bytes = {}) const {
    return folder_.run("explain tiny.yaml " + arguments,
                       {.most_file_bytes = most_file_bytes, .cublaslt = true});
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / ".")) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  TrainerFolder folder_;
};

TEST_F(TrainerExplain, WritesAProgramOfOnePass) {
  const Outcome outcome = explain("--backend cudnn --layer conv1 --set fuse=false");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_TRUE(has(outcome.out, "// conv1 of tiny: conv2d by cudnn, forward.", "cudnnCreate(&cudnn)",
                  "cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 16, 1,",
                  "cudnnSetConvolution2dDescriptor(conv_desc,", "cudnnConvolution",
                  "drawn(1024, 0)", "right &= compare(\"y\"", "conv1_forward.values",
                  "return right ? 0 : 1;"));
  EXPECT_EQ(outcome.out.find("BackwardData"), std::string::npos);

  EXPECT_EQ(files(), std::set<std::string>{"tiny.yaml"});
}

TEST_F(TrainerExplain, WritesTheValuesBesideTheProgramOrNeither) {
  const std::string command = "--backend cudnn --layer fc1 --pass backward_filter --out ";
  const Outcome outcome = explain(command + "fc1.cpp");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_TRUE(has(outcome.out, "wrote fc1.cpp and fc1.values"));
  const std::string text = folder_.read("fc1.cpp"), values = folder_.read("fc1.values");
  EXPECT_TRUE(has(text, "g++ -std=c++17 -O1 fc1.cpp", "compare(\"dw\"", "compare(\"db\"",
                  "\"fc1.values\", " + std::to_string(values.size() / sizeof(double)) + ")"));

  // A disk that has room for one of the two, the first or the second that is written.
  for (const char* file : {"fc1.cpp", "fc1.values"}) fs::remove(folder_ / file);
  std::set<bool> larger;
  for (const std::string layer : {"conv1", "loss"}) {
    const std::string one = "--backend cudnn --layer " + layer + " --out one.cpp";
    EXPECT_OUTCOME(explain(one), kExitDone);
    const size_t program = fs::file_size(folder_ / "one.cpp");
    const size_t numbers = fs::file_size(folder_ / "one.values");
    larger.insert(program > numbers);
    for (const char* file : {"one.cpp", "one.values"}) fs::remove(folder_ / file);
    EXPECT_OUTCOME(explain(one, (program + numbers) / 2), kExitFailure, "File too large");
    EXPECT_EQ(files(), std::set<std::string>{"tiny.yaml"}) << layer;
  }
  EXPECT_EQ(larger.size(), 2u);

  EXPECT_OUTCOME(explain(command + "/dev/null"), kExitUsage,
                 "--out /dev/null: is no file, beside which the values could be written");
  EXPECT_FALSE(fs::exists("/dev/null.values"));
  // Neither of the two may be a file that is read, nor the other.
  EXPECT_OUTCOME(explain(command + "fc1.values"), kExitUsage,
                 "fc1.values: is also the file of --out");
  fs::rename(folder_ / "tiny.yaml", folder_ / "fc1.values");
  EXPECT_OUTCOME(folder_.run("explain fc1.values " + command + "fc1.cpp", {.cublaslt = true}),
                 kExitUsage, "fc1.values: is a file that this command reads, too");
  EXPECT_EQ(files(), std::set<std::string>{"fc1.values"});
  EXPECT_EQ(folder_.read("fc1.values"), kTinyNetwork);
}

TEST_F(TrainerExplain, ABlockGoesByThePartsToo) {
  const Outcome outcome = folder_.run(
      "explain " DUET_SOURCE_DIR
      "/configs/lenet5_fashion.yaml --backend cudnn --layer relu1 --pass backward_filter",
      {.cublaslt = true});
  EXPECT_OUTCOME(outcome, kExitDone);
  // Backward goes on from what forward left.
  EXPECT_TRUE(has(outcome.out, "conv1+relu1+pool1 of lenet5_fashion", "---- forward",
                  "cudnnPoolingForward", "---- backward_filter ----", "cudnnPoolingBackward",
                  "cudnnConvolutionBackwardFilter"));
}

TEST_F(TrainerExplain, NamesWhatThereIs) {
  EXPECT_OUTCOME(explain("--backend cudnn --layer conv2"), kExitUsage, "no layer 'conv2'",
                 "did you mean 'conv1'", "the network has conv1");
  EXPECT_OUTCOME(folder_.run("explain " DUET_SOURCE_DIR
                             "/configs/lenet5_fashion.yaml --backend cudnn --layer rellu1"),
                 kExitUsage, "no layer 'rellu1'", "did you mean 'relu1'",
                 "the network has conv1+relu1+pool1, conv2+relu2+pool2");
  EXPECT_OUTCOME(explain("--backend cudnn"), kExitUsage, "--layer is missing",
                 "the network has conv1");
  EXPECT_OUTCOME(explain("--backend cudnn --layer fc1 --pass backwards"), kExitUsage,
                 "runs no pass 'backwards'", "it runs forward, backward_filter, backward_data");
  EXPECT_OUTCOME(explain("--backend cpu --layer fc1"), kExitUsage, "by cpu_blas",
                 "no implementation of the cudnn family", "cudnn_cublas");
  EXPECT_OUTCOME(explain("--backend custom --layer fc1"), kExitUsage, "by custom_",
                 "Take --backend with one of cudnn_cublas");
  EXPECT_OUTCOME(explain("--backend auto --layer fc1"), kExitUsage, "by what 'auto' will choose",
                 "Take --backend with one of cudnn_cublas");
  EXPECT_OUTCOME(explain("--backend cudnn --layer flatten"), kExitUsage,
                 "layer flatten (flatten) runs no pass 'forward'; it runs none");
  EXPECT_OUTCOME(explain("--backend cudnn --layer fc1 --trace"), kExitUsage, "--trace");
  EXPECT_OUTCOME(explain("--backend cudnn --layer fc1 --out tiny.yaml/fc1.cpp"), kExitUsage,
                 "--out tiny.yaml/fc1.cpp: cannot be written: Not a directory");
  EXPECT_OUTCOME(explain("--backend cudnn --layer fc1 --out ./tiny.yaml"), kExitUsage,
                 "--out ./tiny.yaml: is a file that this command reads, too");
  EXPECT_EQ(folder_.read("tiny.yaml"), kTinyNetwork);
}

TEST(TrainerExplainWithoutCuda, SaysSo) {
  if (built_with_cuda()) GTEST_SKIP() << "needs a build without CUDA";
  const TrainerFolder folder;
  for (const char* what : {"--layer fc1", "--trace"}) {
    EXPECT_OUTCOME(folder.run(std::string("explain tiny.yaml --backend cpu ") + what),
                   kExitUnsupported, "this build has no CUDA");
  }
}

TEST_F(TrainerExplain, TraceListsEveryCallOfAStep) {
  const Outcome outcome = explain("--backend cudnn --trace");
  EXPECT_OUTCOME(outcome, kExitDone);
  const std::string& text = outcome.out;
  EXPECT_TRUE(has(text, "fc1 forward cudnn_cublas\n", "loss forward cudnn\n",
                  "  cudnnSoftmaxForward(handle cudnn, algo CUDNN_SOFTMAX_LOG,",
                  "  kernel of Duet's: softmax_cross_entropy_pick_kernel\n",
                  "fc1 backward_filter cudnn_cublas\n", "wDesc {DATA_FLOAT TENSOR_NCHW"));
  EXPECT_LT(text.find("loss forward"), text.find("loss backward"));
  // Memory by what the layer calls it, and no address.
  EXPECT_TRUE(has(text, "x x,", "y workspace"));
  EXPECT_EQ(text.find("0x"), std::string::npos) << text;
  EXPECT_OUTCOME(explain("--backend cpu --trace"), kExitUsage, "runs on the CPU",
                 "--backend cudnn");
}

}  // namespace
}  // namespace duet
