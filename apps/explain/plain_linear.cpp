// Linear layers, alone and with relu behind them.
#include "plain_parts.h"

namespace duet::plain {
namespace {

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

}  // namespace

PlainLoops linear(const LinearProblem& d, Pass pass) {
  PlainLoops loops = {.functions = linear_sizes(d)};
  if (pass == Pass::kForward) {
    loops.functions += linear_forward(d, "y");
    loops.outputs = {output("y", d.in, d.dtype)};
  } else {
    add_linear_gradients(loops, d, pass, "dy_values");
  }
  return loops;
}

PlainLoops linear_relu(const LinearProblem& d, Pass pass) {
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

}  // namespace duet::plain
