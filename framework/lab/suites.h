// Published sets of problems, to measure kernels on networks that nobody here tuned for: every
// convolution and product of a network, as its paper gives them, matrix products, and layers that memory
// bounds.
#pragma once

#include <string>
#include <vector>

namespace duet {

struct SuiteProblem {
  std::string name;   // of the layers that have it: "conv3_2, conv3_3"
  std::string layer;  // type
  std::string shape;  // words (problem_words.h) with its batch sizes: "n=1,8,64,c=3,..."
  /// Every third: no kernel and no choice between kernels is made by its times.
  bool held_out = false;
};

struct Suite {
  std::string name;
  std::string source;  // where its sizes were published
  std::vector<SuiteProblem> problems;
};

/// efficientnet_b0, deepbench, gemm, googlenet, memory, mobilenet_v2, unet, vgg16.
std::vector<std::string> suite_names();
/// Throws ConfigError for an unknown name, with the nearest one.
Suite make_suite(const std::string& name);

}  // namespace duet
