// Lesson 10: batch normalisation: training, inference and backward, and what each keeps for the others.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kN = 4, kC = 8, kH = 5, kW = 6, kPixels = kH * kW, kM = kN * kPixels;
constexpr double kEps = 1e-5;    // added to a variance before its root
constexpr double kFactor = 0.1;  // weight of the new batch in the running averages
constexpr float kOne = 1, kZero = 0;
// end constants

// region descriptors
struct Descriptors {
  lesson::TensorDescriptor x, channel;
  Descriptors() {
    CHECK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, kW));
    // 1 x C x 1 x 1 for scale, bias and statistics, in float32 also where x is narrower.
    CHECK(cudnnDeriveBNTensorDescriptor(channel, x, CUDNN_BATCHNORM_SPATIAL));
  }
};
// end descriptors

/// Where value i of channel c lies.
int place(int c, int i) { return (i / kPixels * kC + c) * kPixels + i % kPixels; }

struct Expected {
  std::vector<double> y, mean, inverse, running_mean, running_variance, inferred, dx, dscale, dbias;
};

// region plain
Expected plain(const std::vector<float>& x, const std::vector<float>& dy,
               const std::vector<float>& scale, const std::vector<float>& bias,
               std::vector<float> running_mean, std::vector<float> running_variance) {
  Expected e;
  e.y.resize(x.size());
  e.inferred = e.dx = e.y;
  for (int c = 0; c < kC; ++c) {
    double mean = 0, variance = 0, dbias = 0, dscale = 0;
    for (int i = 0; i < kM; ++i) mean += double(x[place(c, i)]) / kM;
    for (int i = 0; i < kM; ++i) variance += std::pow(x[place(c, i)] - mean, 2) / kM;
    const double inverse = 1 / std::sqrt(variance + kEps);
    for (int i = 0; i < kM; ++i) {
      dbias += dy[place(c, i)];
      dscale += dy[place(c, i)] * (x[place(c, i)] - mean) * inverse;
    }
    const double updated_mean = (1 - kFactor) * running_mean[c] + kFactor * mean;
    // The batch is normalised by sum / m, the running average takes sum / (m - 1).
    const double updated_variance =
        (1 - kFactor) * running_variance[c] + kFactor * variance * kM / (kM - 1);
    for (int i = 0; i < kM; ++i) {
      const int at = place(c, i);
      const double normal = (x[at] - mean) * inverse;
      e.y[at] = scale[c] * normal + bias[c];
      e.dx[at] = scale[c] * inverse * (dy[at] - (dbias + normal * dscale) / kM);
      e.inferred[at] =
          scale[c] * (x[at] - updated_mean) / std::sqrt(updated_variance + kEps) + bias[c];
    }
    e.mean.push_back(mean);
    e.inverse.push_back(inverse);
    e.running_mean.push_back(updated_mean);
    e.running_variance.push_back(updated_variance);
    e.dscale.push_back(dscale);
    e.dbias.push_back(dbias);
  }
  return e;
}
// end plain

void teach() {
  const lesson::Handle cudnn;
  const Descriptors d;
  // region memory
  const auto x = lesson::random_values(kN * kC * kPixels, 1),
             dy = lesson::random_values(x.size(), 2);
  const auto scale = lesson::random_values(kC, 3), bias = lesson::random_values(kC, 4);
  const std::vector<float> means = lesson::random_values(kC, 5), variances(kC, 1.0f);
  const Expected e = plain(x, dy, scale, bias, means, variances);
  const lesson::Array<float> xs(x), dys(dy), scales(scale), biases(bias), ys(x.size());
  const lesson::Array<float> mean(kC), inverse(kC), dxs(x.size()), dscale(kC), dbias(kC);
  // end memory

  for (const auto mode : {CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_SPATIAL_PERSISTENT}) {
    std::printf("%s\n", mode == CUDNN_BATCHNORM_SPATIAL ? "spatial" : "spatial persistent");
    const lesson::Array<float> running_mean(means), running_variance(variances);
    // region training
    CHECK(cudnnBatchNormalizationForwardTraining(
        cudnn, mode, &kOne, &kZero, d.x, xs.data(), d.x, ys.data(), d.channel, scales.data(),
        biases.data(), kFactor, running_mean.data(), running_variance.data(), kEps, mean.data(),
        inverse.data()));
    lesson::compare(" y", ys.host(), e.y, 1e-4);
    lesson::compare(" saved mean", mean.host(), e.mean, 1e-5);
    lesson::compare(" saved 1 / deviation", inverse.host(), e.inverse, 1e-4);
    lesson::compare(" running mean", running_mean.host(), e.running_mean, 1e-5);
    lesson::compare(" running variance", running_variance.host(), e.running_variance, 1e-5);
    // end training

    // region backward
    CHECK(cudnnBatchNormalizationBackward(
        cudnn, mode, &kOne, &kZero, &kOne, &kZero, d.x, xs.data(), d.x, dys.data(), d.x, dxs.data(),
        d.channel, scales.data(), dscale.data(), dbias.data(), kEps, mean.data(), inverse.data()));
    lesson::compare(" dx", dxs.host(), e.dx, 1e-4);
    lesson::compare(" dscale", dscale.host(), e.dscale, 1e-3);
    lesson::compare(" dbias", dbias.host(), e.dbias, 1e-3);
    // end backward

    // region inference
    CHECK(cudnnBatchNormalizationForwardInference(
        cudnn, mode, &kOne, &kZero, d.x, xs.data(), d.x, ys.data(), d.channel, scales.data(),
        biases.data(), running_mean.data(), running_variance.data(), kEps));
    lesson::compare(" y of inference", ys.host(), e.inferred, 1e-4);
    // end inference
  }

  // region wrong
  SHOULD_FAIL(cudnnBatchNormalizationForwardInference(
                  cudnn, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, d.x, xs.data(), d.x, ys.data(),
                  d.x, scales.data(), biases.data(), mean.data(), inverse.data(), kEps),
              CUDNN_STATUS_BAD_PARAM);
  const lesson::ActivationDescriptor relu;
  CHECK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
  size_t bytes = 0;
  SHOULD_FAIL(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
                  cudnn, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION,
                  d.x, d.x, d.x, d.channel, relu, &bytes),
              CUDNN_STATUS_NOT_SUPPORTED);
  // end wrong
}

int main() {
  return lesson::run("Lesson 10: batch normalisation",
                     "Normalises by channel in training, goes backward with the saved statistics, "
                     "and uses the running averages for inference.",
                     teach);
}
