// Lesson 12: tensors combined value by value, spread over another's sizes, scaled, filled and reduced.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kN = 2, kC = 3, kH = 4, kW = 5, kCount = kN * kC * kH * kW;
// end constants

int channel_of(int i) { return i / (kH * kW) % kC; }

void teach() {
  const lesson::Handle cudnn;
  const lesson::TensorDescriptor tensor, channel, rows;
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, kW));
  CHECK(cudnnSetTensor4dDescriptor(channel, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, kC, 1, 1));
  CHECK(cudnnSetTensor4dDescriptor(rows, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, 1));
  // region memory
  std::vector<float> a = lesson::random_values(kCount, 1);
  for (float& value : a) value += 1.5f;  // positive, for the root
  const auto b = lesson::random_values(kCount, 2), c = lesson::random_values(kC, 3);
  const lesson::Array<float> as(a), bs(b), cs(c), ys(kCount);
  const float one = 1, zero = 0, two = 2, half = 0.5f;
  // end memory

  // region op
  const lesson::OpTensorDescriptor op;
  const struct {
    const char* name;
    cudnnOpTensorOp_t op;
    double (*plain)(double, double);
  } ops[] = {{"2 a + b / 2", CUDNN_OP_TENSOR_ADD, [](double p, double q) { return p + q; }},
             {"2 a * b / 2", CUDNN_OP_TENSOR_MUL, [](double p, double q) { return p * q; }},
             {"min", CUDNN_OP_TENSOR_MIN, [](double p, double q) { return std::min(p, q); }},
             {"max", CUDNN_OP_TENSOR_MAX, [](double p, double q) { return std::max(p, q); }},
             {"sqrt(2 a)", CUDNN_OP_TENSOR_SQRT, [](double p, double) { return std::sqrt(p); }},
             {"1 - 2 a", CUDNN_OP_TENSOR_NOT, [](double p, double) { return 1 - p; }}};
  for (const auto& [name, kind, plain] : ops) {
    CHECK(cudnnSetOpTensorDescriptor(op, kind, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
    CHECK(cudnnOpTensor(cudnn, op, &two, tensor, as.data(), &half, tensor, bs.data(), &zero, tensor,
                        ys.data()));
    std::vector<double> expected;
    for (int i = 0; i < kCount; ++i) expected.push_back(plain(2 * double(a[i]), 0.5 * b[i]));
    lesson::compare(name, ys.host(), expected, 1e-6);
  }
  // end op

  // region spread
  CHECK(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
  CHECK(cudnnOpTensor(cudnn, op, &one, tensor, as.data(), &one, channel, cs.data(), &zero, tensor,
                      ys.data()));
  std::vector<double> expected;
  for (int i = 0; i < kCount; ++i) expected.push_back(double(a[i]) * c[channel_of(i)]);
  lesson::compare("a times a factor for each channel", ys.host(), expected, 1e-6);
  CHECK(cudnnAddTensor(cudnn, &one, channel, cs.data(), &one, tensor, ys.data()));
  for (int i = 0; i < kCount; ++i) expected[i] += c[channel_of(i)];
  lesson::compare("plus a bias for each channel", ys.host(), expected, 1e-6);
  // end spread

  // region scale
  CHECK(cudnnScaleTensor(cudnn, tensor, ys.data(), &half));
  for (double& value : expected) value *= 0.5;
  lesson::compare("half of it", ys.host(), expected, 1e-6);
  CHECK(cudnnSetTensor(cudnn, tensor, ys.data(), &two));
  lesson::compare("filled with 2", ys.host(), std::vector<float>(kCount, 2));
  // end scale

  // region reduce
  // Sizes that are 1 in the result are reduced. Here W: the largest of each row, and where it was.
  const lesson::ReduceTensorDescriptor reduce;
  CHECK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_MAX, CUDNN_DATA_FLOAT,
                                       CUDNN_PROPAGATE_NAN, CUDNN_REDUCE_TENSOR_FLATTENED_INDICES,
                                       CUDNN_32BIT_INDICES));
  size_t bytes = 0, index_bytes = 0;
  CHECK(cudnnGetReductionWorkspaceSize(cudnn, reduce, tensor, rows, &bytes));
  CHECK(cudnnGetReductionIndicesSize(cudnn, reduce, tensor, rows, &index_bytes));
  std::printf("a reduction: %zu bytes of workspace, %zu bytes of indices\n", bytes, index_bytes);
  const lesson::Array<char> workspace(bytes);
  const lesson::Array<uint32_t> indices(index_bytes / sizeof(uint32_t));
  const lesson::Array<float> largest(kN * kC * kH);
  CHECK(cudnnReduceTensor(cudnn, reduce, indices.data(), index_bytes, workspace.data(), bytes, &one,
                          tensor, as.data(), &zero, rows, largest.data()));
  std::vector<float> values;
  std::vector<uint32_t> places;
  for (int i = 0; i < kCount; i += kW) {
    const auto best = std::max_element(a.begin() + i, a.begin() + i + kW);
    values.push_back(*best);
    places.push_back(static_cast<uint32_t>(best - (a.begin() + i)));
  }
  std::vector<uint32_t> found = indices.host();
  found.resize(places.size());
  lesson::compare("largest of each row", largest.host(), values);
  lesson::compare("where it was", found, places);
  // end reduce

  // region wrong
  CHECK(cudnnSetTensor4dDescriptor(channel, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, kC - 1, 1, 1));
  SHOULD_FAIL(cudnnAddTensor(cudnn, &one, channel, cs.data(), &one, tensor, ys.data()),
              CUDNN_STATUS_BAD_PARAM);
  SHOULD_FAIL(cudnnReduceTensor(cudnn, reduce, indices.data(), index_bytes / 2, workspace.data(),
                                bytes, &one, tensor, as.data(), &zero, rows, largest.data()),
              CUDNN_STATUS_BAD_PARAM);
  // end wrong
}

int main() {
  return lesson::run("Lesson 12: value by value",
                     "Combines two tensors in six ways, spreads a value of each channel over an "
                     "image, scales, fills and reduces.",
                     teach);
}
