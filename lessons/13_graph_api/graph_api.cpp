// Lesson 13: cuDNN's graph API in C: convolution, bias and relu as one operation graph.
#include <cuda_fp16.h>
#include <cudnn.h>

#include <iterator>
#include <memory>
#include <utility>

#include "../lesson.h"

// region constants
constexpr int kN = 8, kC = 32, kH = 28, kK = 64, kR = 3;  // 3x3, padding 1, NHWC, half precision
// end constants

// region part
using Attribute = cudnnBackendAttributeName_t;

cudnnBackendAttributeType_t type_of(bool) { return CUDNN_TYPE_BOOLEAN; }
cudnnBackendAttributeType_t type_of(int64_t) { return CUDNN_TYPE_INT64; }
cudnnBackendAttributeType_t type_of(float) { return CUDNN_TYPE_FLOAT; }
cudnnBackendAttributeType_t type_of(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
cudnnBackendAttributeType_t type_of(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
cudnnBackendAttributeType_t type_of(cudnnConvolutionMode_t) { return CUDNN_TYPE_CONVOLUTION_MODE; }
cudnnBackendAttributeType_t type_of(cudnnPointwiseMode_t) { return CUDNN_TYPE_POINTWISE_MODE; }
cudnnBackendAttributeType_t type_of(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
cudnnBackendAttributeType_t type_of(cudnnBackendDescriptor_t) {
  return CUDNN_TYPE_BACKEND_DESCRIPTOR;
}

/// One descriptor: made, given its attributes, finalized; then it cannot change any more.
class Part {
 public:
  explicit Part(cudnnBackendDescriptorType_t type) {
    CHECK(cudnnBackendCreateDescriptor(type, &descriptor_));
  }
  Part(Part&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  ~Part() {
    if (descriptor_) (void)cudnnBackendDestroyDescriptor(descriptor_);
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <class T>
  Part&& set(Attribute name, T value) {
    CHECK(cudnnBackendSetAttribute(descriptor_, name, type_of(value), 1, &value));
    return std::move(*this);
  }
  template <class T>
  Part&& set(Attribute name, const std::vector<T>& values) {
    CHECK(cudnnBackendSetAttribute(descriptor_, name, type_of(values[0]),
                                   static_cast<int64_t>(values.size()), values.data()));
    return std::move(*this);
  }
  int64_t number(Attribute name) const {
    int64_t value = 0, count = 0;
    CHECK(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &value));
    return value;
  }
  Part&& finalize() {
    CHECK(cudnnBackendFinalize(descriptor_));
    return std::move(*this);
  }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};
// end part

// region tensor
/// Sizes n c h w in NHWC. A virtual tensor has no memory: it passes from operation to operation.
Part tensor(int64_t id, int64_t n, int64_t c, int64_t h, int64_t w, bool is_virtual = false) {
  return Part(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, is_virtual ? CUDNN_DATA_FLOAT : CUDNN_DATA_HALF)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>{n, c, h, w})
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<int64_t>{c * h * w, 1, c * w, c})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .finalize();
}
// end tensor

// region operations
Part convolve(const Part& x, const Part& w, const Part& y) {
  const std::vector<int64_t> ones = {1, 1};
  const Part how = Part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
                       .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
                       .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
                       .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
                       .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, ones)
                       .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, ones)
                       .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, ones)
                       .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, ones)
                       .finalize();
  return Part(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how.get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x.get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w.get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y.get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f)
      .finalize();
}
/// y = mode(x), or mode(x, b).
Part pointwise(cudnnPointwiseMode_t mode, const Part& x, const Part* b, const Part& y) {
  const Part how = Part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                       .set(CUDNN_ATTR_POINTWISE_MODE, mode)
                       .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                       .finalize();
  Part operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get())
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.get())
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.get());
  if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->get());
  return operation.finalize();
}
// end operations

// region notes
/// What an engine does to numbers, and what it needs: its notes.
void print_notes(const Part& engine) {
  static const char* const numerical[] = {
      "tensor cores", "narrows its inputs", "sums in reduced precision",
      "FFT",          "not deterministic",  "Winograd",
      "Winograd 4x4", "Winograd 6x6",       "Winograd 13x13",
      "NaN goes on"};
  static const char* const behavior[] = {"compiled when the plan is made",
                                         "filters reordered for int8", "bias reordered for int8",
                                         "makes CUDA graphs itself", "calls cuBLASLt"};
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  cudnnBackendBehaviorNote_t needs[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
  int64_t count = 0;
  CHECK(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, std::size(notes), &count, notes));
  std::printf("  its numerical notes:");
  for (int64_t i = 0; i < count; ++i) {
    std::printf(" %s;", notes[i] < std::size(numerical) ? numerical[notes[i]] : "newer than this");
  }
  CHECK(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                 CUDNN_TYPE_BEHAVIOR_NOTE, std::size(needs), &count, needs));
  std::printf("%s its behaviour:", count == 0 ? " none;" : "");
  for (int64_t i = 0; i < count; ++i) {
    std::printf(" %s;", needs[i] < std::size(behavior) ? behavior[needs[i]] : "newer than this");
  }
  std::printf("%s\n", count == 0 ? " no notes" : "");
}
// end notes

// region plan
/// Engine configurations as the heuristics order them; the first that compiles becomes `plan`.
cudnnStatus_t make_plan(cudnnHandle_t cudnn,
                        const std::vector<cudnnBackendDescriptor_t>& operations,
                        std::unique_ptr<Part>& plan) {
  Part graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations).set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn);
  cudnnStatus_t status = cudnnBackendFinalize(graph.get());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Part heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  status = cudnnBackendFinalize(heuristics.get());
  if (status != CUDNN_STATUS_SUCCESS) return status;

  std::vector<Part> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < 8; ++i) {
    raw.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  int64_t found = 0;
  CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()),
                                 &found, raw.data()));
  status = CUDNN_STATUS_NOT_SUPPORTED;
  for (int64_t i = 0; i < std::min<int64_t>(found, 8); ++i) {
    plan = std::make_unique<Part>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, cudnn)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, raw[i]);
    status = cudnnBackendFinalize(plan->get());
    if (status == CUDNN_STATUS_SUCCESS) {
      Part engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      cudnnBackendDescriptor_t into = engine.get();
      int64_t count = 0;
      CHECK(cudnnBackendGetAttribute(raw[i], CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &into));
      std::printf("%lld configurations; number %lld compiles: engine %lld, workspace %lld bytes\n",
                  static_cast<long long>(found), static_cast<long long>(i),
                  static_cast<long long>(engine.number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)),
                  static_cast<long long>(plan->number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)));
      print_notes(engine);
      return status;
    }
  }
  return status;
}
// end plan

// region run
/// Which memory each tensor's number stands for, this time; then the plan runs on it.
void execute(cudnnHandle_t cudnn, const Part& plan, const std::vector<int64_t>& ids,
             const std::vector<void*>& memory, void* workspace) {
  Part pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  CHECK(cudnnBackendSetAttribute(pack.get(), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                 CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(memory.size()),
                                 memory.data()));
  CHECK(cudnnBackendSetAttribute(pack.get(), CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                 1, &workspace));
  pack.finalize();
  CHECK(cudnnBackendExecute(cudnn, plan.get(), pack.get()));
}
// end run

std::vector<__half> halves(const std::vector<float>& values) {
  std::vector<__half> rounded;
  for (const float value : values) rounded.push_back(__float2half(value));
  return rounded;
}

/// The convolution in NHWC (filters K R S C), with bias and, if wanted, relu.
std::vector<double> plain(const std::vector<__half>& x, const std::vector<__half>& w,
                          const std::vector<__half>& b, bool relu) {
  std::vector<double> y;
  for (int i = 0; i < kN * kH * kH * kK; ++i) {
    const int n = i / (kH * kH * kK), p = i / (kH * kK) % kH, q = i / kK % kH, k = i % kK;
    double sum = __half2float(b[k]);
    for (int r = 0; r < kR; ++r) {
      for (int s = 0; s < kR; ++s) {
        const int row = p + r - 1, column = q + s - 1;
        if (row < 0 || row >= kH || column < 0 || column >= kH) continue;
        for (int c = 0; c < kC; ++c) {
          sum += double(__half2float(x[((n * kH + row) * kH + column) * kC + c])) *
                 __half2float(w[((k * kR + r) * kR + s) * kC + c]);
        }
      }
    }
    y.push_back(relu ? std::max(0.0, sum) : sum);
  }
  return y;
}

std::vector<float> floats(const std::vector<__half>& values) {
  std::vector<float> wide;
  for (const __half value : values) wide.push_back(__half2float(value));
  return wide;
}

void teach() {
  cudnnHandle_t cudnn;
  CHECK(cudnnCreate(&cudnn));
  const auto x = halves(lesson::random_values(kN * kH * kH * kC, 1));
  const auto w = halves(lesson::random_values(kK * kR * kR * kC, 2));
  const auto b = halves(lesson::random_values(kK, 3));
  const lesson::Array<__half> xs(x), ws(w), bs(b), ys(static_cast<size_t>(kN) * kH * kH * kK);

  // region graph
  enum Id { kX = 1, kFilter, kBias, kY, kSum, kBiased };
  const Part tx = tensor(kX, kN, kC, kH, kH), tw = tensor(kFilter, kK, kC, kR, kR);
  const Part tb = tensor(kBias, 1, kK, 1, 1), ty = tensor(kY, kN, kK, kH, kH);
  const Part sum = tensor(kSum, kN, kK, kH, kH, true),
             biased = tensor(kBiased, kN, kK, kH, kH, true);
  const Part convolution = convolve(tx, tw, sum);
  const Part add = pointwise(CUDNN_POINTWISE_ADD, sum, &tb, biased);
  const Part relu = pointwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, ty);
  std::unique_ptr<Part> plan;
  CHECK(make_plan(cudnn, {convolution.get(), add.get(), relu.get()}, plan));
  const lesson::Array<char> workspace(
      static_cast<size_t>(plan->number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)));
  const std::vector<int64_t> ids = {kX, kFilter, kBias, kY};
  const std::vector<void*> memory = {xs.data(), ws.data(), bs.data(), ys.data()};
  const auto run = [&] { execute(cudnn, *plan, ids, memory, workspace.data()); };
  run();
  lesson::compare("convolution, bias and relu", floats(ys.host()), plain(x, w, b, true), 0.02);
  // end graph

  // region alone
  const Part to_memory = convolve(tx, tw, ty);
  std::unique_ptr<Part> alone;
  CHECK(make_plan(cudnn, {to_memory.get()}, alone));
  const lesson::Array<char> room(
      static_cast<size_t>(alone->number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)));
  const double fused_us = lesson::microseconds(run);
  const double alone_us = lesson::microseconds([&] {
    execute(cudnn, *alone, {kX, kFilter, kY}, {xs.data(), ws.data(), ys.data()}, room.data());
  });
  const std::vector<__half> no_bias(kK, __float2half(0));
  lesson::compare("convolution alone", floats(ys.host()), plain(x, w, no_bias, false), 0.02);
  std::printf("convolution alone %.1f us, with bias and relu %.1f us\n", alone_us, fused_us);
  // end alone

  // region wrong
  // Two convolutions, one behind the other: a valid graph, for which there is no kernel.
  const Part second = tensor(7, kC, kK, kR, kR), last = tensor(8, kN, kC, kH, kH);
  const Part behind = convolve(biased, second, last);
  std::unique_ptr<Part> none;
  SHOULD_FAIL(make_plan(cudnn, {convolution.get(), add.get(), behind.get()}, none),
              CUDNN_STATUS_NOT_SUPPORTED);
  // A tensor without sizes, and a number of another type.
  Part unfinished(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  SHOULD_FAIL(cudnnBackendFinalize(unfinished.get()), CUDNN_STATUS_BAD_PARAM);
  const float number = 1;
  SHOULD_FAIL(cudnnBackendSetAttribute(unfinished.get(), CUDNN_ATTR_TENSOR_UNIQUE_ID,
                                       CUDNN_TYPE_FLOAT, 1, &number),
              CUDNN_STATUS_BAD_PARAM);
  // end wrong
  CHECK(cudnnDestroy(cudnn));
}

int main() {
  return lesson::run("Lesson 13: the graph API",
                     "Describes convolution, bias and relu as a graph, asks for engines, makes a "
                     "plan and runs it; then asks for what no engine can.",
                     teach, {8, 0, "cuDNN compiles fused kernels for Ampere and newer"});
}
