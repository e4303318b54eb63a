// Lesson 10, exercise 1: inference without batch normalisation: y = a x + b for each channel.
#define main main_of_the_lesson
#include "batch_norm.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const Descriptors d;
  const auto x = lesson::random_values(kN * kC * kPixels, 1);
  const auto scale = lesson::random_values(kC, 3), bias = lesson::random_values(kC, 4);
  const auto mean = lesson::random_values(kC, 5);
  std::vector<float> variance = lesson::random_values(kC, 6);
  for (float& value : variance) value = 1 + value * value;
  const lesson::Array<float> xs(x), scales(scale), biases(bias), means(mean), variances(variance);
  const lesson::Array<float> ys(x.size()), folded(x.size());
  // region answer
  std::vector<float> a, b;  // computed once, when the training is over
  for (int c = 0; c < kC; ++c) {
    a.push_back(scale[c] / std::sqrt(variance[c] + static_cast<float>(kEps)));
    b.push_back(bias[c] - a[c] * mean[c]);
  }
  const lesson::Array<float> as(a), bs(b);
  const lesson::OpTensorDescriptor times;
  CHECK(cudnnSetOpTensorDescriptor(times, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT,
                                   CUDNN_PROPAGATE_NAN));
  CHECK(cudnnOpTensor(cudnn, times, &kOne, d.x, xs.data(), &kOne, d.channel, as.data(), &kZero, d.x,
                      folded.data()));
  CHECK(cudnnAddTensor(cudnn, &kOne, d.channel, bs.data(), &kOne, d.x, folded.data()));
  // end answer
  CHECK(cudnnBatchNormalizationForwardInference(
      cudnn, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, d.x, xs.data(), d.x, ys.data(), d.channel,
      scales.data(), biases.data(), means.data(), variances.data(), kEps));
  std::vector<double> expected(x.size());
  for (int c = 0; c < kC; ++c) {
    for (int i = 0; i < kM; ++i) {
      const int at = place(c, i);
      expected[at] = scale[c] * (double(x[at]) - mean[c]) / std::sqrt(variance[c] + kEps) + bias[c];
    }
  }
  lesson::compare("cuDNN's inference", ys.host(), expected, 1e-5);
  lesson::compare("a x + b", folded.host(), expected, 1e-5);
}

int main() {
  return lesson::run("Lesson 10, answer 1", "Folds batch normalisation into a factor and a bias.",
                     answer);
}
