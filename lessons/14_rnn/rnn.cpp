// Lesson 14: an LSTM: data descriptors with lengths, the weight space, and where each gate lies in it.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kT = 5, kN = 3, kX = 6, kH = 7;  // steps, sequences, values of x and of h
const std::vector<int> kSteps = {5, 2, 4};     // steps that each sequence has
constexpr auto kLayout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
constexpr float kPadding = 0;  // what y gets in the steps that are padding
const size_t kStates = static_cast<size_t>(kN) * kH;
// end constants

// region plain
using Values = std::vector<float>;

/// Matrix and bias of one gate: where they begin in the weight space, counted in floats.
struct Gate {
  ptrdiff_t matrix = 0, bias = 0;
};

double sigmoid(double value) { return 1 / (1 + std::exp(-value)); }

/// Row j of one gate: its matrix times `from`, and its bias.
double row(const Values& weights, const Gate& gate, int j, const std::vector<double>& from) {
  const float* matrix = &weights[gate.matrix + j * from.size()];
  double sum = weights[gate.bias + j];
  for (size_t i = 0; i < from.size(); ++i) sum += matrix[i] * from[i];
  return sum;
}

struct Expected {
  std::vector<double> y, h, c;
};

/// Gates 0 to 3 act on x and 4 to 7 on h: input, forget, candidate, output.
Expected plain(const Values& x, const Values& h0, const Values& c0, const Values& w,
               const std::vector<Gate>& gates) {
  Expected e{
      std::vector<double>(kT * kStates, kPadding), {h0.begin(), h0.end()}, {c0.begin(), c0.end()}};
  for (int n = 0; n < kN; ++n) {
    for (int t = 0; t < kSteps[n]; ++t) {
      const std::vector<double> now(&x[(t * kN + n) * kX], &x[(t * kN + n) * kX] + kX);
      const std::vector<double> before(&e.h[n * kH], &e.h[n * kH] + kH);
      for (int j = 0; j < kH; ++j) {
        const auto gate = [&](int g) {
          return row(w, gates[g], j, now) + row(w, gates[g + 4], j, before);
        };
        double& c = e.c[n * kH + j];
        c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * std::tanh(gate(2));
        e.h[n * kH + j] = sigmoid(gate(3)) * std::tanh(c);
        e.y[(t * kN + n) * kH + j] = e.h[n * kH + j];
      }
    }
  }
  return e;
}
// end plain

// region descriptors
/// All that describes a layer of `mode`: what it computes, its sequences and its states.
struct Layer {
  Layer(cudnnHandle_t cudnn, cudnnRNNMode_t mode) {
    CHECK(cudnnSetDropoutDescriptor(dropout, cudnn, 0, nullptr, 0, 0));
    CHECK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, mode, CUDNN_RNN_DOUBLE_BIAS,
                                   CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT,
                                   CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, kX, kH, kH, 1, dropout,
                                   CUDNN_RNN_PADDED_IO_ENABLED));
    float pad = kPadding;
    CHECK(cudnnSetRNNDataDescriptor(x, CUDNN_DATA_FLOAT, kLayout, kT, kN, kX, kSteps.data(), &pad));
    CHECK(cudnnSetRNNDataDescriptor(y, CUDNN_DATA_FLOAT, kLayout, kT, kN, kH, kSteps.data(), &pad));
    const int sizes[] = {1, kN, kH}, strides[] = {kN * kH, kH, 1};  // layers, sequences, values
    CHECK(cudnnSetTensorNdDescriptor(state, CUDNN_DATA_FLOAT, 3, sizes, strides));
  }

  lesson::DropoutDescriptor dropout;  // between layers: of 0, which needs no states
  lesson::RNNDescriptor rnn;
  lesson::RNNDataDescriptor x, y;
  lesson::TensorDescriptor state;
};
// end descriptors

// region gates
/// Asks where the matrix and the bias of each of `count` gates lie.
std::vector<Gate> find_gates(cudnnHandle_t cudnn, const Layer& layer,
                             const lesson::Array<float>& weights, int count) {
  const lesson::TensorDescriptor shape, bias_shape;
  std::vector<Gate> gates;
  for (int id = 0; id < count; ++id) {
    void *matrix = nullptr, *bias = nullptr;
    CHECK(cudnnGetRNNWeightParams(cudnn, layer.rnn, 0, weights.bytes(), weights.data(), id, shape,
                                  &matrix, bias_shape, &bias));
    cudnnDataType_t type;
    int dimensions = 0, size[3] = {}, stride[3] = {};
    CHECK(cudnnGetTensorNdDescriptor(shape, 3, &type, &dimensions, size, stride));
    gates.push_back(
        {static_cast<float*>(matrix) - weights.data(), static_cast<float*>(bias) - weights.data()});
    std::printf("%d: matrix of %d x %d at float %td, bias at %td\n", id, size[1], size[2],
                gates.back().matrix, gates.back().bias);
  }
  return gates;
}
// end gates

void teach() {
  const lesson::Handle cudnn;
  const Layer layer(cudnn, CUDNN_LSTM);
  // region sizes
  size_t weight_bytes = 0, work_bytes = 0, reserve_bytes = 0;
  CHECK(cudnnGetRNNWeightSpaceSize(cudnn, layer.rnn, &weight_bytes));
  CHECK(cudnnGetRNNTempSpaceSizes(cudnn, layer.rnn, CUDNN_FWD_MODE_INFERENCE, layer.x, &work_bytes,
                                  &reserve_bytes));
  std::printf("weights %zu, work %zu, reserve %zu bytes\n", weight_bytes, work_bytes,
              reserve_bytes);
  const auto w = lesson::random_values(weight_bytes / sizeof(float), 1);
  const lesson::Array<float> ws(w);
  const std::vector<Gate> gates = find_gates(cudnn, layer, ws, 8);
  // end sizes

  // region forward
  const auto x = lesson::random_values(kT * kN * kX, 2);
  const auto h0 = lesson::random_values(kStates, 3), c0 = lesson::random_values(kStates, 4);
  const lesson::Array<float> xs(x), h0s(h0), c0s(c0), ys(kT * kStates), hs(kStates), cs(kStates);
  const lesson::Array<int> lengths(kSteps);  // the same lengths as in the descriptors
  const lesson::Array<char> workspace(work_bytes), reserve(reserve_bytes);
  const auto forward = [&](size_t weights_given) {
    return cudnnRNNForward(cudnn, layer.rnn, CUDNN_FWD_MODE_INFERENCE, lengths.data(), layer.x,
                           xs.data(), layer.y, ys.data(), layer.state, h0s.data(), hs.data(),
                           layer.state, c0s.data(), cs.data(), weights_given, ws.data(), work_bytes,
                           workspace.data(), reserve_bytes, reserve.data());
  };
  CHECK(forward(weight_bytes));
  const Expected e = plain(x, h0, c0, w, gates);
  lesson::compare("y", ys.host(), e.y, 5e-5);
  lesson::compare("h after each sequence's last step", hs.host(), e.h, 5e-5);
  lesson::compare("c after each sequence's last step", cs.host(), e.c, 5e-5);
  // end forward

  // region wrong
  SHOULD_FAIL(forward(weight_bytes / 2), CUDNN_STATUS_BAD_PARAM);
  SHOULD_FAIL(cudnnSetRNNDataDescriptor(layer.x, CUDNN_DATA_FLOAT, kLayout, kT - 1, kN, kX,
                                        kSteps.data(), nullptr),
              CUDNN_STATUS_BAD_PARAM);
  // end wrong
}

int main() {
  return lesson::run("Lesson 14: an LSTM",
                     "Runs an LSTM over three sequences, and finds its matrices.", teach);
}
