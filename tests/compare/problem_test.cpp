#include "compare/results/problem.h"

#include <gtest/gtest.h>

#include "layers/layer_cases.h"
#include "support/text.h"

namespace duet {
namespace {

std::unique_ptr<Layer> parse(const std::string& type, const std::string& text) {
  return bind_problem(layer_type(type), split_problem(text));
}

void expect_mistake(const std::string& type, const std::string& text,
                    const std::vector<std::string>& parts) {
  EXPECT_TRUE(has(error_of<ConfigError>([&] { parse(type, text); }), parts)) << text;
}

// Whatever a layer type prints can be pasted: all cases of all of them.
TEST(Problem, IsReadAsItIsPrinted) {
  size_t count = 0;
  for (const CasesOfType& of_type : layer_cases()) {
    for (const LayerCase& c : of_type.cases) {
      const auto layer = make_layer(of_type.type, c);
      const std::string where = std::string(of_type.type) + " " + c.name;
      const std::string text = layer->problem_text();
      const auto again = parse(std::string(of_type.type), text);
      EXPECT_EQ(again->problem_text(), text) << where;
      EXPECT_EQ(again->inputs(), layer->inputs()) << where;
      EXPECT_EQ(again->outputs(), layer->outputs()) << where;
      const std::string shortest = problem_argument(*layer);
      EXPECT_LE(shortest.size(), text.size() + 5) << where;
      const auto from_shortest = parse(std::string(of_type.type), shortest);
      EXPECT_EQ(from_shortest->problem_text(), text) << where << ": " << shortest;
      EXPECT_EQ(from_shortest->options().math, layer->options().math) << where;
      ++count;
    }
  }
  EXPECT_GT(count, 100u);
}

TEST(Problem, HasTheWordsOfTheField) {
  EXPECT_EQ(parse("conv2d", "n=64,c=64,h=13,w=13,k=128,r=3,s=3")->problem_text(),
            "n=64 c=64 h=13 w=13 k=128 r=3 s=3 p=11 q=11 stride=1x1 pad=0x0 dilation=1x1 groups=1 "
            "bias=true nchw fp32 float32");
  EXPECT_EQ(parse("conv2d",
                  "n=2 c=4 h=9 w=9 out_channels=8 kernel=3x5 stride=2 pad=1x2 g=2 tf32 "
                  "nhwc bias=false")
                ->problem_text(),
            "n=2 c=4 h=9 w=9 k=8 r=3 s=5 p=5 q=5 stride=2x2 pad=1x2 dilation=1x1 groups=2 "
            "bias=false nhwc tf32 float32");
  EXPECT_EQ(parse("linear", "n=64,in=784,out=128")->problem_text(),
            "n=64 in=784 out=128 bias=true fp32 float32");
  EXPECT_EQ(parse("linear", "n=64,in=784,out=128,bf16")->problem_text(),
            "n=64 in=784 out=128 bias=true bf16 bfloat16");
  EXPECT_EQ(parse("relu", "x=64x128 bfloat16")->options().math, Math::kBF16);
  EXPECT_EQ(parse("softmax_cross_entropy", "n=64,c=10,bf16")->problem_text(), "n=64 c=10 bfloat16");
  EXPECT_EQ(parse("leaky_relu", "n=8,c=3,h=4,w=5,slope=0.1,layout=nhwc")->problem_text(),
            "x=8x3x4x5 float32 nhwc slope=0.1");
  EXPECT_EQ(parse("softmax_cross_entropy", "n=64,c=10")->problem_text(), "n=64 c=10");
  EXPECT_EQ(parse("softmax_cross_entropy", "n=64,c=3,label_smoothing=0.1,class_weights=1:0.5:2")
                ->problem_text(),
            "n=64 c=3 label_smoothing=0.1 class_weights=1:0.5:2");
  EXPECT_EQ(parse("multi_margin", "n=64,c=10,p=2")->problem_text(), "n=64 c=10 p=2 margin=1");
  EXPECT_EQ(parse("relu", "x=64x128,n=7")->problem_text(), "x=7x128 float32");
}

TEST(Problem, ArgumentLeavesOutWhatFollows) {
  EXPECT_EQ(problem_argument(*parse("conv2d", "n=64,c=1,h=28,w=28,k=64,r=3,s=3,stride=1x1")),
            "n=64,c=1,h=28,w=28,k=64,r=3,s=3");
  EXPECT_EQ(problem_argument(*parse("max_pool2d", "n=1 c=2 h=8 w=8 r=2 s=2 nhwc")),
            "n=1,c=2,h=8,w=8,r=2,s=2,nhwc");
  EXPECT_EQ(problem_argument(*parse("linear", "n=3 in=4 out=5 tf32")), "n=3,in=4,out=5,tf32");
  EXPECT_EQ(problem_argument(*parse("linear", "n=3 in=4 out=5 bf16")), "n=3,in=4,out=5,bf16");
  EXPECT_EQ(problem_argument(*parse("dropout", "x=3x4 p=0.5")), "x=3x4");
}

TEST(Problem, SaysWhatIsWrong) {
  EXPECT_THROW(layer_type("conv2"), ConfigError);
  const std::string conv = "n=2,c=3,h=9,w=9,k=4,r=3,s=3";
  expect_mistake("conv2d", conv + ",strid=2", {"unknown word 'strid'", "did you mean 'stride'"});
  expect_mistake("conv2d", "n=2,c=3,h=9,w=9,r=3,s=3",
                 {"'out_channels' is missing", "'out_channels' is 'k' here"});
  expect_mistake("conv2d", "n=2,c=3,h=9,k=4,r=3,s=3", {"input is incomplete", "found n, c, h"});
  expect_mistake("conv2d", "n=2,c=3,h=9,w=9,k=4,r=3", {"of 'r' and 's' one is missing"});
  expect_mistake("conv2d", conv + ",kernel=3", {"'kernel' are the same"});
  expect_mistake("conv2d", conv + ",q=8", {"q=8", "it is q=7"});
  expect_mistake("conv2d", conv + ",nhcw", {"'nhcw' has no value", "did you mean 'nchw'"});
  expect_mistake("conv2d", conv + ",math=tf23", {"math=tf23", "did you mean 'tf32'"});
  expect_mistake("conv2d", conv + ",dtype=float64", {"float32 alone"});
  expect_mistake("conv2d", conv + ",n=4", {"'n' is given twice"});
  expect_mistake("conv2d", conv + ",pad=x", {"whole number", "'padding' is 'pad' here"});
  expect_mistake("conv2d", "n=2,c=3,h=2,w=9,k=4,r=3,s=3", {"kernel 3x3 is larger than the input"});
  expect_mistake("conv2d", "n=0,c=3,h=9,w=9,k=4,r=3,s=3", {"n=0", "from 1"});
  expect_mistake("conv2d", "n=", {"'n='", "WORD=VALUE"});
  expect_mistake("linear", "n=2,in=3,c=3,out=4", {"input is incomplete"});
  expect_mistake("relu", "x=2x3x4x5x6", {"one to four sizes"});
  expect_mistake("relu", "x=2x3,c=4", {"already says"});
  expect_mistake("relu", "x=2x3,labels=mixed", {"it takes no labels"});
  expect_mistake("mse", "n=2,c=3,labels=mixed", {"takes no mixed labels"});
}

TEST(ProblemWords, HaveAxes) {
  const auto shapes = [](const std::string& text) {
    std::vector<std::string> all;
    for (const ProblemWords& words : combinations(split_problem(text))) {
      all.push_back(join_problem(words));
    }
    return all;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(shapes("n=1..8x2,c=3"), (Texts{"n=1,c=3", "n=2,c=3", "n=4,c=3", "n=8,c=3"}));
  EXPECT_EQ(shapes("n=1,5,k=64..128+32,nhwc"),
            (Texts{"n=1,k=64,nhwc", "n=1,k=96,nhwc", "n=1,k=128,nhwc", "n=5,k=64,nhwc",
                   "n=5,k=96,nhwc", "n=5,k=128,nhwc"}));
  EXPECT_EQ(shapes("stride=1,2x1,3..4"), (Texts{"stride=1", "stride=2x1", "stride=3", "stride=4"}));
  EXPECT_EQ(shapes("n=3..20x3"), (Texts{"n=3", "n=9"}));
  EXPECT_EQ(split_values("1,8..32x2", "--batch"), (Texts{"1", "8", "16", "32"}));
  EXPECT_EQ(split_values("1,1,1..2", "--batch"), (Texts{"1", "2"}));  // nothing is measured twice
  EXPECT_EQ(shapes("n=4,4,c=3"), (Texts{"n=4,c=3"}));
  EXPECT_EQ(read_batches("1..8x2,64", "--batch"), (std::vector<int64_t>{1, 2, 4, 8, 64}));
  for (const char* wrong : {"99999999999999999999", "many", "1.5", "8x"}) {
    EXPECT_THROW(read_batches(wrong, "--batch"), ConfigError) << wrong;
  }
  for (const char* wrong : {"n=8..1x2", "n=1..8x1", "n=1..8x", "n=a..b", "n=1..8+0", "n=0..4"}) {
    EXPECT_THROW(split_problem(wrong), ConfigError) << wrong;
  }
  EXPECT_THROW(combinations(split_problem("n=1..100,c=1..100")), ConfigError);
  EXPECT_THROW(split_problem("n=1..1000000"), ConfigError);
  EXPECT_THROW(split_values("", "--batch"), ConfigError);
}

}  // namespace
}  // namespace duet
