// Lesson 12, exercise 1: mean and length of each channel by two reductions.
#define main main_of_the_lesson
#include "elementwise.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const lesson::TensorDescriptor tensor, channel;
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, kW));
  CHECK(cudnnSetTensor4dDescriptor(channel, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, kC, 1, 1));
  const auto a = lesson::random_values(kCount, 1);
  const lesson::Array<float> as(a), results(kC);
  const float one = 1, zero = 0;
  std::vector<double> means(kC), squares(kC);
  for (int i = 0; i < kCount; ++i) {
    means[channel_of(i)] += double(a[i]) / (kCount / kC);
    squares[channel_of(i)] += double(a[i]) * a[i];
  }
  for (double& value : squares) value = std::sqrt(value);
  // region answer
  const lesson::ReduceTensorDescriptor reduce;
  for (const auto kind : {CUDNN_REDUCE_TENSOR_AVG, CUDNN_REDUCE_TENSOR_NORM2}) {
    CHECK(cudnnSetReduceTensorDescriptor(reduce, kind, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                         CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    size_t bytes = 0;
    CHECK(cudnnGetReductionWorkspaceSize(cudnn, reduce, tensor, channel, &bytes));
    const lesson::Array<char> workspace(bytes);
    CHECK(cudnnReduceTensor(cudnn, reduce, nullptr, 0, workspace.data(), bytes, &one, tensor,
                            as.data(), &zero, channel, results.data()));
    const bool mean = kind == CUDNN_REDUCE_TENSOR_AVG;
    lesson::compare(mean ? "mean of each channel" : "length of each channel", results.host(),
                    mean ? means : squares, 1e-5);
  }
  // end answer
}

int main() {
  return lesson::run("Lesson 12, answer 1", "Reductions to one value a channel.", answer);
}
