#include "lab/suites.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/config.h"
#include "core/error.h"

namespace duet {
namespace {

/// Walks through a network and notes the problem of each layer, each problem once.
class Walk {
 public:
  Walk(Suite* suite, std::string batches, int channels, int size)
      : suite_(*suite), batches_(std::move(batches)), channels_(channels), size_(size) {}

  int channels() const { return channels_; }

  /// A square filter, padded so that a stride of 1 keeps the size, unless `padding` is given.
  Walk& conv(const std::string& name, int filters, int kernel, int stride = 1, int groups = 1,
             int padding = -1) {
    const int pad = padding < 0 ? kernel / 2 : padding;
    const auto word = [](const char* key, int value, int standard) {
      return value == standard ? "" : std::string(",") + key + "=" + std::to_string(value);
    };
    const std::string size = std::to_string(size_), edge = std::to_string(kernel);
    note(name, "conv2d",
         "n=" + batches_ + ",c=" + std::to_string(channels_) + ",h=" + size + ",w=" + size +
             ",k=" + std::to_string(filters) + ",r=" + edge + ",s=" + edge +
             word("stride", stride, 1) + word("pad", pad, 0) + word("groups", groups, 1));
    channels_ = filters;
    size_ = (size_ + 2 * pad - kernel) / stride + 1;
    return *this;
  }
  Walk& linear(const std::string& name, int in, int out) {
    note(name, "linear",
         "n=" + batches_ + ",in=" + std::to_string(in) + ",out=" + std::to_string(out));
    return *this;
  }
  /// What pools, samples, joins or takes another branch leaves.
  Walk& at(int channels, int size) {
    channels_ = channels;
    size_ = size;
    return *this;
  }
  int size() const { return size_; }

 private:
  void note(const std::string& name, const std::string& layer, const std::string& shape) {
    auto& all = suite_.problems;
    const auto known = std::find_if(all.begin(), all.end(), [&](const SuiteProblem& each) {
      return each.layer == layer && each.shape == shape;
    });
    if (known == all.end()) {
      all.push_back({name, layer, shape});
    } else {
      known->name += ", " + name;
    }
  }

  Suite& suite_;
  const std::string batches_;
  int channels_, size_;
};

void vgg16(Suite* suite) {
  suite->source = "Simonyan and Zisserman, 2014 (arXiv:1409.1556), configuration D";
  Walk walk(suite, "1,8,64", 3, 224);
  const int filters[] = {64, 128, 256, 512, 512}, layers[] = {2, 2, 3, 3, 3};
  for (int block = 0; block < 5; ++block) {
    for (int i = 1; i <= layers[block]; ++i) {
      walk.conv("conv" + std::to_string(block + 1) + "_" + std::to_string(i), filters[block], 3);
    }
    walk.at(walk.channels(), walk.size() / 2);
  }
  walk.linear("fc6", 512 * 7 * 7, 4096).linear("fc7", 4096, 4096).linear("fc8", 4096, 1000);
}

void googlenet(Suite* suite) {
  suite->source = "Szegedy et al., 2014 (arXiv:1409.4842), table 1";
  Walk walk(suite, "1,8,64", 3, 224);
  walk.conv("conv1", 64, 7, 2).at(64, 56).conv("conv2/reduce", 64, 1).conv("conv2", 192, 3);
  walk.at(192, 28);
  struct Module {
    const char* name;
    int size, one, reduce3, three, reduce5, five, pooled;
  };
  constexpr Module kModules[] = {
      {"3a", 28, 64, 96, 128, 16, 32, 32},     {"3b", 28, 128, 128, 192, 32, 96, 64},
      {"4a", 14, 192, 96, 208, 16, 48, 64},    {"4b", 14, 160, 112, 224, 24, 64, 64},
      {"4c", 14, 128, 128, 256, 24, 64, 64},   {"4d", 14, 112, 144, 288, 32, 64, 64},
      {"4e", 14, 256, 160, 320, 32, 128, 128}, {"5a", 7, 256, 160, 320, 32, 128, 128},
      {"5b", 7, 384, 192, 384, 48, 128, 128}};
  for (const Module& m : kModules) {
    const int in = walk.channels();
    const std::string name = m.name;
    walk.at(in, m.size).conv(name + "/1x1", m.one, 1);
    walk.at(in, m.size).conv(name + "/3x3_reduce", m.reduce3, 1).conv(name + "/3x3", m.three, 3);
    walk.at(in, m.size).conv(name + "/5x5_reduce", m.reduce5, 1).conv(name + "/5x5", m.five, 5);
    walk.at(in, m.size).conv(name + "/pool_proj", m.pooled, 1);
    walk.at(m.one + m.three + m.five + m.pooled, m.size);
  }
  walk.linear("fc", 1024, 1000);
}

/// Expansion by 1x1, depthwise, projection by 1x1; `squeezed`: squeeze and excitation between the
/// last two, to that many channels; 0: none.
void inverted_residual(const std::string& name, int expand, int kernel, int filters, int stride,
                       int squeezed, Walk* walk) {
  const int wide = walk->channels() * expand;
  if (expand != 1) walk->conv(name + "/expand", wide, 1);
  walk->conv(name + "/depthwise", wide, kernel, stride, wide);
  if (squeezed > 0) {
    const int size = walk->size();
    walk->at(wide, 1).conv(name + "/squeeze", squeezed, 1).conv(name + "/excite", wide, 1);
    walk->at(wide, size);
  }
  walk->conv(name + "/project", filters, 1);
}

struct Stage {
  int expand, kernel, filters, layers, stride;
};

template <size_t count>
void inverted_residuals(const Stage (&stages)[count], bool squeeze, Walk* walk) {
  int number = 1;
  for (const Stage& stage : stages) {
    for (int i = 0; i < stage.layers; ++i) {
      inverted_residual("block" + std::to_string(number++), stage.expand, stage.kernel,
                        stage.filters, i == 0 ? stage.stride : 1,
                        squeeze ? walk->channels() / 4 : 0, walk);
    }
  }
}

void mobilenet_v2(Suite* suite) {
  suite->source = "Sandler et al., 2018 (arXiv:1801.04381), table 2";
  Walk walk(suite, "1,8,64", 3, 224);
  constexpr Stage kStages[] = {{1, 3, 16, 1, 1}, {6, 3, 24, 2, 2}, {6, 3, 32, 3, 2},
                               {6, 3, 64, 4, 2}, {6, 3, 96, 3, 1}, {6, 3, 160, 3, 2},
                               {6, 3, 320, 1, 1}};
  walk.conv("conv1", 32, 3, 2);
  inverted_residuals(kStages, false, &walk);
  walk.conv("conv2", 1280, 1).linear("fc", 1280, 1000);
}

void efficientnet_b0(Suite* suite) {
  suite->source = "Tan and Le, 2019 (arXiv:1905.11946), table 1";
  Walk walk(suite, "1,8,64", 3, 224);
  constexpr Stage kStages[] = {{1, 3, 16, 1, 1}, {6, 3, 24, 2, 2},  {6, 5, 40, 2, 2},
                               {6, 3, 80, 3, 2}, {6, 5, 112, 3, 1}, {6, 5, 192, 4, 2},
                               {6, 3, 320, 1, 1}};
  walk.conv("stem", 32, 3, 2);
  inverted_residuals(kStages, true, &walk);
  walk.conv("head", 1280, 1).linear("fc", 1280, 1000);
}

// Its convolutions; those that double the size (2x2, transposed) are no layer type here.
void unet(Suite* suite) {
  suite->source = "Ronneberger et al., 2015 (arXiv:1505.04597), figure 1; no up-convolutions";
  Walk walk(suite, "1,8", 1, 572);
  int filters = 64;
  const auto pair = [&](const std::string& name) {
    walk.conv(name + "_1", filters, 3, 1, 1, 0).conv(name + "_2", filters, 3, 1, 1, 0);
  };
  for (int level = 1; level <= 5; ++level, filters *= 2) {
    pair("down" + std::to_string(level));
    if (level < 5) walk.at(filters, walk.size() / 2);
  }
  for (int level = 4; level >= 1; --level) {
    filters = 64 << (level - 1);
    walk.at(2 * filters, 2 * walk.size());  // what came up, joined with what is copied across
    pair("up" + std::to_string(level));
  }
  walk.conv("out", 2, 1);
}

void product(const std::string& name, int rows, int columns, int depth, Suite* suite) {
  suite->problems.push_back({name, "linear",
                             "n=" + std::to_string(rows) + ",in=" + std::to_string(depth) +
                                 ",out=" + std::to_string(columns)});
}

void gemm(Suite* suite) {
  suite->source = "square products";
  for (int size = 256; size <= 8192; size *= 2) product("", size, size, size, suite);
}

void deepbench(Suite* suite) {
  suite->source = "DeepBench (github.com/baidu-research/DeepBench), training, speech recognition";
  for (int size : {1760, 2048, 2560, 4096}) {
    for (int batch : {16, 32, 64, 128, 7000}) product("", batch, size, size, suite);
  }
  for (int depth : {1760, 2048, 2560, 4096}) {
    product("", 9124, 5124, depth, suite);
    product("", 8457, 35, depth, suite);
  }
}

// Of sizes that no cache holds.
void memory(Suite* suite) {
  // A tensor has at least 100 MB, twice what the L2 cache of an H200 holds.
  suite->source = "layers that move more than they compute";
  const auto note = [&](const std::string& layer, const std::string& shape) {
    suite->problems.push_back({layer, layer, shape});
  };
  const std::string images = "n=128,c=64,h=56,w=56";
  note("relu", images);
  note("batch_norm2d", images);
  note("max_pool2d", images + ",r=2,s=2");
  note("sigmoid", images);
  note("layer_norm", "n=32768,in=768");
  note("softmax", "n=32768,in=1000");
}

using Make = void (*)(Suite*);
constexpr std::array<std::pair<const char*, Make>, 8> kSuites = {
    {{"deepbench", deepbench},
     {"efficientnet_b0", efficientnet_b0},
     {"gemm", gemm},
     {"googlenet", googlenet},
     {"memory", memory},
     {"mobilenet_v2", mobilenet_v2},
     {"unet", unet},
     {"vgg16", vgg16}}};

}  // namespace

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kSuites) names.emplace_back(name);
  return names;
}

Suite make_suite(const std::string& name) {
  for (const auto& [known, make] : kSuites) {
    if (name != known) continue;
    Suite suite{.name = name};
    make(&suite);
    for (size_t i = 2; i < suite.problems.size(); i += 3) suite.problems[i].held_out = true;
    return suite;
  }
  throw ConfigError("--suite " + name + ": there is no such suite" +
                    did_you_mean(name, suite_names()) + "; there are " + join(suite_names()));
}

}  // namespace duet
