// Lesson 14, exercise 1: a GRU: three gates, no c, and a reset gate that acts on a sum.
#define main main_of_the_lesson
#include "rnn.cpp"
#undef main

// region plain
/// Gates 0 to 2 act on x and 3 to 5 on h: reset, update, candidate.
Expected plain_gru(const Values& x, const Values& h0, const Values& w,
                   const std::vector<Gate>& gates) {
  Expected e{std::vector<double>(kT * kStates, kPadding), {h0.begin(), h0.end()}, {}};
  for (int n = 0; n < kN; ++n) {
    for (int t = 0; t < kSteps[n]; ++t) {
      const std::vector<double> now(&x[(t * kN + n) * kX], &x[(t * kN + n) * kX] + kX);
      const std::vector<double> before(&e.h[n * kH], &e.h[n * kH] + kH);
      for (int j = 0; j < kH; ++j) {
        double from_x[3], from_h[3];
        for (int g = 0; g < 3; ++g) {
          from_x[g] = row(w, gates[g], j, now);
          from_h[g] = row(w, gates[g + 3], j, before);
        }
        const double reset = sigmoid(from_x[0] + from_h[0]);
        const double update = sigmoid(from_x[1] + from_h[1]);
        const double candidate = std::tanh(from_x[2] + reset * from_h[2]);
        e.h[n * kH + j] = (1 - update) * candidate + update * before[j];
        e.y[(t * kN + n) * kH + j] = e.h[n * kH + j];
      }
    }
  }
  return e;
}
// end plain

void answer() {
  const lesson::Handle cudnn;
  const Layer layer(cudnn, CUDNN_GRU);
  size_t weight_bytes = 0, work_bytes = 0, reserve_bytes = 0;
  CHECK(cudnnGetRNNWeightSpaceSize(cudnn, layer.rnn, &weight_bytes));
  CHECK(cudnnGetRNNTempSpaceSizes(cudnn, layer.rnn, CUDNN_FWD_MODE_INFERENCE, layer.x, &work_bytes,
                                  &reserve_bytes));
  const auto w = lesson::random_values(weight_bytes / sizeof(float), 1);
  const auto x = lesson::random_values(kT * kN * kX, 2), h0 = lesson::random_values(kStates, 3);
  const lesson::Array<float> ws(w), xs(x), h0s(h0), ys(kT * kStates), hs(kStates);
  const lesson::Array<int> lengths(kSteps);
  const lesson::Array<char> workspace(work_bytes), reserve(reserve_bytes);
  // region answer
  const std::vector<Gate> gates = find_gates(cudnn, layer, ws, 6);
  CHECK(cudnnRNNForward(cudnn, layer.rnn, CUDNN_FWD_MODE_INFERENCE, lengths.data(), layer.x,
                        xs.data(), layer.y, ys.data(), layer.state, h0s.data(), hs.data(),
                        layer.state, nullptr, nullptr, weight_bytes, ws.data(), work_bytes,
                        workspace.data(), reserve_bytes, reserve.data()));
  // end answer
  const Expected e = plain_gru(x, h0, w, gates);
  lesson::compare("y", ys.host(), e.y, 5e-5);
  lesson::compare("h after each sequence's last step", hs.host(), e.h, 5e-5);
}

int main() { return lesson::run("Lesson 14, answer 1", "A GRU.", answer); }
