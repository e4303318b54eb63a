// Batch normalisation, alone and with relu and pooling or softmax behind it.
#include "plain_parts.h"

namespace duet::plain {
namespace {

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

constexpr const char* kStatistics =
    R"(  for (size_t i = 0; i < x_values.size(); ++i) mean[channel_of(i)] += x_values[i] / double(M);
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

}  // namespace

PlainLoops batch_norm(const BatchNormProblem& d, Pass pass) {
  PlainLoops loops = {.functions = norm_sizes(d), .prepare = kStatistics};
  const std::string dy = d.relu ? "dz_values" : "dy_values";
  loops.functions += norm_forward(d.relu ? "z" : "y");
  if (d.relu)
    loops.functions += "\nstd::vector<float> dz_values;  // the gradient of relu's input\n";
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

PlainLoops batch_norm_relu_pool(const BatchNormReluPoolProblem& d, Pass pass) {
  PlainLoops loops = {.functions = norm_sizes(d.norm) + pool_sizes(d.pool, "pool_") +
                                   "std::vector<float> z_values, dz_values;\n" + norm_forward("z") +
                                   largest_of_window(d.pool, "z_values", "pool_"),
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

PlainLoops batch_norm_relu_softmax(const BatchNormReluSoftmaxProblem& d, Pass pass) {
  PlainLoops loops = {.functions = norm_sizes(d.norm) + R"(
std::vector<float> z_values, dz_values;
std::vector<double> s_values;  // the softmax of relu's outputs
)" + norm_forward("z"),
                      .prepare = kStatistics};
  loops.prepare += "  // z is what relu reads.\n" + keep_all("z", d.norm.x.elements());
  loops.prepare += R"(  s_values.assign(z_values.size(), 0);
  for (size_t row = 0; row < z_values.size(); row += channels) {
    double largest = 0, sum = 0;  // no output of relu is below 0
    for (size_t i = row; i < row + channels; ++i) largest = std::fmax(largest, z_values[i]);
    for (size_t i = row; i < row + channels; ++i) {
      s_values[i] = std::exp(std::fmax(z_values[i], 0.0) - largest);
      sum += s_values[i];
    }
    for (size_t i = row; i < row + channels; ++i) s_values[i] /= sum;
  }
)";
  if (pass == Pass::kForward) {
    loops.functions += "\nExpected plain_y(size_t i) { return within(0, s_values[i]); }\n";
    loops.outputs = {output("y", 1, d.dtype, 1e-4)};
    add_running(loops);
    return loops;
  }
  loops.prepare += R"(  // Its gradient: softmax's, where z is above 0.
  dz_values.assign(z_values.size(), 0);
  for (size_t row = 0; row < z_values.size(); row += channels) {
    double sum = 0;
    for (size_t i = row; i < row + channels; ++i) sum += s_values[i] * dy_values[i];
    for (size_t i = row; i < row + channels; ++i) {
      if (z_values[i] > 0) dz_values[i] = float(s_values[i] * (dy_values[i] - sum));
    }
  }
)";
  add_norm_gradients(loops, d.norm, "dz_values");
  return loops;
}

}  // namespace duet::plain
