// Lesson 02, exercise 1: two tensors side by side along C, by strides alone.
#define main main_of_the_lesson
#include "tensors.cpp"
#undef main

void answer() {
  cudnnHandle_t cudnn;
  CHECK(cudnnCreate(&cudnn));
  cudnnTensorDescriptor_t part, view;
  CHECK(cudnnCreateTensorDescriptor(&part));
  CHECK(cudnnCreateTensorDescriptor(&view));
  const float one = 1, zero = 0;
  const int image = kH * kW;
  const int channels[2] = {kC, 2};
  const lesson::Array<float> whole(kN * (kC + 2) * image);
  std::vector<float> expected(whole.size());
  // region answer
  int first = 0;  // channel of the whole at which the part begins
  for (const int c : channels) {
    const std::vector<float> x = lesson::random_values(kN * c * image, c);
    const lesson::Array<float> memory(x);
    CHECK(cudnnSetTensor4dDescriptor(part, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, c, kH, kW));
    // The part's sizes, with the whole's strides.
    CHECK(cudnnSetTensor4dDescriptorEx(view, CUDNN_DATA_FLOAT, kN, c, kH, kW, (kC + 2) * image,
                                       image, kW, 1));
    CHECK(cudnnTransformTensor(cudnn, &one, part, memory.data(), &zero, view,
                               whole.data() + first * image));
    for (int n = 0; n < kN; ++n) {
      for (int i = 0; i < c * image; ++i) {
        expected[(n * (kC + 2) + first) * image + i] = x[n * c * image + i];
      }
    }
    CHECK(cudaDeviceSynchronize());  // before `memory` goes
    first += c;
  }
  lesson::compare("3 and 2 channels side by side", whole.host(), expected);
  // end answer
  CHECK(cudnnDestroyTensorDescriptor(view));
  CHECK(cudnnDestroyTensorDescriptor(part));
  CHECK(cudnnDestroy(cudnn));
}

int main() {
  return lesson::run("Lesson 02, answer 1", "Concatenates along C with cudnnTransformTensor.",
                     answer);
}
