// Lesson 11, exercise 1: a training that goes on after a checkpoint draws the masks it would have drawn.
#define main main_of_the_lesson
#include "dropout.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const lesson::TensorDescriptor tensor;
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 100, 100, 1, 1));
  size_t state_bytes = 0, mask_bytes = 0;
  CHECK(cudnnDropoutGetStatesSize(cudnn, &state_bytes));
  CHECK(cudnnDropoutGetReserveSpaceSize(tensor, &mask_bytes));
  const lesson::Array<char> states(state_bytes), mask(mask_bytes);
  const lesson::Array<float> ones(std::vector<float>(kCount, 1.0f)), ys(kCount);
  const lesson::DropoutDescriptor dropout;
  CHECK(cudnnSetDropoutDescriptor(dropout, cudnn, kDropped, states.data(), state_bytes, kSeed));
  const auto draw = [&](cudnnDropoutDescriptor_t by) {
    CHECK(cudnnDropoutForward(cudnn, by, tensor, ones.data(), tensor, ys.data(), mask.data(),
                              mask_bytes));
    return mask_of(ys.host());
  };
  // region answer
  draw(dropout);
  const std::vector<char> saved = states.host();  // into the checkpoint
  const std::vector<bool> next = draw(dropout), after = draw(dropout);

  const lesson::Array<char> restored(saved);  // another process would begin here
  const lesson::DropoutDescriptor resumed;
  // Set would draw new states from the seed; Restore takes those that are there.
  CHECK(
      cudnnRestoreDropoutDescriptor(resumed, cudnn, kDropped, restored.data(), state_bytes, kSeed));
  lesson::expect("the next mask is the same", draw(resumed) == next);
  lesson::expect("so is the one after it", draw(resumed) == after);
  // end answer
}

int main() { return lesson::run("Lesson 11, answer 1", "Saves and restores the states.", answer); }
