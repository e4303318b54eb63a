// The search for cuDNN's fastest algorithm. cudnnFindConvolution...AlgorithmEx times every
// algorithm on memory that it is given; what we add is which of them may be taken, and that it is
// asked once.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/error.h"
#include "device/tuning_cache.h"
#include "layers/conv2d/conv2d_algorithms.h"

namespace duet {
namespace {

// The three passes have three sets of types and functions of the same form. ForPass gives them one
// name each; `memory` is {x, w, y}, whichever of them is the gradient.
struct Memory {
  void *x, *w, *y, *workspace;
  size_t workspace_bytes;
};

struct Forward {
  using Number = cudnnConvolutionFwdAlgo_t;
  using Timed = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr int kCount = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;

  static cudnnStatus_t workspace(cudnnHandle_t cudnn, const Conv2dDescriptors& d, Number number,
                                 size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(cudnn, d.x.get(), d.w.get(), d.convolution.get(),
                                                   d.y.get(), number, bytes);
  }
  static cudnnStatus_t find(cudnnHandle_t cudnn, const Conv2dDescriptors& d, const Memory& m,
                            int room, int* found, Timed* timed) {
    return cudnnFindConvolutionForwardAlgorithmEx(cudnn, d.x.get(), m.x, d.w.get(), m.w,
                                                  d.convolution.get(), d.y.get(), m.y, room, found,
                                                  timed, m.workspace, m.workspace_bytes);
  }
};

struct BackwardData {
  using Number = cudnnConvolutionBwdDataAlgo_t;
  using Timed = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr int kCount = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;

  static cudnnStatus_t workspace(cudnnHandle_t cudnn, const Conv2dDescriptors& d, Number number,
                                 size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(
        cudnn, d.w.get(), d.y.get(), d.convolution.get(), d.x.get(), number, bytes);
  }
  static cudnnStatus_t find(cudnnHandle_t cudnn, const Conv2dDescriptors& d, const Memory& m,
                            int room, int* found, Timed* timed) {
    return cudnnFindConvolutionBackwardDataAlgorithmEx(
        cudnn, d.w.get(), m.w, d.y.get(), m.y, d.convolution.get(), d.x.get(), m.x, room, found,
        timed, m.workspace, m.workspace_bytes);
  }
};

struct BackwardFilter {
  using Number = cudnnConvolutionBwdFilterAlgo_t;
  using Timed = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr int kCount = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;

  static cudnnStatus_t workspace(cudnnHandle_t cudnn, const Conv2dDescriptors& d, Number number,
                                 size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(
        cudnn, d.x.get(), d.y.get(), d.convolution.get(), d.w.get(), number, bytes);
  }
  static cudnnStatus_t find(cudnnHandle_t cudnn, const Conv2dDescriptors& d, const Memory& m,
                            int room, int* found, Timed* timed) {
    return cudnnFindConvolutionBackwardFilterAlgorithmEx(
        cudnn, d.x.get(), m.x, d.y.get(), m.y, d.convolution.get(), d.w.get(), m.w, room, found,
        timed, m.workspace, m.workspace_bytes);
  }
};

std::string_view name_of(cudnnMathType_t math) {
  switch (math) {
    case CUDNN_FMA_MATH:
      return "FMA";
    case CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION:
      return "TF32";
    case CUDNN_TENSOR_OP_MATH:
      return "tensor cores";
    default:
      return "default math";
  }
}

/// True if an algorithm timed in `math` computes what was asked. CUDNN_DEFAULT_MATH may use TF32,
/// so it is none for fp32; for tf32 everything is: where there is no kernel for tensor cores, cuDNN
/// runs another, which is as exact or more.
bool is_allowed(cudnnMathType_t math, const Conv2dProblem& problem) {
  return problem.math == Math::kTF32 || math == CUDNN_FMA_MATH;
}

/// Tensors for the search, filled with small numbers: zeros would run up to 15% faster, because
/// fewer wires toggle and the clock stays higher.
class Scratch {
 public:
  Scratch(const Conv2dProblem& problem, size_t workspace_bytes)
      : x_(filled(problem.x_desc())),
        w_(filled(problem.w_desc())),
        b_(filled(problem.b_desc())),
        y_(filled(problem.y_desc())),
        workspace_(Device::kGpu, workspace_bytes) {}

  Memory memory() const {
    return {x_.data(), w_.data(), y_.data(), workspace_.data(), workspace_.bytes()};
  }
  const void* bias() const { return b_.data(); }

 private:
  static Buffer filled(const TensorDesc& desc) {
    constexpr size_t kPeriod = 65521;  // a prime: the pattern never lines up with rows or channels
    std::vector<float> pattern(std::min<size_t>(kPeriod, desc.elements()));
    uint32_t state = 1;
    for (float& value : pattern) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    }
    Buffer buffer(Device::kGpu, desc.bytes());
    for (size_t done = 0; done < desc.bytes();) {
      const size_t part = std::min(pattern.size() * sizeof(float), desc.bytes() - done);
      copy_bytes(buffer.at(done), Device::kGpu, done ? buffer.data() : pattern.data(),
                 done ? Device::kGpu : Device::kCpu, part);
      done += part;
    }
    return buffer;
  }

  Buffer x_, w_, b_, y_, workspace_;
};

struct Event {
  cudaEvent_t event = nullptr;
  Event() { DUET_CUDA(cudaEventCreate(&event)); }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

template <class Queue>
double microseconds_of(Context& context, Queue&& queue) {
  constexpr int kWarmUps = 3, kRuns = 20;
  for (int i = 0; i < kWarmUps; ++i) queue();
  const Event begin, end;
  DUET_CUDA(cudaEventRecord(begin.event, context.stream()));
  for (int i = 0; i < kRuns; ++i) queue();
  DUET_CUDA(cudaEventRecord(end.event, context.stream()));
  DUET_CUDA(cudaEventSynchronize(end.event));
  float milliseconds = 0.0f;
  DUET_CUDA(cudaEventElapsedTime(&milliseconds, begin.event, end.event));
  return milliseconds * 1e3 / kRuns;
}

/// The most workspace that any algorithm wants within the limit: no more is allocated to search.
template <class P>
size_t largest_workspace(const Conv2dDescriptors& descriptors, Context& context) {
  size_t largest = 0;
  for (int number = 0; number < P::kCount; ++number) {
    size_t bytes = 0;
    const cudnnStatus_t status =
        P::workspace(context.cudnn(), descriptors, static_cast<typename P::Number>(number), &bytes);
    if (status == CUDNN_STATUS_SUCCESS && bytes <= context.workspace_limit()) {
      largest = std::max(largest, bytes);
    }
  }
  return largest;
}

/// Where the bias can be added inside the convolution, is that faster? cuDNN documents it for
/// IMPLICIT_PRECOMP_GEMM only, which need not be the fastest without the bias. Replaces `best` if
/// so.
void consider_adding_bias(const Conv2dProblem& problem, Conv2dDescriptors& descriptors,
                          Context& context, const Scratch& scratch,
                          const std::vector<CudnnAlgorithm>& candidates, CudnnAlgorithm& best) {
  const Memory m = scratch.memory();
  const auto time = [&](const CudnnAlgorithm& algorithm) {
    return microseconds_of(context, [&] {
      run_forward(context.cudnn(), descriptors, algorithm, m.x, m.w, scratch.bias(), m.y,
                  m.workspace);
    });
  };
  if (!problem.bias) return;
  best.microseconds = time(best);
  for (CudnnAlgorithm candidate : candidates) {
    if (candidate.number != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) continue;
    candidate.adds_bias = true;
    try {
      candidate.microseconds = time(candidate);
    } catch (const DeviceError&) {
      continue;  // not for these sizes
    }
    if (candidate.microseconds < best.microseconds) best = candidate;
  }
}

template <class P>
CudnnAlgorithm search(const Conv2dProblem& problem, Conv2dDescriptors& descriptors,
                      Context& context) {
  const Scratch scratch(problem, largest_workspace<P>(descriptors, context));
  descriptors.convolution.set_math(math_of(problem));
  // An algorithm may be timed in the convolution's own math and in the default one.
  typename P::Timed timed[2 * P::kCount];
  int found = 0;
  const cudnnStatus_t status =
      P::find(context.cudnn(), descriptors, scratch.memory(), 2 * P::kCount, &found, timed);
  // "Not supported" by any algorithm is told below, with the problem.
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED)
    found = 0;
  else
    DUET_CUDNN(status);
  std::vector<CudnnAlgorithm> candidates;  // fastest first, as cuDNN sorts them
  for (int i = 0; i < found; ++i) {
    if (timed[i].status != CUDNN_STATUS_SUCCESS) continue;
    if (timed[i].determinism != CUDNN_DETERMINISTIC) continue;  // runs must repeat, bit for bit
    if (timed[i].memory > context.workspace_limit()) continue;
    if (!is_allowed(timed[i].mathType, problem)) continue;
    candidates.push_back({.number = static_cast<int>(timed[i].algo),
                          .math = timed[i].mathType,
                          .workspace = timed[i].memory,
                          .microseconds = timed[i].time * 1e3});
  }
  if (candidates.empty()) {
    throw UnsupportedError("conv2d cudnn: no algorithm is repeatable, computes in " +
                           std::string(to_string(problem.math)) + " and needs at most " +
                           std::to_string(context.workspace_limit() >> 20) +
                           " MiB of workspace, for " + problem.to_string());
  }
  CudnnAlgorithm best = candidates.front();
  if constexpr (std::is_same_v<P, Forward>) {
    consider_adding_bias(problem, descriptors, context, scratch, candidates, best);
  }
  context.synchronize();  // before the scratch memory goes
  return best;
}

/// What the cache says, unless this library does not know it (a file that was edited).
template <class P>
std::optional<CudnnAlgorithm> from_cache(const std::optional<TuningCache::Entry>& entry,
                                         const Conv2dProblem& problem,
                                         Conv2dDescriptors& descriptors, Context& context) {
  if (!entry) return {};
  const auto field = [&](const char* name) {
    const auto found = entry->find(name);
    return found == entry->end() ? -1 : found->second;
  };
  const int64_t number = field("algorithm"), math = field("math");
  if (number < 0 || number >= P::kCount) return {};
  if (math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH) return {};
  CudnnAlgorithm algorithm = {.number = static_cast<int>(number),
                              .math = static_cast<cudnnMathType_t>(math),
                              .adds_bias = field("adds_bias") == 1,
                              .microseconds = static_cast<double>(field("nanoseconds")) * 1e-3};
  if (!is_allowed(algorithm.math, problem)) return {};
  descriptors.convolution.set_math(algorithm.math);
  const cudnnStatus_t status =
      P::workspace(context.cudnn(), descriptors, static_cast<typename P::Number>(algorithm.number),
                   &algorithm.workspace);
  if (status != CUDNN_STATUS_SUCCESS || algorithm.workspace > context.workspace_limit()) return {};
  return algorithm;
}

template <class P>
CudnnAlgorithm choose(const Conv2dProblem& problem, Pass pass, Conv2dDescriptors& descriptors,
                      Context& context) {
  static TuningCache cache(TuningCache::path_of("cudnn_algorithms.json"));
  const std::string key = problem.to_string() + " | " + std::string(to_string(pass)) + " | " +
                          gpu_name() + " | cuDNN " + std::to_string(cudnnGetVersion()) +
                          " | workspace " + std::to_string(context.workspace_limit());
  const auto known = from_cache<P>(cache.find(key), problem, descriptors, context);
  if (known) return *known;
  const CudnnAlgorithm best = search<P>(problem, descriptors, context);
  cache.insert(key, {{"algorithm", best.number},
                     {"math", best.math},
                     {"adds_bias", best.adds_bias},
                     {"nanoseconds", static_cast<int64_t>(best.microseconds * 1e3)}});
  return best;
}

std::string name_of(int number, Pass pass) {
  // The backward passes' 0, 1 and 3 (filter) have no names but their numbers.
  static const char* const forward[] = {
      "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING",
      "WINOGRAD",      "WINOGRAD_NONFUSED"};
  static const char* const data[] = {"", "", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"};
  static const char* const filter[] = {"",          "", "FFT", "", "WINOGRAD", "WINOGRAD_NONFUSED",
                                       "FFT_TILING"};
  const std::string name = pass == Pass::kForward        ? forward[number]
                           : pass == Pass::kBackwardData ? data[number]
                                                         : filter[number];
  return "ALGO_" + std::to_string(number) + (name.empty() ? "" : " " + name);
}

}  // namespace

std::string CudnnAlgorithm::to_string(Pass pass) const {
  char size[32];
  std::snprintf(size, sizeof size, ", %.1f MiB, ", static_cast<double>(workspace) / (1 << 20));
  return name_of(number, pass) + size + std::string(name_of(math)) +
         (adds_bias ? ", adds the bias" : "");
}

CudnnAlgorithm choose_algorithm(const Conv2dProblem& problem, Pass pass,
                                Conv2dDescriptors& descriptors, Context& context) {
  switch (pass) {
    case Pass::kForward:
      return choose<Forward>(problem, pass, descriptors, context);
    case Pass::kBackwardData:
      return choose<BackwardData>(problem, pass, descriptors, context);
    default:
      return choose<BackwardFilter>(problem, pass, descriptors, context);
  }
}

}  // namespace duet
