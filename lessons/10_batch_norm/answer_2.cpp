// Lesson 10, exercise 2: relu(batch_norm(x) + z) in one call, on half-precision images in NHWC.
#include <cuda_fp16.h>

#define main main_of_the_lesson
#include "batch_norm.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const auto scale = lesson::random_values(kC, 3), bias = lesson::random_values(kC, 4);
  std::vector<__half> x, z;
  for (const float value : lesson::random_values(kM * kC, 1)) x.push_back(__float2half(value));
  for (const float value : lesson::random_values(kM * kC, 2)) z.push_back(__float2half(value));
  const lesson::Array<__half> xs(x), zs(z), ys(x.size());
  const lesson::Array<float> scales(scale), biases(bias), mean(kC), inverse(kC);
  const lesson::Array<float> running_mean(std::vector<float>(kC, 0.0f));
  const lesson::Array<float> running_variance(std::vector<float>(kC, 1.0f));
  // region answer
  const lesson::TensorDescriptor images, channel;
  const lesson::ActivationDescriptor relu;
  CHECK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
  CHECK(cudnnSetTensor4dDescriptor(images, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, kN, kC, kH, kW));
  const auto mode = CUDNN_BATCHNORM_SPATIAL_PERSISTENT;  // and C must be a multiple of 4
  const auto with = CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
  CHECK(cudnnDeriveBNTensorDescriptor(channel, images, mode));
  size_t bytes = 0, kept_bytes = 0;
  CHECK(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(cudnn, mode, with, images, images,
                                                                 images, channel, relu, &bytes));
  CHECK(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnn, mode, with, relu, images,
                                                             &kept_bytes));
  std::printf("workspace %zu bytes; %zu bytes to keep until backward: where relu let through\n",
              bytes, kept_bytes);
  const lesson::Array<char> workspace(bytes), kept(kept_bytes);
  CHECK(cudnnBatchNormalizationForwardTrainingEx(
      cudnn, mode, with, &kOne, &kZero, images, xs.data(), images, zs.data(), images, ys.data(),
      channel, scales.data(), biases.data(), kFactor, running_mean.data(), running_variance.data(),
      kEps, mean.data(), inverse.data(), relu, workspace.data(), bytes, kept.data(), kept_bytes));
  // end answer
  std::vector<double> expected(x.size());
  for (int c = 0; c < kC; ++c) {  // in nhwc value i of channel c lies at i * C + c
    double average = 0, variance = 0;
    for (int i = 0; i < kM; ++i) average += double(__half2float(x[i * kC + c])) / kM;
    for (int i = 0; i < kM; ++i) {
      variance += std::pow(__half2float(x[i * kC + c]) - average, 2) / kM;
    }
    for (int i = 0; i < kM; ++i) {
      const int at = i * kC + c;
      const double normal = (__half2float(x[at]) - average) / std::sqrt(variance + kEps);
      expected[at] = std::max(0.0, scale[c] * normal + bias[c] + __half2float(z[at]));
    }
  }
  std::vector<float> y;
  for (const __half value : ys.host()) y.push_back(__half2float(value));
  lesson::compare("relu(batch_norm(x) + z) in half precision", y, expected, 5e-3);
}

int main() {
  return lesson::run("Lesson 10, answer 2", "Batch normalisation, sum and relu in one call.",
                     answer);
}
