// Metrics of a tensor x and targets t of its shape; the tensors are those of layers/metric.h. They
// share one problem and every implementation, and are layer types with lists of their own. With
// d = x - t and means over the elements of a row, the metric of a row is
//   mean_absolute_error  mean |d|. No keys.
//   mean_squared_error   mean d^2. No keys.
//   psnr                 the peak signal-to-noise ratio 10 * log10(range^2 / mean d^2) in dB. Where
//                        mean d^2 / range^2 is below the least normal float32 it counts as that: equal
//                        images have 379.3 dB, and a mean over images stays finite. Keys: data_range
//                        (the largest difference that images can have: 1 for values of 0 to 1, 255 for
//                        bytes), border 0 (pixels left out at each side of images).
// What is summed is summed in double.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "layers/metric.h"

namespace duet {

enum class PairMetricKind { kMeanAbsoluteError, kMeanSquaredError, kPsnr };

/// Metrics of rows, one after the other in memory.
struct PairMetricProblem {
  PairMetricKind kind = PairMetricKind::kMeanSquaredError;
  TensorDesc x;  // and the targets
  DType dtype = DType::kFloat32;
  double data_range = 1.0;  // kPsnr
  int64_t border = 0;       // kPsnr

  int64_t rows() const { return x.shape[0]; }
  int64_t row_elements() const { return x.elements() / rows(); }
  std::string to_string() const;
};

/// The elements of a row that a metric is of, by their offsets in memory: planes of lines, the
/// borders of both cut off.
struct InnerElements {
  int64_t lines, length;              // of a plane, all
  int64_t inner_lines, inner_length;  // of a plane, those inside
  int64_t planes;

  /// Without a border a row is one line.
  explicit InnerElements(const PairMetricProblem& problem)
      : lines(1), length(problem.row_elements()), planes(1) {
    if (problem.border > 0) {
      const Shape& s = problem.x.shape;
      const bool nhwc = problem.x.layout == Layout::kNHWC;
      planes = nhwc ? 1 : s[1];
      lines = s[2];
      length = nhwc ? s[3] * s[1] : s[3];
      inner_lines = lines - 2 * problem.border;
      inner_length = nhwc ? (s[3] - 2 * problem.border) * s[1] : s[3] - 2 * problem.border;
    } else {
      inner_lines = lines;
      inner_length = length;
    }
  }
  int64_t count() const { return planes * inner_lines * inner_length; }
  /// Of the first that is inside.
  int64_t first() const { return (lines - inner_lines) / 2 * length + (length - inner_length) / 2; }
};

/// What is added up over the elements of a row.
DUET_HOST_DEVICE inline double pair_metric_term(PairMetricKind kind, double difference) {
  return kind == PairMetricKind::kMeanAbsoluteError ? std::abs(difference)
                                                    : difference * difference;
}

/// The metric of a row whose terms have that mean.
DUET_HOST_DEVICE inline double pair_metric_of(PairMetricKind kind, double mean, double data_range) {
  if (kind != PairMetricKind::kPsnr) return mean;
  constexpr double kLeast = 0x1p-126;  // the least normal float32
  const double ratio = mean / (data_range * data_range);
  return -10.0 * std::log10(ratio < kLeast ? kLeast : ratio);  // NaN stays
}

using PairMetricImpl = MetricImpl<PairMetricProblem>;
using PairMetricImpls = std::vector<ImplEntry<PairMetricProblem>>;

const LayerType& mean_absolute_error_type();
const LayerType& mean_squared_error_type();
const LayerType& psnr_type();

}  // namespace duet
