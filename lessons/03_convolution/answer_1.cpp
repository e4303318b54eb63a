// Lesson 03, exercise 1: a depthwise convolution, which has one filter for each channel.
#define main main_of_the_lesson
#include "convolution.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  // region answer
  // As many groups as channels; k = 2 c would give every channel two filters.
  check(cudnn, {.name = "depthwise", .c = 8, .k = 8, .pad = 1, .groups = 8});
  check(cudnn, {.name = "depthwise, 2 a channel", .c = 8, .k = 16, .pad = 1, .groups = 8});
  // end answer
}

int main() { return lesson::run("Lesson 03, answer 1", "Depthwise convolutions.", answer); }
