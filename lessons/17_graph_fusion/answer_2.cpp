// Lesson 17, exercise 2: what the bias and relu cost inside the convolution's kernel.
#define main main_of_the_lesson
#include "graph_fusion.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const auto x = lesson::random_values(kN * kH * kH * kC, 1);
  const auto w = lesson::random_values(kK * kC, 2);
  const std::vector<float> b(kK, 0.25f);
  const lesson::Array<__half> xs(lesson::halves(x)), ws(lesson::halves(w)), bs(lesson::halves(b));
  const lesson::Array<__half> ys(static_cast<size_t>(kN) * kH * kH * kK);
  // region answer
  const Part tx = tensor(1, kN, kC, kH), tw = tensor(2, kK, kC, 1), tb = tensor(3, 1, kK, 1);
  const Part ty = tensor(4, kN, kK, kH);
  const Part sum = tensor(5, kN, kK, kH, true), biased = tensor(6, kN, kK, kH, true);
  const Part to_memory = convolve(tx, tw, ty);  // alone
  const Part convolution = convolve(tx, tw, sum);
  const Part add = pointwise(CUDNN_POINTWISE_ADD, sum, &tb, biased);
  const Part relu = pointwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, ty);
  Part alone(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  Part fused(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  CHECK(make_plan(cudnn, {to_memory.get()}, alone));
  CHECK(make_plan(cudnn, {convolution.get(), add.get(), relu.get()}, fused));
  const lesson::Array<char> room(alone.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  const lesson::Array<char> more_room(fused.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  const double fused_us = lesson::microseconds([&] {
    CHECK(execute(cudnn, fused, {1, 2, 3, 4}, {xs.data(), ws.data(), bs.data(), ys.data()},
                  more_room.data()));
  });
  const std::vector<float> y = lesson::floats(ys.host());
  const double alone_us = lesson::microseconds([&] {
    CHECK(execute(cudnn, alone, {1, 2, 4}, {xs.data(), ws.data(), ys.data()}, room.data()));
  });
  std::printf("convolution alone %.1f us, with bias and relu %.1f us\n", alone_us, fused_us);
  // end answer
  const std::vector<float> no_bias(kK, 0);
  lesson::compare("convolution alone", lesson::floats(ys.host()), plain(x, w, no_bias), 0.02);
  std::vector<double> expected = plain(x, w, b);
  for (double& value : expected) value = std::max(0.0, value);
  lesson::compare("with bias and relu", y, expected, 0.02);
}

int main() {
  return lesson::run("Lesson 17, answer 2", "The convolution alone, and with bias and relu.",
                     answer, {8, 0, "cuDNN compiles fused kernels for Ampere and newer"});
}
