// Lesson 16, exercise 1: a residual sum in the graph: relu(convolution(x) + b + z).
#define main main_of_the_lesson
#include "frontend.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const auto x = lesson::random_values(kN * kH * kH * kC, 1);
  const auto w = lesson::random_values(kK * kC, 2), b = lesson::random_values(kK, 3);
  const auto z = lesson::random_values(kN * kH * kH * kK, 4);
  const lesson::Array<__half> xs(lesson::halves(x)), ws(lesson::halves(w)), bs(lesson::halves(b));
  const lesson::Array<__half> zs(lesson::halves(z)), ys(z.size());
  // region answer
  fe::graph::Graph graph;
  set_types(graph);
  const Tensor tx = input(graph, "x", kN, kC, kH), tw = input(graph, "w", kK, kC, 1);
  const Tensor tb = input(graph, "b", 1, kK, 1), tz = input(graph, "z", kN, kK, kH);
  const Tensor ty = relu(graph, add(graph, add(graph, convolve(graph, tx, tw), tb), tz));
  ty->set_output(true);
  CHECK(build(cudnn, graph));
  // end answer
  print_plan(graph);
  const lesson::Array<char> workspace(graph.get_workspace_size());
  std::unordered_map<Tensor, void*> memory = {
      {tx, xs.data()}, {tw, ws.data()}, {tb, bs.data()}, {tz, zs.data()}, {ty, ys.data()}};
  CHECK(graph.execute(cudnn, memory, workspace.data()));
  std::vector<double> expected = plain(x, w, b);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = std::max(0.0, expected[i] + z[i]);
  }
  lesson::compare("relu(convolution(x) + b + z)", lesson::floats(ys.host()), expected, 0.02);
}

int main() {
  return lesson::run("Lesson 16, answer 1", "A residual sum as one more operation.", answer,
                     {8, 0, "cuDNN compiles fused kernels for Ampere and newer"});
}
