// `bench LAYER --shape SHAPE`, up to the layer with its sizes: the layer's name, a blank, the
// shape.
#include <string>

#include "compare/results/problem.h"
#include "core/error.h"
#include "fuzz/fuzz_target.h"

DUET_FUZZ_TARGET(shape) {
  const std::string text(input);
  const size_t blank = text.find(' ');
  if (blank == std::string::npos) return;
  try {
    const duet::LayerType& type = duet::layer_type(text.substr(0, blank));
    for (const auto& words : duet::combinations(duet::split_problem(text.substr(blank + 1)))) {
      const auto layer = duet::bind_problem(type, words);
      duet::problem_argument(*layer);
      for (duet::Pass pass : layer->passes()) {
        layer->flops(pass);
        for (const duet::ImplInfo& info : layer->implementations()) {
          layer->unsupported(info.id, pass);
        }
      }
    }
  } catch (const duet::Error&) {
  }
}
