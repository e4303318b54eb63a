// Convolutions, alone and with pooling and relu behind them.
#include "plain_parts.h"

namespace duet::plain {
namespace {

std::string conv_sizes(const Conv2dProblem& d) {
  return fill(
      R"(// Sizes by cuDNN's letters: x is N x C x H x W, w is K x C/groups x R x S, y is N x K x P x Q.
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
       {"w_at",
        index_function("w_at", {"k", "c", "r", "s"}, {"K", "C / groups", "R", "S"}, d.layout)},
       {"y_at", index_function("y_at", {"n", "k", "p", "q"}, {"N", "K", "P", "Q"}, d.layout)}});
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
  return fill(
      R"(
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
      {{"dy", dy}, {"split", split_index({"n", "c", "h", "w"}, {"N", "C", "H", "W"}, d.layout)}});
}

std::string conv_backward_filter(const Conv2dProblem& d, const std::string& dy) {
  std::string text =
      fill(R"(
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
            {"split", split_index({"k", "c", "r", "s"}, {"K", "C / groups", "R", "S"}, d.layout)}});
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

}  // namespace

PlainLoops conv2d(const Conv2dProblem& d, Pass pass) {
  PlainLoops loops = {.functions = conv_sizes(d)};
  if (pass == Pass::kForward) {
    loops.functions += conv_forward(d, "y");
    loops.outputs = {output("y", int64_t{d.channels_per_group()} * d.r * d.s, d.dtype)};
  } else {
    add_conv_gradients(loops, d, pass, "dy_values");
  }
  return loops;
}

PlainLoops conv2d_pool_relu(const Conv2dPoolReluProblem& d, Pass pass) {
  PlainLoops loops = {.functions = conv_sizes(d.conv) + pool_sizes(d.pool, "pool_") +
                                   "std::vector<float> z_values, dz_values;\n" +
                                   conv_forward(d.conv, "z") +
                                   largest_of_window(d.pool, "z_values", "pool_")};
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

}  // namespace duet::plain
