#include "plain_loops.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "layers/activation/activation.h"
#include "layers/batch_norm/batch_norm.h"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/linear/linear.h"
#include "layers/linear_relu/linear_relu.h"
#include "layers/pool2d/pool2d.h"
#include "plain_text.h"

namespace duet {
namespace {

using Output = PlainLoops::Output;

constexpr double kFloatLimit = 2e-5, kBFloat16Limit = 8e-3;

Output output(const std::string& name, int64_t terms, DType dtype, double in_float = kFloatLimit) {
  if (dtype == DType::kBFloat16) {
    return {name, terms, kBFloat16Limit, "bfloat16 keeps 8 bits of a value"};
  }
  return {name, terms, in_float, "sums in float32, in another order"};
}

std::string shortest(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  for (int digits = 1; digits < 17; ++digits) {
    char shorter[40];
    std::snprintf(shorter, sizeof shorter, "%.*g", digits, value);
    if (std::stod(shorter) == value) return shorter;
  }
  return text;
}

// ---- conv2d and linear; `x`, `y` ... name the vectors that the loops read ----

std::string conv_sizes(const Conv2dProblem& d) {
  return fill(R"(// Sizes by cuDNN's letters: x is N x C x H x W, w is K x C/groups x R x S, y is N x K x P x Q.
constexpr int N = $n, C = $c, H = $h, W = $w, K = $k, R = $r, S = $s, P = $p, Q = $q;
constexpr int pad_h = $pad_h, pad_w = $pad_w, stride_h = $stride_h, stride_w = $stride_w;
constexpr int dilation_h = $dilation_h, dilation_w = $dilation_w, groups = $groups;
$x_at$w_at$y_at)",
              {{"n", d.n},
               {"c", d.c},
               {"h", d.h},
               {"w", d.w},
               {"k", d.k},
               {"r", d.r},
               {"s", d.s},
               {"p", d.p},
               {"q", d.q},
               {"pad_h", d.pad_h},
               {"pad_w", d.pad_w},
               {"stride_h", d.stride_h},
               {"stride_w", d.stride_w},
               {"dilation_h", d.dilation_h},
               {"dilation_w", d.dilation_w},
               {"groups", d.groups},
               {"x_at", index_function("x_at", {"n", "c", "h", "w"}, {"N", "C", "H", "W"}, d.layout)},
               {"w_at", index_function("w_at", {"k", "c", "r", "s"}, {"K", "C / groups", "R", "S"},
                                       d.layout)},
               {"y_at",
                index_function("y_at", {"n", "k", "p", "q"}, {"N", "K", "P", "Q"}, d.layout)}});
}

std::string conv_forward(const Conv2dProblem& d, const std::string& y) {
  return fill(R"(
// y[n,k,p,q] = b[k] + the sum over c, r, s of x * w: what is outside of x counts as 0.
Expected plain_$y(size_t i) {
$split  const int first = k / (K / groups) * (C / groups);  // channel of this filter's group
  Expected sum;
  for (int c = 0; c < C / groups; ++c) {
    for (int r = 0; r < R; ++r) {
      for (int s = 0; s < S; ++s) {
        const int h = p * stride_h - pad_h + r * dilation_h;
        const int w = q * stride_w - pad_w + s * dilation_w;
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        sum.add(double(x_values[x_at(n, first + c, h, w)]) * w_values[w_at(k, c, r, s)]);
      }
    }
  }
$bias  return sum;
}
)",
              {{"y", y},
               {"split", split_index({"n", "k", "p", "q"}, {"N", "K", "P", "Q"}, d.layout)},
               {"bias", d.bias ? "  sum.add(b_values[k]);\n" : ""}});
}

std::string conv_backward_data(const Conv2dProblem& d, const std::string& dy) {
  return fill(R"(
// dx[n,c,h,w] = the sum of dy * w over all outputs that read this pixel, and the taps that did.
Expected plain_dx(size_t i) {
$split  const int group = c / (C / groups);
  Expected sum;
  for (int k = group * (K / groups); k < (group + 1) * (K / groups); ++k) {
    for (int r = 0; r < R; ++r) {
      for (int s = 0; s < S; ++s) {
        const int top = h + pad_h - r * dilation_h, left = w + pad_w - s * dilation_w;
        if (top < 0 || top % stride_h != 0 || top / stride_h >= P) continue;
        if (left < 0 || left % stride_w != 0 || left / stride_w >= Q) continue;
        sum.add(double($dy[y_at(n, k, top / stride_h, left / stride_w)]) *
                w_values[w_at(k, c % (C / groups), r, s)]);
      }
    }
  }
  return sum;
}
)",
              {{"dy", dy},
               {"split", split_index({"n", "c", "h", "w"}, {"N", "C", "H", "W"}, d.layout)}});
}

std::string conv_backward_filter(const Conv2dProblem& d, const std::string& dy) {
  std::string text = fill(R"(
// dw[k,c,r,s] = the sum of dy * x over all images and output positions.
Expected plain_dw(size_t i) {
$split  const int channel = k / (K / groups) * (C / groups) + c;
  Expected sum;
  for (int n = 0; n < N; ++n) {
    for (int p = 0; p < P; ++p) {
      for (int q = 0; q < Q; ++q) {
        const int h = p * stride_h - pad_h + r * dilation_h;
        const int w = q * stride_w - pad_w + s * dilation_w;
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        sum.add(double($dy[y_at(n, k, p, q)]) * x_values[x_at(n, channel, h, w)]);
      }
    }
  }
  return sum;
}
)",
                          {{"dy", dy},
                           {"split", split_index({"k", "c", "r", "s"}, {"K", "C / groups", "R", "S"},
                                                 d.layout)}});
  if (!d.bias) return text;
  return text + fill(R"(
// db[k] = the sum of dy over images and pixels.
Expected plain_db(size_t i) {
  Expected sum;
  for (int n = 0; n < N; ++n) {
    for (int p = 0; p < P; ++p) {
      for (int q = 0; q < Q; ++q) sum.add($dy[y_at(n, int(i), p, q)]);
    }
  }
  return sum;
}
)",
                     {{"dy", dy}});
}

/// The functions and outputs of a backward pass, which reads `dy`.
void add_conv_gradients(PlainLoops& loops, const Conv2dProblem& d, Pass pass,
                        const std::string& dy) {
  if (pass == Pass::kBackwardData) {
    loops.functions += conv_backward_data(d, dy);
    loops.outputs = {output("dx", int64_t{d.k} / d.groups * d.r * d.s, d.dtype)};
    return;
  }
  const int64_t terms = int64_t{d.n} * d.p * d.q;
  loops.functions += conv_backward_filter(d, dy);
  loops.outputs = {output("dw", terms, d.dtype)};
  if (d.bias) loops.outputs.push_back(output("db", terms, DType::kFloat32));
}

PlainLoops conv2d_loops(const Conv2dProblem& d, Pass pass) {
  PlainLoops loops = {.functions = conv_sizes(d)};
  if (pass == Pass::kForward) {
    loops.functions += conv_forward(d, "y");
    loops.outputs = {output("y", int64_t{d.channels_per_group()} * d.r * d.s, d.dtype)};
  } else {
    add_conv_gradients(loops, d, pass, "dy_values");
  }
  return loops;
}

std::string linear_sizes(const LinearProblem& d) {
  return fill(R"(// x is N x in, w is out x in, y is N x out; all row-major.
constexpr int N = $n, in = $in, out = $out;
)",
              {{"n", d.n}, {"in", d.in}, {"out", d.out}});
}

std::string linear_forward(const LinearProblem& d, const std::string& y) {
  return fill(R"(
// y[n,o] = b[o] + the sum over i of x[n,i] * w[o,i].
Expected plain_$y(size_t at) {
  const size_t n = at / out, o = at % out;
  Expected sum;
  for (size_t i = 0; i < in; ++i) sum.add(double(x_values[n * in + i]) * w_values[o * in + i]);
$bias  return sum;
}
)",
              {{"y", y}, {"bias", d.bias ? "  sum.add(b_values[o]);\n" : ""}});
}

void add_linear_gradients(PlainLoops& loops, const LinearProblem& d, Pass pass,
                          const std::string& dy) {
  if (pass == Pass::kBackwardData) {
    loops.functions += fill(R"(
// dx[n,i] = the sum over o of dy[n,o] * w[o,i].
Expected plain_dx(size_t at) {
  const size_t n = at / in, i = at % in;
  Expected sum;
  for (size_t o = 0; o < out; ++o) sum.add(double($dy[n * out + o]) * w_values[o * in + i]);
  return sum;
}
)",
                            {{"dy", dy}});
    loops.outputs = {output("dx", d.out, d.dtype)};
    return;
  }
  loops.functions += fill(R"(
// dw[o,i] = the sum over n of dy[n,o] * x[n,i].
Expected plain_dw(size_t at) {
  const size_t o = at / in, i = at % in;
  Expected sum;
  for (size_t n = 0; n < N; ++n) sum.add(double($dy[n * out + o]) * x_values[n * in + i]);
  return sum;
}
)",
                          {{"dy", dy}});
  loops.outputs = {output("dw", d.n, DType::kFloat32)};
  if (!d.bias) return;
  loops.functions += fill(R"(
// db[o] = the sum over n of dy[n,o].
Expected plain_db(size_t o) {
  Expected sum;
  for (size_t n = 0; n < N; ++n) sum.add($dy[n * out + o]);
  return sum;
}
)",
                          {{"dy", dy}});
  loops.outputs.push_back(output("db", d.n, DType::kFloat32));
}

PlainLoops linear_loops(const LinearProblem& d, Pass pass) {
  PlainLoops loops = {.functions = linear_sizes(d)};
  if (pass == Pass::kForward) {
    loops.functions += linear_forward(d, "y");
    loops.outputs = {output("y", d.in, d.dtype)};
  } else {
    add_linear_gradients(loops, d, pass, "dy_values");
  }
  return loops;
}

PlainLoops linear_relu_loops(const LinearProblem& d, Pass pass) {
  PlainLoops loops = {.functions = linear_sizes(d) + "std::vector<float> z_values, dz_values;\n" +
                                   linear_forward(d, "z")};
  loops.prepare = "  // z is what relu reads.\n" + keep_all("z", int64_t{d.n} * d.out);
  if (pass == Pass::kForward) {
    loops.functions += R"(
// y = relu(z)
Expected plain_y(size_t i) {
  Expected y = plain_z(i);
  if (y.value < 0) y.value = 0;
  return y;
}
)";
    loops.prepare.clear();
    loops.outputs = {output("y", d.in, d.dtype)};
  } else {
    loops.prepare += R"(  // Its gradient is dy where z is above 0.
  dz_values = dy_values;
  for (size_t i = 0; i < dz_values.size(); ++i) {
    if (!(z_values[i] > 0)) dz_values[i] = 0;
  }
)";
    add_linear_gradients(loops, d, pass, "dz_values");
  }
  return loops;
}

// ---- pooling ----

std::string pool_sizes(const Pool2dProblem& d, const std::string& prefix) {
  // As part of a block the names of a convolution's sizes are taken.
  return fill(R"($comment
constexpr int $(P)N = $n, $(P)C = $c, $(P)H = $h, $(P)W = $w, $(P)R = $r, $(P)S = $s, $(P)P = $p, $(P)Q = $q;
constexpr int $(p)pad_h = $pad_h, $(p)pad_w = $pad_w, $(p)stride_h = $stride_h, $(p)stride_w = $stride_w;
$from$to)",
              {{"comment", prefix.empty()
                               ? "// x is N x C x H x W, a window R x S, y is N x C x P x Q."
                               : "\n// The pooling: z is N x C x H x W, a window R x S, y is N x C x "
                                 "P x Q."},
               {"(P)", prefix},
               {"(p)", prefix},
               {"n", d.n},
               {"c", d.c},
               {"h", d.h},
               {"w", d.w},
               {"r", d.r},
               {"s", d.s},
               {"p", d.p},
               {"q", d.q},
               {"pad_h", d.pad_h},
               {"pad_w", d.pad_w},
               {"stride_h", d.stride_h},
               {"stride_w", d.stride_w},
               {"from", index_function(prefix + "from_at", {"n", "c", "h", "w"},
                                       {prefix + "N", prefix + "C", prefix + "H", prefix + "W"},
                                       d.layout)},
               {"to", index_function(prefix + "to_at", {"n", "c", "p", "q"},
                                     {prefix + "N", prefix + "C", prefix + "P", prefix + "Q"},
                                     d.layout)}});
}

/// y of `x`, and where each maximum lies.
std::string max_pool(const Pool2dProblem& d, const std::string& x, const std::string& prefix) {
  return fill(R"(
/// Where in $x the largest value of a window lies; of equal ones the first.
size_t largest_in(int n, int c, int p, int q) {
  bool found = false;
  size_t largest = 0;
  for (int r = 0; r < $(P)R; ++r) {
    for (int s = 0; s < $(P)S; ++s) {
      const int h = p * $(P)stride_h - $(P)pad_h + r, w = q * $(P)stride_w - $(P)pad_w + s;
      if (h < 0 || h >= $(P)H || w < 0 || w >= $(P)W) continue;
      const size_t at = $(P)from_at(n, c, h, w);
      if (found && !($x[at] > $x[largest])) continue;
      found = true;
      largest = at;
    }
  }
  return largest;
}
size_t largest_for(size_t i) {
$split  return largest_in(n, c, p, q);
}
)",
              {{"x", x},
               {"(P)", prefix},
               {"split", split_index({"n", "c", "p", "q"},
                                     {prefix + "N", prefix + "C", prefix + "P", prefix + "Q"},
                                     d.layout)}});
}

PlainLoops max_pool_loops(const Pool2dProblem& d, Pass pass) {
  PlainLoops loops = {.functions = pool_sizes(d, "") + max_pool(d, "x_values", "")};
  if (pass == Pass::kForward) {
    loops.functions += R"(
// y = the largest value of the window
Expected plain_y(size_t i) { return exactly(x_values[largest_for(i)]); }
)";
    loops.outputs = {{"y", int64_t{d.r} * d.s, 0.0, "values are only copied"}};
    return loops;
  }
  loops.functions += R"(
// dx = the sum of dy over the windows whose largest value this pixel is
std::vector<Expected> dx_sums;
Expected plain_dx(size_t i) { return dx_sums[i]; }
)";
  loops.prepare = R"(  dx_sums.assign(x_values.size(), {});
  for (size_t i = 0; i < dy_values.size(); ++i) dx_sums[largest_for(i)].add(dy_values[i]);
)";
  loops.outputs = {output("dx", 1, d.dtype, 1e-6)};
  return loops;
}

PlainLoops average_pool_loops(const Pool2dProblem& d, Pass pass) {
  PlainLoops loops = {.functions = pool_sizes(d, "") + fill(R"(
/// What an average divides by: the window's pixels$padding.
int divisor($arguments) {
$body}
)",
                                                            {{"padding", d.count_include_pad
                                                                             ? ", with the padding"
                                                                             : " inside of the image"},
                                                             {"arguments", d.count_include_pad
                                                                               ? "int, int"
                                                                               : "int p, int q"},
                                                             {"body", d.count_include_pad
                                                                          ? "  return R * S;\n"
                                                                          : R"(  int count = 0;
  for (int r = 0; r < R; ++r) {
    for (int s = 0; s < S; ++s) {
      const int h = p * stride_h - pad_h + r, w = q * stride_w - pad_w + s;
      count += h >= 0 && h < H && w >= 0 && w < W;
    }
  }
  return count;
)"}})};
  if (pass == Pass::kForward) {
    loops.functions += fill(R"(
// y = the mean of the window
Expected plain_y(size_t i) {
$split  Expected sum;
  for (int r = 0; r < R; ++r) {
    for (int s = 0; s < S; ++s) {
      const int h = p * stride_h - pad_h + r, w = q * stride_w - pad_w + s;
      if (h < 0 || h >= H || w < 0 || w >= W) continue;
      sum.add(double(x_values[from_at(n, c, h, w)]) / divisor(p, q));
    }
  }
  return sum;
}
)",
                            {{"split", split_index({"n", "c", "p", "q"}, {"N", "C", "P", "Q"},
                                                   d.layout)}});
    loops.outputs = {output("y", int64_t{d.r} * d.s, d.dtype)};
    return loops;
  }
  loops.functions += fill(R"(
// dx = the sum of dy / divisor over the windows that hold this pixel
Expected plain_dx(size_t i) {
$split  Expected sum;
  for (int p = 0; p < P; ++p) {
    const int r = h + pad_h - p * stride_h;
    if (r < 0 || r >= R) continue;
    for (int q = 0; q < Q; ++q) {
      const int s = w + pad_w - q * stride_w;
      if (s < 0 || s >= S) continue;
      sum.add(double(dy_values[to_at(n, c, p, q)]) / divisor(p, q));
    }
  }
  return sum;
}
)",
                          {{"split", split_index({"n", "c", "h", "w"}, {"N", "C", "H", "W"},
                                                 d.layout)}});
  loops.outputs = {output("dx", int64_t{d.p} * d.q, d.dtype)};
  return loops;
}

PlainLoops conv2d_pool_relu_loops(const Conv2dPoolReluProblem& d, Pass pass) {
  PlainLoops loops = {.functions = conv_sizes(d.conv) + pool_sizes(d.pool, "pool_") +
                                   "std::vector<float> z_values, dz_values;\n" +
                                   conv_forward(d.conv, "z") +
                                   max_pool(d.pool, "z_values", "pool_")};
  loops.prepare = "  // z is what the convolution gives and pooling reads.\n" +
                  keep_all("z", d.z_desc().elements());
  if (pass == Pass::kForward) {
    loops.functions += R"(
// y = relu of the largest value of the window
Expected plain_y(size_t i) {
  Expected y = plain_z(largest_for(i));
  if (y.value < 0) y.value = 0;
  return y;
}
)";
    loops.outputs = {output("y", 1, d.dtype)};
    return loops;
  }
  loops.prepare += R"(  // Its gradient: dy goes to each window's largest value, if that is above 0.
  dz_values.assign(z_values.size(), 0);
  for (size_t i = 0; i < dy_values.size(); ++i) {
    if (z_values[largest_for(i)] > 0) dz_values[largest_for(i)] += dy_values[i];
  }
)";
  add_conv_gradients(loops, d.conv, pass, "dz_values");
  return loops;
}

// ---- batch normalisation, with relu and pooling behind it ----

std::string norm_sizes(const BatchNormProblem& d) {
  return fill(R"(// Memory is outer x channels x inner; a channel has M = outer * inner values.
constexpr size_t outer = $outer, channels = $channels, inner = $inner, M = outer * inner;
constexpr double eps = $eps, momentum = $momentum;
size_t channel_of(size_t i) { return i / inner % channels; }
double weight_of(size_t c) { return $weight; }
double bias_of(size_t c) { return $bias; }
std::vector<double> mean(channels), variance(channels);  // of the batch
$unused)",
              {{"outer", d.outer()},
               {"channels", d.channels()},
               {"inner", d.inner()},
               {"eps", shortest(d.eps)},
               {"momentum", shortest(d.momentum)},
               {"weight", d.affine ? "weight_values[c]" : "(void)c, 1"},
               {"bias", d.affine ? "bias_values[c]" : "(void)c, 0"},
               {"unused", ""}});
}

constexpr const char* kStatistics = R"(  for (size_t i = 0; i < x_values.size(); ++i) mean[channel_of(i)] += x_values[i] / double(M);
  for (size_t i = 0; i < x_values.size(); ++i) {
    const double difference = x_values[i] - mean[channel_of(i)];
    variance[channel_of(i)] += difference * difference / double(M);
  }
)";

std::string norm_forward(const std::string& y) {
  return fill(R"(
/// (x - mean) / sqrt(var + eps)
double normalized(size_t i) {
  const size_t c = channel_of(i);
  return (x_values[i] - mean[c]) / std::sqrt(variance[c] + eps);
}

// y = normalized(x) * weight + bias
Expected plain_$y(size_t i) {
  Expected sum;
  sum.add(normalized(i) * weight_of(channel_of(i)));
  sum.add(bias_of(channel_of(i)));
  sum.size += 1;  // what rounding in x - mean counts against
  return sum;
}
)",
              {{"y", y}});
}

constexpr const char* kRunning = R"(
// The buffers of evaluation: the new batch weighs `momentum`; the variance is the unbiased one.
Expected plain_running_mean(size_t c) {
  Expected sum;
  sum.add((1 - momentum) * running_mean_values[c]);
  sum.add(momentum * mean[c]);
  sum.size += 1;
  return sum;
}
Expected plain_running_var(size_t c) {
  Expected sum;
  sum.add((1 - momentum) * running_var_values[c]);
  sum.add(momentum * variance[c] * double(M) / double(M - 1));
  return sum;
}
)";

void add_norm_gradients(PlainLoops& loops, const BatchNormProblem& d, const std::string& dy) {
  loops.functions += fill(R"(
std::vector<Expected> dbias_sums(channels), dweight_sums(channels);
$parameters
// dx = weight / sqrt(var + eps) * (dy - dbias / M - normalized(x) * dweight / M)
Expected plain_dx(size_t i) {
  const size_t c = channel_of(i);
  const double scale = weight_of(c) / std::sqrt(variance[c] + eps);
  Expected sum;
  sum.add(scale * $dy[i]);
  sum.add(-scale * dbias_sums[c].value / double(M));
  sum.add(-scale * normalized(i) * dweight_sums[c].value / double(M));
  sum.size += std::fabs(scale) * (dbias_sums[c].size + dweight_sums[c].size) / double(M);
  return sum;
}
)",
                          {{"dy", dy},
                           {"parameters", d.affine ? R"(
// dbias = the sum of dy, dweight = the sum of dy * normalized(x)
Expected plain_dbias(size_t c) { return dbias_sums[c]; }
Expected plain_dweight(size_t c) { return dweight_sums[c]; }
)"
                                                   : ""}});
  loops.prepare += fill(R"(  for (size_t i = 0; i < x_values.size(); ++i) {
    dbias_sums[channel_of(i)].add($dy[i]);
    dweight_sums[channel_of(i)].add($dy[i] * normalized(i));
  }
)",
                        {{"dy", dy}});
  loops.outputs = {output("dx", 1, d.dtype, 1e-4)};
  if (d.affine) {
    loops.outputs.push_back(output("dweight", 1, DType::kFloat32, 1e-4));
    loops.outputs.push_back(output("dbias", 1, DType::kFloat32, 1e-4));
  }
}

void add_running(PlainLoops& loops) {
  loops.functions += kRunning;
  loops.outputs.push_back(output("running_mean", 1, DType::kFloat32, 1e-4));
  loops.outputs.push_back(output("running_var", 1, DType::kFloat32, 1e-4));
}

PlainLoops batch_norm_loops(const BatchNormProblem& d, Pass pass) {
  PlainLoops loops = {.functions = norm_sizes(d), .prepare = kStatistics};
  const std::string dy = d.relu ? "dz_values" : "dy_values";
  loops.functions += norm_forward(d.relu ? "z" : "y");
  if (d.relu) loops.functions += "\nstd::vector<float> dz_values;  // the gradient of relu's input\n";
  if (pass == Pass::kForward) {
    if (d.relu) {
      loops.functions += R"(
// y = relu(z)
Expected plain_y(size_t i) {
  Expected y = plain_z(i);
  if (y.value < 0) y.value = 0;
  return y;
}
)";
    }
    loops.outputs = {output("y", 1, d.dtype, 1e-4)};
    add_running(loops);
    return loops;
  }
  if (d.relu) {
    loops.prepare += R"(  dz_values = dy_values;  // where z is above 0
  for (size_t i = 0; i < dz_values.size(); ++i) {
    if (!(plain_z(i).value > 0)) dz_values[i] = 0;
  }
)";
  }
  add_norm_gradients(loops, d, dy);
  return loops;
}

PlainLoops batch_norm_relu_pool_loops(const BatchNormReluPoolProblem& d, Pass pass) {
  PlainLoops loops = {.functions = norm_sizes(d.norm) + pool_sizes(d.pool, "pool_") +
                                   "std::vector<float> z_values, dz_values;\n" + norm_forward("z") +
                                   max_pool(d.pool, "z_values", "pool_"),
                      .prepare = kStatistics};
  loops.prepare += "  // z is what relu and pooling read.\n" + keep_all("z", d.norm.x.elements());
  if (pass == Pass::kForward) {
    loops.functions += R"(
// y = relu of the largest value of the window
Expected plain_y(size_t i) {
  Expected y = plain_z(largest_for(i));
  if (y.value < 0) y.value = 0;
  return y;
}
)";
    loops.outputs = {output("y", 1, d.dtype, 1e-4)};
    add_running(loops);
    return loops;
  }
  loops.prepare += R"(  // Its gradient: dy goes to each window's largest value, if that is above 0.
  dz_values.assign(z_values.size(), 0);
  for (size_t i = 0; i < dy_values.size(); ++i) {
    if (z_values[largest_for(i)] > 0) dz_values[largest_for(i)] += dy_values[i];
  }
)";
  add_norm_gradients(loops, d.norm, "dz_values");
  return loops;
}

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
       {"x / (1 + std::exp(-x))", "(1 + std::exp(-x) + x * std::exp(-x)) / ((1 + std::exp(-x)) * (1 + std::exp(-x)))"}}};
  const Formula& formula = formulas.at(d.kind);
  PlainLoops loops;
  if (d.kind == ActivationKind::kLeakyRelu) {
    loops.functions = "constexpr double slope = " + shortest(d.slope) + ";\n";
  }
  const bool forward = pass == Pass::kForward;
  const bool from_y = std::string(formula.gradient).find('y') != std::string::npos;
  loops.functions += fill(forward ? R"(
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
                           {"need", from_y ? "  const double y = " + std::string(formula.y) + ";\n"
                                           : ""}});
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
    loops.functions += "\nExpected plain_" + std::string(forward ? "y" : "dx") +
                       "(size_t i) {\n  Expected sum;\n" +
                       sum_of(forward ? "x" : "dy", tensors.size()) +
                       (relu ? "  if (!(plain_z(i).value > 0)) sum.value = 0;\n" : "") +
                       "  return sum;\n}\n";
  }
  loops.outputs = {output(forward ? "y" : "dx", 1, layer.inputs()[0].dtype, 1e-6)};
  return loops;
}

// ---- others ----

PlainLoops softmax_loops(const TensorDesc& x, Pass pass) {
  const int64_t columns = x.shape[x.shape.rank() - 1];
  const int64_t inner = x.shape.rank() == 4 && x.layout == Layout::kNHWC ? x.shape[1] : 1;
  PlainLoops loops;
  loops.functions = fill(R"(// A row has `columns` values, each `inner` elements behind the one before.
constexpr size_t columns = $columns, inner = $inner;
size_t row_of(size_t i) { return i / (columns * inner) * (columns * inner) + i % inner; }

/// exp(x) / the sum of exp(x) over the row; the maximum is subtracted, so that nothing overflows.
double softmax(size_t i) {
  const size_t row = row_of(i);
  double largest = x_values[row], sum = 0;
  for (size_t j = 0; j < columns; ++j) largest = std::fmax(largest, x_values[row + j * inner]);
  for (size_t j = 0; j < columns; ++j) sum += std::exp(x_values[row + j * inner] - largest);
  return std::exp(x_values[i] - largest) / sum;
}
)",
                         {{"columns", columns}, {"inner", inner}});
  if (pass == Pass::kForward) {
    loops.functions += "\nExpected plain_y(size_t i) { return within(0, softmax(i)); }\n";
    loops.outputs = {output("y", 2 * columns, x.dtype)};
    return loops;
  }
  loops.functions += R"(
// dx = y * (dy - the sum of dy * y over the row)
Expected plain_dx(size_t i) {
  const size_t row = row_of(i);
  Expected sum;
  sum.add(dy_values[i]);
  for (size_t j = 0; j < columns; ++j) {
    const size_t at = row + j * inner;
    sum.add(-double(dy_values[at]) * softmax(at));
  }
  return {sum.value * softmax(i), sum.size * softmax(i)};
}
)";
  loops.outputs = {output("dx", 2 * columns * columns, x.dtype)};
  return loops;
}

PlainLoops concat_loops(const Layer& layer, Pass pass) {
  const TensorDesc& y = layer.outputs()[0];
  const bool nhwc = y.shape.rank() == 4 && y.layout == Layout::kNHWC;
  const int64_t rows = nhwc ? y.elements() / y.shape[1] : y.shape[0];
  PlainLoops loops;
  loops.functions = "// In memory y has rows, each of a piece of every input.\nconstexpr size_t width = " +
                    std::to_string(y.elements() / rows) + ";\n";
  std::string parts;
  int64_t begin = 0;
  for (size_t k = 0; k < layer.inputs().size(); ++k) {
    const TensorDesc& x = layer.inputs()[k];
    const std::string number = layer.inputs().size() > 1 ? std::to_string(k + 1) : "";
    const int64_t piece = x.elements() / rows;
    if (pass == Pass::kForward) {
      parts += fill("  if (at < $end) return exactly(x$number_values[row * $piece + at - $begin]);\n",
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
    loops.functions += "\nExpected plain_y(size_t i) {\n  const size_t row = i / width, at = i % width;\n" +
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

PlainLoops softmax_cross_entropy_loops(const Layer& layer, Pass pass) {
  for (const char* key : {"label_smoothing", "class_weights", "labels=mixed"}) {
    if (layer.problem_text().find(key) != std::string::npos) {
      throw UnsupportedError("explain has no plain loop for softmax_cross_entropy with " +
                             std::string(key));
    }
  }
  const TensorDesc& x = layer.inputs()[0];
  const int64_t rows = x.shape[0], classes = x.shape[1];
  PlainLoops loops;
  loops.functions = fill(R"(constexpr size_t rows = $rows, classes = $classes;

/// log of exp(x) / the sum of exp(x) over the row; the maximum is subtracted, so that nothing overflows.
double log_softmax(size_t row, size_t j) {
  const float* x = &x_values[row * classes];
  double largest = x[0], sum = 0;
  for (size_t k = 0; k < classes; ++k) largest = std::fmax(largest, x[k]);
  for (size_t k = 0; k < classes; ++k) sum += std::exp(x[k] - largest);
  return x[j] - largest - std::log(sum);
}
)",
                         {{"rows", rows}, {"classes", classes}});
  if (pass == Pass::kForward) {
    loops.functions += R"(
// loss = the mean of -log_softmax at the labels
Expected plain_loss(size_t) {
  Expected sum;
  for (size_t n = 0; n < rows; ++n) {
    sum.add(-log_softmax(n, size_t(labels_values[n])) / double(rows));
  }
  return sum;
}

// hits = rows whose largest value is the label's, and all rows
Expected plain_hits(size_t i) {
  if (i == 1) return exactly(double(rows));
  size_t hits = 0;
  for (size_t n = 0; n < rows; ++n) {
    size_t best = 0;
    for (size_t j = 1; j < classes; ++j) {
      if (x_values[n * classes + j] > x_values[n * classes + best]) best = j;
    }
    hits += best == size_t(labels_values[n]);
  }
  return exactly(double(hits));
}
)";
    loops.outputs = {output("loss", 1, DType::kFloat32),
                     {"hits", 1, 0.0, "whole numbers"}};
    return loops;
  }
  loops.functions += R"(
// dx = dloss / rows * (softmax(x) - 1 at the label)
Expected plain_dx(size_t i) {
  const size_t n = i / classes, j = i % classes;
  Expected sum;
  sum.add(dloss_values[0] / double(rows) * std::exp(log_softmax(n, j)));
  if (j == size_t(labels_values[n])) sum.add(-dloss_values[0] / double(rows));
  return sum;
}
)";
  loops.outputs = {output("dx", classes, x.dtype)};
  return loops;
}

template <class L>
const L& as(const Layer& layer) {
  return dynamic_cast<const L&>(layer);
}

}  // namespace

std::optional<PlainLoops> plain_loops(const Layer& layer, Pass pass) {
  const std::string_view type = layer.type();
  const auto is = [&](std::initializer_list<std::string_view> types) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  if (is({"conv2d"})) return conv2d_loops(as<Conv2dLayer>(layer).problem(), pass);
  if (is({"linear"})) return linear_loops(as<LinearLayer>(layer).problem(), pass);
  if (is({"linear_relu"})) return linear_relu_loops(as<LinearReluLayer>(layer).problem(), pass);
  if (is({"max_pool2d"})) return max_pool_loops(as<Pool2dLayer>(layer).problem(), pass);
  if (is({"avg_pool2d", "global_avg_pool2d"})) {
    return average_pool_loops(as<Pool2dLayer>(layer).problem(), pass);
  }
  if (is({"conv2d_pool_relu"})) {
    return conv2d_pool_relu_loops(as<Conv2dPoolReluLayer>(layer).problem(), pass);
  }
  if (is({"batch_norm1d", "batch_norm2d", "batch_norm1d_relu", "batch_norm2d_relu"})) {
    return batch_norm_loops(as<BatchNormLayer>(layer).problem(), pass);
  }
  if (is({"batch_norm2d_relu_pool"})) {
    return batch_norm_relu_pool_loops(as<BatchNormReluPoolLayer>(layer).problem(), pass);
  }
  if (is({"relu", "leaky_relu", "sigmoid", "tanh", "silu"})) {
    return activation_loops(as<ActivationLayer>(layer).problem(), pass);
  }
  if (is({"add", "add_relu", "split"})) return sum_loops(layer, pass);
  if (is({"softmax"})) return softmax_loops(layer.inputs()[0], pass);
  if (is({"softmax_cross_entropy"})) return softmax_cross_entropy_loops(layer, pass);
  if (is({"concat"})) return concat_loops(layer, pass);
  if (is({"reorder"})) return reorder_loops(layer.inputs()[0], layer.outputs()[0], pass);
  return {};
}

}  // namespace duet
