// The GPU side of a build with CUDA.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "core/error.h"
#include "core/watchdog.h"
#include "device/attribute.h"
#include "device/check.h"
#include "device/context.h"
#include "device/device.h"
#include "device/gpu.h"
#include "device/gpu_state.h"
#include "device/step_graph.h"

namespace duet {
namespace {

std::string dotted(int version, int major_unit, int minor_unit) {
  return std::to_string(version / major_unit) + "." +
         std::to_string(version % major_unit / minor_unit);
}

std::string library_of(const void* symbol) {
  Dl_info info;
  return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "unknown";
}

constexpr size_t kCublasWorkspaceBytes = size_t{32} << 20;  // what cuBLAS takes by itself on Hopper

// One stream for all contexts. On an H200 a process whose graphs run on a second stream, or that
// has uploaded graphs it did not launch, runs all of them with less of the L2 cache: the step of
// fashion_mnist_cnn at batch 64 takes 141 to 145 us, by arm, where one stream takes 137 for every
// arm (the update 10.7 us for 8.1). So two identical arms would differ, and both from a training
// alone. Lives as long as the process: graphs and handles of any context refer to it.
cudaStream_t process_stream() {
  static const cudaStream_t stream = [] {
    cudaStream_t created = nullptr;
    DUET_CUDA(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking));
    return created;
  }();
  return stream;
}

}  // namespace

bool built_with_cuda() { return true; }

bool gpu_available() { return gpu_missing_reason().empty(); }

std::string gpu_missing_reason(std::string_view instead) {
  static const std::string reason = [] {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0) return std::string();
    const std::string what = status == cudaSuccess ? "no device" : cudaGetErrorString(status);
    (void)cudaGetLastError();
    return "no usable NVIDIA GPU was found (" + what +
           "); check 'nvidia-smi' and CUDA_VISIBLE_DEVICES, or use ";
  }();
  return reason.empty() ? reason : reason + std::string(instead);
}

std::string gpu_name() {
  if (!gpu_available()) return "";
  int device = 0;
  cudaDeviceProp properties;
  DUET_CUDA(cudaGetDevice(&device));
  DUET_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

size_t gpu_memory() {
  if (!gpu_available()) return 0;
  size_t free = 0, total = 0;
  DUET_CUDA(cudaMemGetInfo(&free, &total));
  return total;
}

struct Context::Gpu {
  cudaStream_t stream = nullptr;
  cudnnHandle_t cudnn = nullptr;
  cublasHandle_t cublas = nullptr;
  Buffer cublas_workspace;

  ~Gpu() {
    if (cudnn) cudnnDestroy(cudnn);
    if (cublas) cublasDestroy(cublas);
  }
};

Context::Context(Device device, CUstream_st* stream) : device_(device) {
  if (device == Device::kCpu) return;
  if (!gpu_available()) throw UnsupportedError(gpu_missing_reason());
  gpu_ = std::make_unique<Gpu>();
  gpu_->stream = stream ? stream : process_stream();
}

Context::~Context() = default;

CUstream_st* Context::stream() const { return gpu_ ? gpu_->stream : nullptr; }

cudnnContext* Context::cudnn() {
  if (!gpu_->cudnn) {
    DUET_CUDNN(cudnnCreate(&gpu_->cudnn));
    DUET_CUDNN(cudnnSetStream(gpu_->cudnn, gpu_->stream));
  }
  return gpu_->cudnn;
}

cublasContext* Context::cublas() {
  if (!gpu_->cublas) {
    DUET_CUBLAS(cublasCreate(&gpu_->cublas));
    DUET_CUBLAS(cublasSetStream(gpu_->cublas, gpu_->stream));
    // A workspace of our own keeps cuBLAS from allocating, also while a graph is captured.
    gpu_->cublas_workspace = Buffer(Device::kGpu, kCublasWorkspaceBytes);
    DUET_CUBLAS(
        cublasSetWorkspace(gpu_->cublas, gpu_->cublas_workspace.data(), kCublasWorkspaceBytes));
  }
  return gpu_->cublas;
}

void Context::synchronize() {
  const GpuWait wait;
  if (gpu_) DUET_CUDA(cudaDeviceSynchronize());
}

void Context::queue_copy(void* to, const void* from, size_t bytes) {
  if (gpu_) {
    DUET_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()));
  } else {
    std::memcpy(to, from, bytes);
  }
}

void Context::queue_fill(void* memory, int byte, size_t bytes) {
  if (gpu_) {
    DUET_CUDA(cudaMemsetAsync(memory, byte, bytes, stream()));
  } else {
    std::memset(memory, byte, bytes);
  }
}

void Context::queue_delay(double seconds) {
  if (!gpu_) return;
  const auto sleep = [](void* microseconds) {
    std::this_thread::sleep_for(
        std::chrono::microseconds(reinterpret_cast<intptr_t>(microseconds)));
  };
  DUET_CUDA(cudaLaunchHostFunc(stream(), sleep,
                               reinterpret_cast<void*>(static_cast<intptr_t>(1e6 * seconds))));
}

struct StepGraph::Impl {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;

  Impl(cudaStream_t stream_, cudaGraph_t graph_) : stream(stream_), graph(graph_) {}
  ~Impl() {
    if (executable) cudaGraphExecDestroy(executable);
    if (graph) cudaGraphDestroy(graph);
  }
};

StepGraph::StepGraph() = default;
StepGraph::~StepGraph() = default;
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;

namespace {

cudaGraph_t captured(cudaStream_t stream, const std::function<void()>& record) {
  cudaGraph_t graph = nullptr;
  DUET_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    record();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  DUET_CUDA(cudaStreamEndCapture(stream, &graph));
  return graph;
}

#if CUDART_VERSION >= 13000
constexpr auto graph_edges = cudaGraphGetEdges;
constexpr auto remove_edges = cudaGraphRemoveDependencies;
constexpr auto add_edges = cudaGraphAddDependencies;
#else
constexpr auto graph_edges = cudaGraphGetEdges_v2;
constexpr auto remove_edges = cudaGraphRemoveDependencies_v2;
constexpr auto add_edges = cudaGraphAddDependencies_v2;
#endif

/// Nothing of what is no kernel of this program: of a library's, CUDA refuses to tell.
std::optional<unsigned> blocks_of(cudaGraphNode_t node) {
  cudaKernelNodeParams params;
  if (cudaGraphKernelNodeGetParams(node, &params) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};
  }
  return params.gridDim.x * params.gridDim.y * params.gridDim.z;
}

void let_secondaries_start_early(cudaGraph_t graph) {
  // Of both kernels. fashion_mnist_cnn in bf16 on an H200: 14.6 us a batch of 1, 21.3 of 8 and 27.2 of 64; up to 32 blocks
  // 14.6, 24.1 and 27.7; none early 17.8, 25.0 and 28.2.
  constexpr unsigned kMostBlocks = 264;
  size_t count = 0;
  DUET_CUDA(graph_edges(graph, nullptr, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> data(count);
  DUET_CUDA(graph_edges(graph, from.data(), to.data(), data.data(), &count));
  for (size_t i = 0; i < count; ++i) {
    if (data[i].type != cudaGraphDependencyTypeProgrammatic) continue;
    const auto primary = blocks_of(from[i]), secondary = blocks_of(to[i]);
    if (!primary || !secondary || std::max(*primary, *secondary) > kMostBlocks) continue;
    DUET_CUDA(remove_edges(graph, &from[i], &to[i], &data[i], 1));
    data[i].from_port = cudaGraphKernelNodePortLaunchCompletion;
    DUET_CUDA(add_edges(graph, &from[i], &to[i], &data[i], 1));
  }
}

}  // namespace

StepGraph::StepGraph(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  // Not uploaded ahead of the first launch: see process_stream().
  DUET_CUDA(cudaGraphInstantiate(&impl_->executable, impl_->graph, 0));
}

StepGraph::StepGraph(Context& context, const std::function<void()>& record)
    : StepGraph(std::make_unique<Impl>(context.stream(), captured(context.stream(), record))) {}

StepGraph StepGraph::with_early_secondaries(Context& context, const std::function<void()>& record) {
  auto impl = std::make_unique<Impl>(context.stream(), captured(context.stream(), record));
  let_secondaries_start_early(impl->graph);
  return StepGraph(std::move(impl));
}

StepGraph::StepGraph(Context& context, const std::vector<const StepGraph*>& parts)
    : impl_(std::make_unique<Impl>(context.stream(), nullptr)) {
  DUET_CUDA(cudaGraphCreate(&impl_->graph, 0));
  cudaGraphNode_t last = nullptr;
  for (const StepGraph* part : parts) {
    cudaGraphNode_t node;
    DUET_CUDA(
        cudaGraphAddChildGraphNode(&node, impl_->graph, &last, last ? 1 : 0, part->impl_->graph));
    last = node;
  }
  DUET_CUDA(cudaGraphInstantiate(&impl_->executable, impl_->graph, 0));
}

void StepGraph::launch() { DUET_CUDA(cudaGraphLaunch(impl_->executable, impl_->stream)); }

namespace gpu {

void* allocate(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // or the next launch would be blamed
    size_t free = 0, total = 0;
    DUET_CUDA(cudaMemGetInfo(&free, &total));
    throw OutOfMemoryError("out of memory on the GPU: " + std::to_string(bytes >> 20) +
                           " MiB more are needed, and " + std::to_string(free >> 20) + " of " +
                           std::to_string(total >> 20) +
                           " MiB are free; choose a smaller batch or smaller layers");
  }
  DUET_CUDA(status);
  return memory;
}

void release(void* memory) noexcept { cudaFree(memory); }

std::string take_error() {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return "";
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

bool is_lost() {
  (void)cudaDeviceSynchronize();
  (void)cudaGetLastError();  // takes away what does not stay
  return cudaDeviceSynchronize() != cudaSuccess;
}

PersistingCache persisting_cache(CUstream_st* stream) {
  PersistingCache cache;
  DUET_CUDA(cudaDeviceGetLimit(&cache.bytes, cudaLimitPersistingL2CacheSize));
  cudaStreamAttrValue value = {};
  DUET_CUDA(cudaStreamGetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value));
  cache.window_bytes = value.accessPolicyWindow.num_bytes;
  return cache;
}

void set_persisting_cache(CUstream_st* stream, const PersistingCache& cache) {
  if (persisting_cache(stream).window_bytes != cache.window_bytes) {
    cudaStreamAttrValue none = {};
    none.accessPolicyWindow.hitProp = cudaAccessPropertyNormal;
    none.accessPolicyWindow.missProp = cudaAccessPropertyNormal;
    DUET_CUDA(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &none));
  }
  DUET_CUDA(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, cache.bytes));
  DUET_CUDA(cudaCtxResetPersistingL2Cache());
}

void copy(void* to, const void* from, size_t bytes) {
  const GpuWait wait;
  DUET_CUDA(cudaDeviceSynchronize());  // our streams do not wait for the default stream
  DUET_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  // From ordinary memory it returns when all is on its way, and our streams would not wait for it.
  DUET_CUDA(cudaDeviceSynchronize());
}

void fill(void* memory, int byte, size_t bytes) {
  const GpuWait wait;
  DUET_CUDA(cudaDeviceSynchronize());
  DUET_CUDA(cudaMemset(memory, byte, bytes));
  DUET_CUDA(cudaDeviceSynchronize());
}

int64_t memory_in_use() {
  size_t free = 0, total = 0;
  DUET_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(total) - static_cast<int64_t>(free);
}

// Without a tool that listens, a call is a test of one pointer.
void push_range(const char* name) { nvtxRangePushA(name); }
void pop_range() { nvtxRangePop(); }

int compute_capability() {
  return 10 * gpu_attribute(cudaDevAttrComputeCapabilityMajor) +
         gpu_attribute(cudaDevAttrComputeCapabilityMinor);
}

std::string pci_bus_id() {
  int device = 0;
  char text[32] = "";
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetPCIBusId(text, sizeof text, device) != cudaSuccess) {
    return "";
  }
  return text;
}

void* make_event() {
  cudaEvent_t event = nullptr;
  DUET_CUDA(cudaEventCreate(&event));
  return event;
}

void destroy_event(void* event) noexcept {
  if (event) cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

void record_event(void* event, CUstream_st* stream) {
  DUET_CUDA(cudaEventRecord(static_cast<cudaEvent_t>(event), stream));
}

double seconds_between(void* begin, void* end) {
  DUET_CUDA(cudaEventSynchronize(static_cast<cudaEvent_t>(end)));
  float milliseconds = 0;
  DUET_CUDA(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(begin),
                                 static_cast<cudaEvent_t>(end)));
  return 1e-3 * milliseconds;
}

std::vector<std::pair<std::string, std::string>> versions() {
  std::vector<std::pair<std::string, std::string>> rows;
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  rows.emplace_back("NVIDIA driver", driver ? "supports CUDA " + dotted(driver, 1000, 10) : "none");
  rows.emplace_back("CUDA runtime", dotted(runtime, 1000, 10) + " loaded, compiled against " +
                                        dotted(CUDART_VERSION, 1000, 10) + ", from " +
                                        library_of(reinterpret_cast<void*>(&cudaGetDeviceCount)));
  const size_t cudnn = cudnnGetVersion();
  const auto cudnn_text = [](size_t v) {
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
           std::to_string(v % 100);
  };
  rows.emplace_back("cuDNN", cudnn_text(cudnn) + " loaded, compiled against " +
                                 cudnn_text(CUDNN_VERSION) + ", from " +
                                 library_of(reinterpret_cast<void*>(&cudnnGetVersion)));
  int major = 0, minor = 0, patch = 0;
  (void)cublasGetProperty(MAJOR_VERSION, &major);
  (void)cublasGetProperty(MINOR_VERSION, &minor);
  (void)cublasGetProperty(PATCH_LEVEL, &patch);
  rows.emplace_back(
      "cuBLAS", std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch) +
                    " loaded, compiled against " + std::to_string(CUBLAS_VER_MAJOR) + "." +
                    std::to_string(CUBLAS_VER_MINOR) + "." + std::to_string(CUBLAS_VER_PATCH) +
                    ", from " + library_of(reinterpret_cast<void*>(&cublasCreate_v2)));
  return rows;
}

[[noreturn]] static void fail_with(const char* file, int line, const char* call,
                                   const std::string& name, const std::string& text) {
  throw DeviceError(std::string(file) + ":" + std::to_string(line) + ": " + call + " -> " + name +
                    ": " + text);
}

void fail(const char* file, int line, const char* call, cudaError_t status) {
  // It is told here: the next launch that is checked is not to be blamed for it.
  (void)cudaGetLastError();
  fail_with(file, line, call, cudaGetErrorName(status), cudaGetErrorString(status));
}

void fail(const char* file, int line, const char* call, cudnnStatus_t status) {
  char text[512] = "";
  cudnnGetLastErrorString(text, sizeof text);
  fail_with(file, line, call, cudnnGetErrorString(status), text);
}

void fail(const char* file, int line, const char* call, cublasStatus_t status) {
  fail_with(file, line, call, cublasGetStatusName(status), cublasGetStatusString(status));
}

}  // namespace gpu
}  // namespace duet
