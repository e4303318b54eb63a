// `trainer explain` as people run it: what it writes, and what it says of wrong input. What it writes
// for each implementation is tested in tests/explain.
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "device/device.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

class TrainerExplain : public testing::Test {
 protected:
  void SetUp() override {
    if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  }
  Outcome explain(const std::string& arguments) const {
    return folder_.run("explain tiny.yaml " + arguments, {.cublaslt = true});
  }
  TrainerFolder folder_;
};

TEST_F(TrainerExplain, WritesAProgramOfOnePass) {
  const Outcome outcome = explain("--backend cudnn --layer conv1 --set fuse=false");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_TRUE(has(outcome.out, "// conv1 of tiny: conv2d by cudnn, forward.", "cudnnCreate(&cudnn)",
                  "cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 16, 1,",
                  "cudnnSetConvolution2dDescriptor(conv_desc,", "cudnnConvolution",
                  "Expected plain_y(size_t i)", "return wrong == 0 ? 0 : 1;"));
  EXPECT_EQ(outcome.out.find("BackwardData"), std::string::npos);

  EXPECT_OUTCOME(explain("--backend cudnn --layer fc1 --pass backward_filter --out fc1.cpp"),
                 kExitDone);
  std::ifstream file(folder_ / "fc1.cpp");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(has(text, "g++ -std=c++17 -O1 fc1.cpp", "plain_dw", "plain_db", "compare(\"db\""));
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
