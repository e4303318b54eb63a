// Pooling.
#include "plain_parts.h"

namespace duet::plain {

std::string pool_sizes(const Pool2dProblem& d, const std::string& prefix) {
  // As part of a block the names of a convolution's sizes are taken.
  return fill(
      R"($comment
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
                               {prefix + "N", prefix + "C", prefix + "H", prefix + "W"}, d.layout)},
       {"to", index_function(prefix + "to_at", {"n", "c", "p", "q"},
                             {prefix + "N", prefix + "C", prefix + "P", prefix + "Q"}, d.layout)}});
}

std::string largest_of_window(const Pool2dProblem& d, const std::string& x,
                              const std::string& prefix) {
  return fill(
      R"(
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
                             {prefix + "N", prefix + "C", prefix + "P", prefix + "Q"}, d.layout)}});
}

PlainLoops max_pool(const Pool2dProblem& d, Pass pass) {
  PlainLoops loops = {.functions = pool_sizes(d, "") + largest_of_window(d, "x_values", "")};
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

PlainLoops average_pool(const Pool2dProblem& d, Pass pass) {
  PlainLoops loops = {
      .functions =
          pool_sizes(d, "") +
          fill(R"(
/// What an average divides by: the window's pixels$padding.
int divisor($arguments) {
$body}
)",
               {{"padding", d.count_include_pad ? ", with the padding" : " inside of the image"},
                {"arguments", d.count_include_pad ? "int, int" : "int p, int q"},
                {"body", d.count_include_pad ? "  return R * S;\n" : R"(  int count = 0;
  for (int r = 0; r < R; ++r) {
    for (int s = 0; s < S; ++s) {
      const int h = p * stride_h - pad_h + r, w = q * stride_w - pad_w + s;
      count += h >= 0 && h < H && w >= 0 && w < W;
    }
  }
  return count;
)"}})};
  if (pass == Pass::kForward) {
    loops.functions +=
        fill(R"(
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
             {{"split", split_index({"n", "c", "p", "q"}, {"N", "C", "P", "Q"}, d.layout)}});
    loops.outputs = {output("y", int64_t{d.r} * d.s, d.dtype)};
    return loops;
  }
  loops.functions +=
      fill(R"(
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
           {{"split", split_index({"n", "c", "h", "w"}, {"N", "C", "H", "W"}, d.layout)}});
  loops.outputs = {output("dx", int64_t{d.p} * d.q, d.dtype)};
  return loops;
}

}  // namespace duet::plain
