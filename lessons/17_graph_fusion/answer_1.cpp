// Lesson 17, exercise 1: a residual sum in the graph: relu(convolution(x) + b + z).
#define main main_of_the_lesson
#include "graph_fusion.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  // region answer
  const Part tx = tensor(1, kN, kC, kH), tw = tensor(2, kK, kC, 1), tb = tensor(3, 1, kK, 1);
  const Part tz = tensor(4, kN, kK, kH), ty = tensor(5, kN, kK, kH);
  const Part sum = tensor(6, kN, kK, kH, true), biased = tensor(7, kN, kK, kH, true);
  const Part total = tensor(8, kN, kK, kH, true);
  const Part convolution = convolve(tx, tw, sum);
  const Part add_b = pointwise(CUDNN_POINTWISE_ADD, sum, &tb, biased);
  const Part add_z = pointwise(CUDNN_POINTWISE_ADD, biased, &tz, total);
  const Part relu = pointwise(CUDNN_POINTWISE_RELU_FWD, total, nullptr, ty);
  Part plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  CHECK(make_plan(cudnn, {convolution.get(), add_b.get(), add_z.get(), relu.get()}, plan));
  // end answer
  const auto x = lesson::random_values(kN * kH * kH * kC, 1);
  const auto w = lesson::random_values(kK * kC, 2), b = lesson::random_values(kK, 3);
  const auto z = lesson::random_values(kN * kH * kH * kK, 4);
  const lesson::Array<__half> xs(lesson::halves(x)), ws(lesson::halves(w)), bs(lesson::halves(b));
  const lesson::Array<__half> zs(lesson::halves(z)), ys(z.size());
  const lesson::Array<char> workspace(plan.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  CHECK(execute(cudnn, plan, {1, 2, 3, 4, 5},
                {xs.data(), ws.data(), bs.data(), zs.data(), ys.data()}, workspace.data()));
  std::vector<double> expected = plain(x, w, b);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = std::max(0.0, expected[i] + z[i]);
  lesson::compare("relu(convolution(x) + b + z)", lesson::floats(ys.host()), expected, 0.02);
}

int main() {
  return lesson::run("Lesson 17, answer 1", "A residual sum as one more operation.", answer,
                     {8, 0, "cuDNN compiles fused kernels for Ampere and newer"});
}
