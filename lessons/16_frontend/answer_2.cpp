// Lesson 16, exercise 2: is the plan that the heuristics put first the fastest?
#define main main_of_the_lesson
#include "frontend.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const auto x = lesson::random_values(kN * kH * kH * kC, 1);
  const auto w = lesson::random_values(kK * kC, 2), b = lesson::random_values(kK, 3);
  const lesson::Array<__half> xs(lesson::halves(x)), ws(lesson::halves(w)), bs(lesson::halves(b));
  std::vector<double> expected = plain(x, w, b);
  for (double& value : expected) value = std::max(0.0, value);

  fe::graph::Graph graph;
  set_types(graph);
  const Tensor tx = input(graph, "x", kN, kC, kH), tw = input(graph, "w", kK, kC, 1);
  const Tensor tb = input(graph, "b", 1, kK, 1);
  const Tensor ty = relu(graph, add(graph, convolve(graph, tx, tw), tb));
  ty->set_output(true);
  // region answer
  CHECK(graph.validate());
  CHECK(graph.build_operation_graph(cudnn));
  CHECK(graph.create_execution_plans({fe::HeurMode_t::A}));
  CHECK(graph.check_support());
  const int64_t plans = std::min<int64_t>(graph.get_execution_plan_count(), 8);
  for (int64_t i = 0; i < plans; ++i) {
    if (graph.build_plan_at_index(i).is_bad()) continue;  // it does not compile for this GPU
    std::string name;
    CHECK(graph.get_plan_name_at_index(i, name));
    const lesson::Array<__half> ys(expected.size());  // NaN until the plan writes it
    const lesson::Array<char> workspace(
        static_cast<size_t>(graph.get_workspace_size_plan_at_index(i)));
    std::unordered_map<Tensor, void*> memory = {
        {tx, xs.data()}, {tw, ws.data()}, {tb, bs.data()}, {ty, ys.data()}};
    const double us = lesson::microseconds(
        [&] { CHECK(graph.execute_plan_at_index(cudnn, memory, workspace.data(), i)); });
    lesson::compare(name.c_str(), lesson::floats(ys.host()), expected, 0.02);
    std::printf("  plan %lld: %.1f us\n", static_cast<long long>(i), us);
  }
  // end answer
}

int main() {
  return lesson::run("Lesson 16, answer 2", "Builds and times the first plans one by one.", answer,
                     {8, 0, "cuDNN compiles fused kernels for Ampere and newer"});
}
