// The part of plain_loops() that is about softmax and dropout.
#include "plain_parts.h"

namespace duet::plain {
namespace {

/// row_of(i) and softmax(i).
std::string softmax_functions(const TensorDesc& x) {
  const int64_t inner = x.shape.rank() == 4 && x.layout == Layout::kNHWC ? x.shape[1] : 1;
  return fill(R"(// A row has `columns` values, each `inner` elements behind the one before.
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
              {{"columns", x.shape[x.shape.rank() - 1]}, {"inner", inner}});
}

/// `dropped`, the share.
std::string share_of(const DropoutProblem& d) {
  return "constexpr float dropped = " + shortest(d.p) + ";  // the share\n";
}

/// kept(i) by the rule of layers/dropout/dropout.h at step 0, as record_layer() runs it.
std::string philox_mask(const DropoutProblem& d) {
  const DropoutMask mask(d);
  std::string element = "i";
  if (mask.channels_last) {
    element = fill(
        "(i / $channels / $pixels * $channels + i % $channels) * $pixels + "
        "i / $channels % $pixels",
        {{"channels", mask.channels}, {"pixels", mask.pixels}});
  }
  return fill(R"(
/// Duet's mask at step 0, the same by every implementation: Philox4x32-10 makes four words of the
/// network's seed, the layer's number and a block of four elements, and no state is kept.
bool kept(size_t i) {
  const size_t element = $element;
  uint32_t c[] = {uint32_t(element / 4), $stream, 0, 0};
  uint32_t key[] = {$low, $high};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53) * c[0], b = uint64_t(0xCD9E8D57) * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = uint32_t(b >> 32) ^ c1 ^ key[0];
    c[1] = uint32_t(b);
    c[2] = uint32_t(a >> 32) ^ c3 ^ key[1];
    c[3] = uint32_t(a);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return float(c[element % 4] >> 8) / (1 << 24) >= dropped;
}
)",
              {{"element", element},
               {"stream", std::to_string(mask.stream) + "u"},
               {"low", std::to_string(static_cast<uint32_t>(mask.seed)) + "u"},
               {"high", std::to_string(mask.seed >> 32) + "u"}});
}

}  // namespace

PlainLoops softmax(const TensorDesc& x, Pass pass) {
  const int64_t columns = x.shape[x.shape.rank() - 1];
  PlainLoops loops;
  loops.functions = softmax_functions(x);
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

PlainLoops dropout(const DropoutProblem& d, Pass pass) {
  const bool forward = pass == Pass::kForward;
  PlainLoops loops;
  loops.found = "y";
  loops.functions =
      share_of(d) + fill(R"(
/// y as the calls gave it. cuDNN draws the mask and shows it nowhere else: no x is 0, so that what is
/// not 0 in y was kept.
std::vector<double> y_found;
bool kept(size_t i) { return y_found[i] != 0; }

// $to = $from / (1 - dropped) where it is kept, else 0
Expected plain_$to(size_t i) {
  return kept(i) ? within(0, $from_values[i] / (1 - double(dropped))) : exactly(0);
}
)",
                         {{"to", forward ? "y" : "dx"}, {"from", forward ? "x" : "dy"}});
  loops.checks = R"(
  // As many are kept as asked for, but for five standard deviations.
  const double asked = y_found.size() * (1 - double(dropped));
  double kept_count = 0;
  for (size_t i = 0; i < y_found.size(); ++i) kept_count += kept(i);
  const bool as_asked = std::fabs(kept_count - asked) <= 5 * std::sqrt(asked * dropped) + 1e-3;
  std::printf("kept: %s%.0f of %zu values, asked for %.1f\n", as_asked ? "" : "WRONG: ", kept_count,
              y_found.size(), asked);
  wrong += !as_asked;
)";
  loops.outputs = {{forward ? "y" : "dx", 1, 1e-6, "a product in float32"}};
  return loops;
}

PlainLoops softmax_dropout(const SoftmaxDropoutProblem& d, Pass pass) {
  const TensorDesc& x = d.softmax.x;
  const int64_t columns = d.softmax.columns();
  PlainLoops loops;
  loops.functions = softmax_functions(x) + share_of(d.dropout) + philox_mask(d.dropout);
  if (pass == Pass::kForward) {
    loops.functions += R"(
// y = softmax(x) / (1 - dropped) where it is kept, else 0
Expected plain_y(size_t i) {
  return kept(i) ? within(0, softmax(i) / (1 - double(dropped))) : exactly(0);
}
)";
    loops.outputs = {output("y", 2 * columns, x.dtype)};
    return loops;
  }
  loops.functions += R"(
// d = dy / (1 - dropped) where it is kept, else 0
double d(size_t i) { return kept(i) ? dy_values[i] / (1 - double(dropped)) : 0; }

// dx = softmax(x) * (d - the sum of d * softmax(x) over the row)
Expected plain_dx(size_t i) {
  const size_t row = row_of(i);
  Expected sum;
  sum.add(d(i));
  for (size_t j = 0; j < columns; ++j) {
    const size_t at = row + j * inner;
    sum.add(-d(at) * softmax(at));
  }
  return {sum.value * softmax(i), sum.size * softmax(i)};
}
)";
  loops.outputs = {output("dx", 2 * columns * columns, x.dtype)};
  return loops;
}

}  // namespace duet::plain
