// The part of plain_loops() that is about softmax_cross_entropy.
#include "core/mixed_labels.h"
#include "plain_parts.h"

namespace duet::plain {
namespace {

/// share(n, j) and label_of(n), of rows with two classes each.
constexpr const char* kMixedLabels = R"(
/// Row n has two classes, the first with a share of so many of `whole`.
constexpr float whole = $whole;
double share(size_t n, size_t j) {
  const float* of = &labels_values[3 * n];
  return (j == size_t(of[0]) ? of[2] / whole : 0) + (j == size_t(of[1]) ? 1 - of[2] / whole : 0);
}
/// The class with the larger share.
size_t label_of(size_t n) {
  const float* of = &labels_values[3 * n];
  return size_t(2 * of[2] >= whole ? of[0] : of[1]);
}
)";
constexpr const char* kLabels = R"(
size_t label_of(size_t n) { return size_t(labels_values[n]); }
double share(size_t n, size_t j) { return j == label_of(n) ? 1 : 0; }
)";

/// counts(n), weight_of(n) and target(n, j).
std::string targets_of(const SoftmaxCrossEntropyProblem& d) {
  std::string text = fill(d.mixed ? kMixedLabels : kLabels, {{"whole", kWholeShare}});
  if (d.ignored_class == kNoClass) {
    text += "bool counts(size_t) { return true; }\n";
  } else {
    const char* const single = "labels_values[n] != $ignored";
    const char* const both =
        "labels_values[3 * n] != $ignored && labels_values[3 * n + 1] != $ignored";
    text += fill("\n/// Rows of class $ignored do not count.\nbool counts(size_t n) { return " +
                     std::string(d.mixed ? both : single) + "; }\n",
                 {{"ignored", d.ignored_class}});
  }
  std::string target = "share(n, j)";
  if (d.label_smoothing != 0.0f) {
    text += "\nconstexpr double smoothing = " + shortest(d.label_smoothing) + ";\n";
    target = "((1 - smoothing) * share(n, j) + smoothing / classes)";
  }
  if (d.class_weights.empty()) {
    text +=
        "\n/// The weight of row n.\ndouble weight_of(size_t n) { return counts(n) ? 1 : 0; }\n";
  } else {
    std::string weights;
    for (const float weight : d.class_weights) {
      weights += (weights.empty() ? "" : ", ") + shortest(weight);
    }
    text += "\nconst double class_weights[] = {" + weights + R"(};
/// The weight of row n.
double weight_of(size_t n) {
  double sum = 0;
  for (size_t j = 0; j < classes && counts(n); ++j) sum += share(n, j) * class_weights[j];
  return sum;
}
)";
    target += " * class_weights[j]";
  }
  return text + "/// What the softmax of row n is compared with at class j.\n" +
         "double target(size_t n, size_t j) { return counts(n) ? " + target + " : 0; }\n" +
         "double total = 0;  // what all rows weigh\n";
}

constexpr const char* kForward = R"(
// loss = the mean of -log_softmax at the targets
Expected plain_loss(size_t) {
  Expected sum;
  for (size_t n = 0; n < rows; ++n) {
    for (size_t j = 0; j < classes; ++j) {
      if (target(n, j) != 0) sum.add(-target(n, j) * log_softmax(n, j) / total);
    }
  }
  return sum;
}

// hits = rows whose largest value is the label's, and the rows that count
Expected plain_hits(size_t i) {
  size_t hits = 0, counted = 0;
  for (size_t n = 0; n < rows; ++n) {
    if (!counts(n)) continue;
    ++counted;
    size_t best = 0;
    for (size_t j = 1; j < classes; ++j) {
      if (x_values[n * classes + j] > x_values[n * classes + best]) best = j;
    }
    hits += best == label_of(n);
  }
  return exactly(double(i == 0 ? hits : counted));
}
)";

constexpr const char* kBackward = R"(
// dx = dloss / total * (softmax(x) * the sum of the row's targets - the target)
Expected plain_dx(size_t i) {
  const size_t n = i / classes, j = i % classes;
  double targets = 0;
  for (size_t k = 0; k < classes; ++k) targets += target(n, k);
  Expected sum;
  if (!counts(n)) return sum;
  sum.add(dloss_values[0] / total * targets * std::exp(log_softmax(n, j)));
  sum.add(-dloss_values[0] / total * target(n, j));
  return sum;
}
)";

}  // namespace

PlainLoops softmax_cross_entropy(const SoftmaxCrossEntropyProblem& d, Pass pass) {
  const bool forward = pass == Pass::kForward;
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
                         {{"rows", d.n}, {"classes", d.c}}) +
                    targets_of(d) + (forward ? kForward : kBackward);
  loops.prepare = "  for (size_t n = 0; n < rows; ++n) total += weight_of(n);\n";
  if (forward) {
    loops.outputs = {output("loss", 1, DType::kFloat32), {"hits", 1, 0.0, "whole numbers"}};
  } else {
    loops.outputs = {output("dx", d.c, d.dtype)};
  }
  return loops;
}

}  // namespace duet::plain
