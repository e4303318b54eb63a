// Lesson 13, exercise 1: the notes, time and error of every engine that is proposed.
#include <set>

#define main main_of_the_lesson
#include "graph_api.cpp"
#undef main

// region notes
using Note = cudnnBackendNumericalNote_t;

/// What the engine of a configuration does to numbers.
std::vector<Note> notes_of(const Part& configuration) {
  const std::vector<Part> engine =
      configuration.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  std::vector<Note> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  int64_t count = 0;
  CHECK(cudnnBackendGetAttribute(engine[0].get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, std::ssize(notes), &count,
                                 notes.data()));
  notes.resize(count);
  return notes;
}

const char* text_of(Note note) {
  static const char* const texts[] = {
      "tensor cores", "narrows its inputs", "sums in reduced precision",
      "FFT",          "not deterministic",  "Winograd",
      "Winograd 4x4", "Winograd 6x6",       "Winograd 13x13",
      "NaN goes on"};
  return note < std::ssize(texts) ? texts[note] : "newer than this";
}
// end notes

// region proposals
/// What two of the heuristics propose, each in its order.
std::vector<Part> proposals(const Part& graph) {
  std::vector<Part> all;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const Part heuristics = Part(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                                .set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
                                .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
                                .finalize();
    for (Part& configuration :
         heuristics.parts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 64)) {
      all.push_back(std::move(configuration));
    }
  }
  return all;
}
// end proposals

void answer() {
  const lesson::Handle cudnn;
  const Part tx = tensor(1, kN, kC, kH, kH), tw = tensor(2, kK, kC, kR, kR);
  const Part ty = tensor(3, kN, kK, kH, kH), convolution = convolve(tx, tw, ty);
  const Part graph = Part(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                         .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, convolution.get())
                         .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn.get())
                         .finalize();
  const auto x = lesson::random_values(kN * kH * kH * kC, 1);
  const auto w = lesson::random_values(kK * kR * kR * kC, 2);
  const std::vector<double> expected = plain(x, w);
  const lesson::Array<float> xs(x), ws(w);
  Part plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  // region answer
  std::set<long long> seen;  // of each engine one configuration, the best
  for (const Part& configuration : proposals(graph)) {
    if (seen.count(lesson::engine_of(configuration)) != 0) continue;
    if (compile(cudnn, configuration, plan) != CUDNN_STATUS_SUCCESS) continue;
    seen.insert(lesson::engine_of(configuration));
    const lesson::Array<float> ys(expected.size());  // NaN until the plan writes it
    const lesson::Array<char> workspace(plan.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    const double us = lesson::microseconds([&] {
      CHECK(execute(cudnn, plan, {1, 2, 3}, {xs.data(), ws.data(), ys.data()}, workspace.data()));
    });
    std::printf("engine %lld, %.1f us:", lesson::engine_of(configuration), us);
    bool narrow = false;
    for (const Note note : notes_of(configuration)) {
      std::printf(" %s;", text_of(note));
      narrow = narrow || note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
               note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    }
    std::printf("\n");
    lesson::compare(narrow ? " TF32" : " float32", ys.host(), expected, narrow ? 0.1 : 1e-3);
  }
  // end answer
}

int main() {
  return lesson::run("Lesson 13, answer 1", "Every engine that is proposed, and its notes.",
                     answer);
}
