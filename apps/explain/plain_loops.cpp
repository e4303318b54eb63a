#include "plain_loops.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "layers/activation/activation.h"
#include "layers/linear_relu/linear_relu.h"
#include "layers/pixel_shuffle/pixel_shuffle.h"
#include "plain_parts.h"

namespace duet {
namespace plain {

PlainLoops::Output output(const std::string& name, int64_t terms, DType dtype, double in_float) {
  if (dtype == DType::kBFloat16) {
    constexpr double kLimit = 8e-3;
    return {name, terms, kLimit, "bfloat16 keeps 8 bits of a value"};
  }
  return {name, terms, in_float, "sums in float32, in another order"};
}

namespace {

template <class T>
std::string shortest_as(T value, int most, T (*read)(const std::string&, size_t*)) {
  char text[40];
  for (int digits = 1; digits <= most; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(value));
    if (read(text, nullptr) == value) break;
  }
  return text;
}

}  // namespace

std::string shortest(double value) { return shortest_as<double>(value, 17, std::stod); }
std::string shortest(float value) { return shortest_as<float>(value, 9, std::stof); }

}  // namespace plain

namespace {

using plain::output;
using plain::shortest;

// ---- functions of one element ----

PlainLoops activation_loops(const ActivationProblem& d, Pass pass) {
  struct Formula {
    const char *y, *gradient;
  };
  static const std::map<ActivationKind, Formula> formulas = {
      {ActivationKind::kRelu, {"x > 0 ? x : 0", "x > 0 ? 1 : 0"}},
      {ActivationKind::kLeakyRelu, {"x > 0 ? x : slope * x", "x > 0 ? 1 : slope"}},
      {ActivationKind::kSigmoid, {"1 / (1 + std::exp(-x))", "y * (1 - y)"}},
      {ActivationKind::kTanh, {"std::tanh(x)", "1 - y * y"}},
      {ActivationKind::kSilu,
       {"x / (1 + std::exp(-x))",
        "(1 + std::exp(-x) + x * std::exp(-x)) / ((1 + std::exp(-x)) * (1 + std::exp(-x)))"}}};
  const Formula& formula = formulas.at(d.kind);
  PlainLoops loops;
  if (d.kind == ActivationKind::kLeakyRelu) {
    loops.functions = "constexpr double slope = " + shortest(d.slope) + ";\n";
  }
  const bool forward = pass == Pass::kForward;
  const bool from_y = std::string(formula.gradient).find('y') != std::string::npos;
  loops.functions +=
      fill(forward ? R"(
Expected plain_y(size_t i) {
  const double x = x_values[i];
  return within(1, $y);
}
)"
                   : R"(
// dx = dy times the derivative
Expected plain_dx(size_t i) {
  const double x = x_values[i];
$need  return within(1, dy_values[i] * ($gradient));
}
)",
           {{"y", formula.y},
            {"gradient", formula.gradient},
            {"need", from_y ? "  const double y = " + std::string(formula.y) + ";\n" : ""}});
  loops.outputs = {output(forward ? "y" : "dx", 1, d.dtype, 1e-5)};
  return loops;
}

/// add, add_relu and split: sums of equal tensors.
PlainLoops sum_loops(const Layer& layer, Pass pass) {
  const bool forward = pass == Pass::kForward;
  const auto& tensors = forward ? layer.inputs() : layer.outputs();
  const auto sum_of = [](const std::string& name, size_t count) {
    std::string text;
    for (size_t k = 0; k < count; ++k) {
      const std::string number = count > 1 ? std::to_string(k + 1) : "";
      text += "  sum.add(" + name + number + "_values[i]);\n";
    }
    return text;
  };
  const bool relu = layer.type() == "add_relu";
  PlainLoops loops;
  if (relu) {
    loops.functions += "\n// What relu reads.\nExpected plain_z(size_t i) {\n  Expected sum;\n" +
                       sum_of("x", layer.inputs().size()) + "  return sum;\n}\n";
  }
  if (forward && relu) {
    loops.functions += R"(
Expected plain_y(size_t i) {
  Expected y = plain_z(i);
  if (y.value < 0) y.value = 0;
  return y;
}
)";
  } else {
    loops.functions +=
        "\nExpected plain_" + std::string(forward ? "y" : "dx") +
        "(size_t i) {\n  Expected sum;\n" + sum_of(forward ? "x" : "dy", tensors.size()) +
        (relu ? "  if (!(plain_z(i).value > 0)) sum.value = 0;\n" : "") + "  return sum;\n}\n";
  }
  loops.outputs = {output(forward ? "y" : "dx", 1, layer.inputs()[0].dtype, 1e-6)};
  return loops;
}

// ---- others ----

PlainLoops concat_loops(const Layer& layer, Pass pass) {
  const TensorDesc& y = layer.outputs()[0];
  const bool nhwc = y.shape.rank() == 4 && y.layout == Layout::kNHWC;
  const int64_t rows = nhwc ? y.elements() / y.shape[1] : y.shape[0];
  PlainLoops loops;
  loops.functions =
      "// In memory y has rows, each of a piece of every input.\nconstexpr size_t width = " +
      std::to_string(y.elements() / rows) + ";\n";
  std::string parts;
  int64_t begin = 0;
  for (size_t k = 0; k < layer.inputs().size(); ++k) {
    const TensorDesc& x = layer.inputs()[k];
    const std::string number = layer.inputs().size() > 1 ? std::to_string(k + 1) : "";
    const int64_t piece = x.elements() / rows;
    if (pass == Pass::kForward) {
      parts +=
          fill("  if (at < $end) return exactly(x$number_values[row * $piece + at - $begin]);\n",
               {{"end", begin + piece}, {"number", number}, {"piece", piece}, {"begin", begin}});
    } else {
      loops.functions += fill(R"(Expected plain_dx$number(size_t i) {
  return exactly(dy_values[i / $piece * width + $begin + i % $piece]);
}
)",
                              {{"number", number}, {"piece", piece}, {"begin", begin}});
      loops.outputs.push_back({"dx" + number, 1, 0.0, "values are only copied"});
    }
    begin += piece;
  }
  if (pass == Pass::kForward) {
    loops.functions +=
        "\nExpected plain_y(size_t i) {\n  const size_t row = i / width, at = i % width;\n" +
        parts + "  return {};\n}\n";
    loops.outputs = {{"y", 1, 0.0, "values are only copied"}};
  }
  return loops;
}

PlainLoops reorder_loops(const TensorDesc& x, const TensorDesc& y, Pass pass) {
  const bool forward = pass == Pass::kForward;
  const TensorDesc &from = forward ? x : y, &to = forward ? y : x;
  const std::vector<std::string> letters = {"n", "c", "h", "w"}, sizes = {"N", "C", "H", "W"};
  PlainLoops loops;
  loops.functions = fill(R"(constexpr int N = $n, C = $c, H = $h, W = $w;
$at
// The same values in another order.
Expected plain_$to(size_t i) {
$split  return exactly($from_values[from_at(n, c, h, w)]);
}
)",
                         {{"n", x.shape[0]},
                          {"c", x.shape[1]},
                          {"h", x.shape[2]},
                          {"w", x.shape[3]},
                          {"at", index_function("from_at", letters, sizes, from.layout)},
                          {"split", split_index(letters, sizes, to.layout)},
                          {"to", forward ? "y" : "dx"},
                          {"from", forward ? "x" : "dy"}});
  loops.outputs = {{forward ? "y" : "dx", 1, 0.0, "values are only copied"}};
  return loops;
}

PlainLoops pixel_shuffle_loops(const PixelShuffleProblem& d, Pass pass) {
  const bool forward = pass == Pass::kForward;
  const std::vector<std::string> letters = {"n", "c", "h", "w"};
  const std::vector<std::string> of_x = {"N", "C * r * r", "H", "W"},
                                 of_y = {"N", "C", "H * r", "W * r"};
  PlainLoops loops;
  loops.functions =
      fill("constexpr int N = $n, C = $c, H = $h, W = $w, r = $r;\n", {{"n", d.x.shape[0]},
                                                                       {"c", d.y.shape[1]},
                                                                       {"h", d.x.shape[2]},
                                                                       {"w", d.x.shape[3]},
                                                                       {"r", d.scale}});
  loops.functions += index_function("from_at", letters, forward ? of_x : of_y, d.x.layout) +
                     fill(forward ? R"(
// The r * r channels of a pixel as r x r pixels.
Expected plain_y(size_t i) {
$split  const int channel = (c * r + h % r) * r + w % r;
  return exactly(x_values[from_at(n, channel, h / r, w / r)]);
}
)"
                                  : R"(
// The same values, moved back; c is a channel of x.
Expected plain_dx(size_t i) {
$split  const int row = h * r + c / r % r, column = w * r + c % r;
  return exactly(dy_values[from_at(n, c / (r * r), row, column)]);
}
)",
                          {{"split", split_index(letters, forward ? of_y : of_x, d.x.layout)}});
  loops.outputs = {{forward ? "y" : "dx", 1, 0.0, "values are only copied"}};
  return loops;
}

template <class L>
const L& as(const Layer& layer) {
  return dynamic_cast<const L&>(layer);
}
template <class P>
const P& problem_of(const Layer& layer) {
  return dynamic_cast<const HasProblem<P>&>(layer).problem();
}

}  // namespace

std::optional<PlainLoops> plain_loops(const Layer& layer, Pass pass) {
  const std::string_view type = layer.type();
  const auto is = [&](std::initializer_list<std::string_view> types) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  if (is({"conv2d"})) return plain::conv2d(as<Conv2dLayer>(layer).problem(), pass);
  if (is({"linear"})) return plain::linear(as<LinearLayer>(layer).problem(), pass);
  if (is({"linear_relu"})) return plain::linear_relu(as<LinearReluLayer>(layer).problem(), pass);
  if (is({"max_pool2d"})) return plain::max_pool(as<Pool2dLayer>(layer).problem(), pass);
  if (is({"avg_pool2d", "global_avg_pool2d"})) {
    return plain::average_pool(as<Pool2dLayer>(layer).problem(), pass);
  }
  if (is({"conv2d_pool_relu"})) {
    return plain::conv2d_pool_relu(as<Conv2dPoolReluLayer>(layer).problem(), pass);
  }
  if (is({"batch_norm1d", "batch_norm2d", "batch_norm1d_relu", "batch_norm2d_relu"})) {
    return plain::batch_norm(as<BatchNormLayer>(layer).problem(), pass);
  }
  if (is({"batch_norm2d_relu_pool"})) {
    return plain::batch_norm_relu_pool(as<BatchNormReluPoolLayer>(layer).problem(), pass);
  }
  if (is({"batch_norm1d_relu_softmax"})) {
    return plain::batch_norm_relu_softmax(as<BatchNormReluSoftmaxLayer>(layer).problem(), pass);
  }
  if (is({"relu", "leaky_relu", "sigmoid", "tanh", "silu"})) {
    return activation_loops(as<ActivationLayer>(layer).problem(), pass);
  }
  if (is({"add", "add_relu", "split"})) return sum_loops(layer, pass);
  if (is({"softmax"})) return plain::softmax(layer.inputs()[0], pass);
  if (is({"dropout"})) return plain::dropout(problem_of<DropoutProblem>(layer), pass);
  if (is({"softmax_dropout"})) {
    return plain::softmax_dropout(problem_of<SoftmaxDropoutProblem>(layer), pass);
  }
  if (is({"softmax_cross_entropy"})) {
    return plain::softmax_cross_entropy(problem_of<SoftmaxCrossEntropyProblem>(layer), pass);
  }
  if (is({"concat"})) return concat_loops(layer, pass);
  if (is({"pixel_shuffle"})) {
    return pixel_shuffle_loops(problem_of<PixelShuffleProblem>(layer), pass);
  }
  if (is({"reorder"})) return reorder_loops(layer.inputs()[0], layer.outputs()[0], pass);
  return {};
}

}  // namespace duet
