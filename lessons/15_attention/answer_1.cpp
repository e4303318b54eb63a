// Lesson 15, exercise 1: a causal window: query i sees the keys up to its own place.
#define main main_of_the_lesson
#include "attention.cpp"
#undef main

void answer() {
  // region answer
  std::vector<int> to_itself;
  for (int i = 0; i < kQ; ++i) to_itself.push_back(i + 1);  // the end does not belong to the window
  attend(kFromFirst, to_itself, [](auto, auto) {});
  // end answer
}

int main() { return lesson::run("Lesson 15, answer 1", "Attention with a causal window.", answer); }
