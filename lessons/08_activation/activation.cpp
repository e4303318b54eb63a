// Lesson 08: activations, forward and backward, in place, and with NaN.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kCount = 2 * 3 * 5 * 7;
// end constants

// region plain
struct Activation {
  const char* name;
  cudnnActivationMode_t mode;
  double coefficient;  // the ceiling of clipped relu, alpha of elu, beta of swish
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double plain(const Activation& a, double x) {
  switch (a.mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return sigmoid(x);
    case CUDNN_ACTIVATION_RELU:
      return std::max(0.0, x);
    case CUDNN_ACTIVATION_TANH:
      return std::tanh(x);
    case CUDNN_ACTIVATION_CLIPPED_RELU:
      return std::min(std::max(0.0, x), a.coefficient);
    case CUDNN_ACTIVATION_ELU:
      return x > 0 ? x : a.coefficient * std::expm1(x);
    default:
      return x * sigmoid(a.coefficient * x);  // swish
  }
}

/// The slope by differences: no formula to get wrong. None of our x lies at a corner.
double slope(const Activation& a, double x) {
  return (plain(a, x + 1e-5) - plain(a, x - 1e-5)) / 2e-5;
}
// end plain

void teach() {
  const lesson::Handle cudnn;
  const lesson::TensorDescriptor tensor;
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 5, 7));
  const lesson::ActivationDescriptor activation;

  // region memory
  std::vector<float> x = lesson::random_values(kCount, 1);
  for (float& value : x) value *= 4;
  const std::vector<float> dy = lesson::random_values(kCount, 2);
  const lesson::Array<float> xs(x), dys(dy), ys(kCount), dxs(kCount);
  const float one = 1, zero = 0;
  // end memory

  // region both
  const Activation all[] = {{"sigmoid", CUDNN_ACTIVATION_SIGMOID, 0},
                            {"relu", CUDNN_ACTIVATION_RELU, 0},
                            {"tanh", CUDNN_ACTIVATION_TANH, 0},
                            {"clipped relu", CUDNN_ACTIVATION_CLIPPED_RELU, 1.5},
                            {"elu", CUDNN_ACTIVATION_ELU, 0.7},
                            {"swish", CUDNN_ACTIVATION_SWISH, 1.3}};
  for (const Activation& a : all) {
    CHECK(cudnnSetActivationDescriptor(activation, a.mode, CUDNN_PROPAGATE_NAN, a.coefficient));
    if (a.mode == CUDNN_ACTIVATION_SWISH) {
      CHECK(cudnnSetActivationDescriptorSwishBeta(activation, a.coefficient));
    }
    CHECK(cudnnActivationForward(cudnn, activation, &one, tensor, xs.data(), &zero, tensor,
                                 ys.data()));
    CHECK(cudnnActivationBackward(cudnn, activation, &one, tensor, ys.data(), tensor, dys.data(),
                                  tensor, xs.data(), &zero, tensor, dxs.data()));
    std::vector<double> y, dx;
    for (int i = 0; i < kCount; ++i) {
      y.push_back(plain(a, x[i]));
      dx.push_back(slope(a, x[i]) * dy[i]);
    }
    std::printf("%s\n", a.name);
    lesson::compare(" y", ys.host(), y, 1e-5);
    lesson::compare(" dx", dxs.host(), dx, 1e-4);
  }
  // end both

  // region in_place
  CHECK(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
  const lesson::Array<float> place(x);
  CHECK(cudnnActivationForward(cudnn, activation, &one, tensor, place.data(), &zero, tensor,
                               place.data()));
  std::vector<double> positive;
  for (const float value : x) positive.push_back(std::max(0.0f, value));
  lesson::compare("relu in place", place.host(), positive);
  // end in_place

  // region nan
  std::vector<float> sick = x;
  sick[7] = NAN;
  positive[7] = NAN;
  const lesson::Array<float> sicks(sick);
  CHECK(cudnnActivationForward(cudnn, activation, &one, tensor, sicks.data(), &zero, tensor,
                               ys.data()));
  lesson::compare("relu with CUDNN_PROPAGATE_NAN", ys.host(), positive);
  CHECK(
      cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
  CHECK(cudnnActivationForward(cudnn, activation, &one, tensor, sicks.data(), &zero, tensor,
                               ys.data()));
  std::printf("relu of NaN with CUDNN_NOT_PROPAGATE_NAN: %g\n", ys.host()[7]);
  // end nan

  // region wrong
  CHECK(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN,
                                     0));
  SHOULD_FAIL(
      cudnnActivationForward(cudnn, activation, &one, tensor, xs.data(), &zero, tensor, ys.data()),
      CUDNN_STATUS_BAD_PARAM);
  // end wrong
}

int main() {
  return lesson::run("Lesson 08: activations",
                     "Runs every activation of cuDNN forward and backward, relu in place, and relu "
                     "of a NaN.",
                     teach);
}
