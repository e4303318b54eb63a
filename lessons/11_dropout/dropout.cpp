// Lesson 11: dropout: the states of its generator, and the mask that forward leaves for backward.
#include <cudnn.h>

#include "../lesson.h"

constexpr int kCount = 100 * 100;
constexpr float kDropped = 0.3f;
constexpr unsigned long long kSeed = 42;

// region plain
/// What forward and backward do to values, given the mask.
std::vector<double> plain(const std::vector<float>& values, const std::vector<bool>& kept) {
  std::vector<double> result;
  for (size_t i = 0; i < values.size(); ++i) {
    result.push_back(kept[i] ? values[i] / (1.0 - kDropped) : 0.0);  // so that the mean stays
  }
  return result;
}
// end plain

/// The mask, from what dropout made of ones.
std::vector<bool> mask_of(const std::vector<float>& y) {
  std::vector<bool> kept;
  for (const float value : y) kept.push_back(value != 0);
  return kept;
}

void teach() {
  const lesson::Handle cudnn;
  const lesson::TensorDescriptor tensor;
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 100, 100, 1, 1));

  // region set
  size_t state_bytes = 0, mask_bytes = 0;
  CHECK(cudnnDropoutGetStatesSize(cudnn, &state_bytes));
  CHECK(cudnnDropoutGetReserveSpaceSize(tensor, &mask_bytes));
  const lesson::Array<char> states(state_bytes), mask(mask_bytes);
  const lesson::DropoutDescriptor dropout;
  const double us = lesson::microseconds(
      [&] {
        CHECK(
            cudnnSetDropoutDescriptor(dropout, cudnn, kDropped, states.data(), state_bytes, kSeed));
      },
      nullptr, 2);
  std::printf("states: %zu bytes, set in %.0f us; mask of %d values: %zu bytes\n", state_bytes, us,
              kCount, mask_bytes);
  // end set

  // region same
  const lesson::Array<float> ones(std::vector<float>(kCount, 1.0f)), ys(kCount), dxs(kCount);
  const auto draw = [&] {
    CHECK(cudnnDropoutForward(cudnn, dropout, tensor, ones.data(), tensor, ys.data(), mask.data(),
                              mask_bytes));
    return mask_of(ys.host());
  };
  const std::vector<bool> first = draw(), second = draw();  // each draw advances the states
  CHECK(cudnnSetDropoutDescriptor(dropout, cudnn, kDropped, states.data(), state_bytes, kSeed));
  lesson::expect("a second mask differs from the first", second != first);
  lesson::expect("the same seed draws the first mask again", draw() == first);
  const double kept = static_cast<double>(std::count(first.begin(), first.end(), true)) / kCount;
  std::printf("kept: %.1f%%, asked for %.1f%%\n", 100 * kept, 100 * (1 - kDropped));
  lesson::expect("about as many are kept as asked for", std::fabs(kept - (1 - kDropped)) < 0.03);
  // end same

  // region both
  const auto x = lesson::random_values(kCount, 1), dy = lesson::random_values(kCount, 2);
  const lesson::Array<float> xs(x), dys(dy);
  CHECK(cudnnSetDropoutDescriptor(dropout, cudnn, kDropped, states.data(), state_bytes, kSeed));
  CHECK(cudnnDropoutForward(cudnn, dropout, tensor, xs.data(), tensor, ys.data(), mask.data(),
                            mask_bytes));
  CHECK(cudnnDropoutBackward(cudnn, dropout, tensor, dys.data(), tensor, dxs.data(), mask.data(),
                             mask_bytes));
  lesson::compare("y", ys.host(), plain(x, first), 1e-6);
  lesson::compare("dx, by the same mask", dxs.host(), plain(dy, first), 1e-6);
  // end both

  // region wrong
  SHOULD_FAIL(
      cudnnSetDropoutDescriptor(dropout, cudnn, kDropped, states.data(), state_bytes / 2, kSeed),
      CUDNN_STATUS_BAD_PARAM);
  SHOULD_FAIL(cudnnDropoutForward(cudnn, dropout, tensor, xs.data(), tensor, ys.data(), mask.data(),
                                  mask_bytes / 2),
              CUDNN_STATUS_BAD_PARAM);
  // end wrong
}

int main() {
  return lesson::run("Lesson 11: dropout",
                     "Draws masks from one seed, and goes backward through the mask that forward "
                     "left.",
                     teach);
}
