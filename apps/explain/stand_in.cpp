// The CUDA runtime. Memory and launches are recorded; where there is no GPU, all that preparing and
// running a layer takes is answered here. Memory of the device is the host's then, of which pages that
// nobody writes cost nothing, and a kernel does nothing.
#include <cuda_runtime.h>
#include <cxxabi.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>

#include "recorder.h"

extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*,
                                       dim3*, dim3*, int*);

namespace duet::recorder {
namespace {

struct Runtime {
  std::mutex mutex;
  std::map<const void*, std::string> kernels;  // their names, by what stands for them on the host
  std::map<void*, size_t> memory;              // of the device that is not there
};

Runtime& runtime() {
  static Runtime* const all = new Runtime;
  return *all;
}

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

/// The types of the parameters in "void f<a, b>(int, float const*)".
std::vector<std::string> parameter_types(const std::string& function) {
  int depth = 0;
  size_t begin = std::string::npos;
  std::vector<std::string> types;
  // "(anonymous namespace)" has parentheses, too: the last that open at the outermost level count.
  for (size_t i = function.size(); i-- > 0;) {
    if (function[i] == ')') ++depth;
    if (function[i] == '(' && --depth == 0) {
      begin = i + 1;
      break;
    }
  }
  if (begin == std::string::npos) return types;
  std::string type;
  depth = 0;
  for (size_t i = begin; i + 1 < function.size(); ++i) {
    const char letter = function[i];
    depth += letter == '<' || letter == '(';
    depth -= letter == '>' || letter == ')';
    if (letter == ',' && depth == 0) {
      types.push_back(std::exchange(type, ""));
    } else if (letter != ' ' || !type.empty()) {
      type += letter;
    }
  }
  if (!type.empty()) types.push_back(type);
  return types;
}

template <class T>
T read(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Pointers and numbers; what is passed as a struct is left out.
Json argument(const std::string& type, const void* value) {
  Json described = {{"type", type}};
  if (type.back() == '*') described["memory"] = text_of(read<const void*>(value));
  if (type == "int" || type == "unsigned int") described["number"] = read<int>(value);
  if (type == "long") described["number"] = read<long>(value);
  if (type == "float") described["number"] = read<float>(value);
  return described;
}

void record_launch(const void* kernel, void** arguments) {
  if (depth > 0) return;
  std::string name;
  {
    Runtime& all = runtime();
    const std::lock_guard lock(all.mutex);
    const auto found = all.kernels.find(kernel);
    if (found == all.kernels.end()) return;
    name = found->second;
  }
  Json record = {{"kernel", name}, {"arguments", Json::array()}};
  const std::vector<std::string> types = parameter_types(name);
  for (size_t i = 0; i < types.size(); ++i) {
    record["arguments"].push_back(argument(types[i], arguments[i]));
  }
  add(std::move(record));
}

void record_transfer(const char* name, const std::vector<std::pair<const void*, bool>>& memory,
                     size_t bytes) {
  if (depth > 0) return;
  Json record = {{"kernel", name}, {"arguments", Json::array()}};
  for (const auto& [address, constant] : memory) {
    record["arguments"].push_back(
        {{"type", constant ? "void const*" : "void*"}, {"memory", text_of(address)}});
  }
  record["arguments"].push_back({{"type", "long"}, {"number", bytes}});
  add(std::move(record));
}

cudaError_t allocate(void** memory, size_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (pages == MAP_FAILED) return cudaErrorMemoryAllocation;
  Runtime& all = runtime();
  const std::lock_guard lock(all.mutex);
  all.memory[pages] = bytes;
  *memory = pages;
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  Runtime& all = runtime();
  const std::lock_guard lock(all.mutex);
  const auto found = all.memory.find(memory);
  if (found == all.memory.end()) return cudaSuccess;
  munmap(memory, found->second);
  all.memory.erase(found);
  return cudaSuccess;
}

/// What implementations ask of a GPU: an H100's answers.
int attribute(cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      return 9;
    case cudaDevAttrMultiProcessorCount:
      return 132;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 227 << 10;
    case cudaDevAttrL2CacheSize:
      return 50 << 20;
    default:
      return 0;
  }
}

/// Of the device that is not there.
bool was_allocated(const void* memory) {
  Runtime& all = runtime();
  const std::lock_guard lock(all.mutex);
  auto found = all.memory.upper_bound(const_cast<void*>(memory));
  if (found == all.memory.begin()) return false;
  --found;
  return memory < static_cast<const char*>(found->first) + found->second;
}

template <class T>
cudaError_t token(T* made) {
  static uintptr_t next = 0x1000;
  *made = reinterpret_cast<T>(next += 16);
  return cudaSuccess;
}

}  // namespace

bool is_on_host(const void* memory) {
  if (!memory) return false;
  if (stands_in()) return !was_allocated(memory);
  cudaPointerAttributes attributes = {};
  return cudaPointerGetAttributes(&attributes, memory) == cudaSuccess &&
         attributes.type == cudaMemoryTypeUnregistered;
}

}  // namespace duet::recorder

using duet::recorder::next_of;
using duet::recorder::stands_in;

/// A function of the runtime: `answer` where there is no GPU, else the runtime's own.
#define STAND_IN(function, parameters, arguments, answer)                \
  cudaError_t function parameters {                                      \
    if (stands_in()) return answer;                                      \
    static const auto next = next_of<cudaError_t parameters>(#function); \
    return next arguments;                                               \
  }
#define ANSWERS(statements) ([&] { statements; }(), cudaSuccess)

extern "C" {  // by the names of the runtime

STAND_IN(cudaGetDeviceCount, (int* count), (count), ANSWERS(*count = 1))
STAND_IN(cudaGetDevice, (int* device), (device), ANSWERS(*device = 0))
STAND_IN(cudaGetDeviceProperties, (cudaDeviceProp * properties, int device), (properties, device),
         ANSWERS(*properties = {}; std::strcpy(properties->name, "no GPU")))
STAND_IN(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
         (value, attribute, device), ANSWERS(*value = duet::recorder::attribute(attribute)))
STAND_IN(cudaMemGetInfo, (size_t * free, size_t* total), (free, total),
         ANSWERS(*free = *total = size_t{80} << 30))
STAND_IN(cudaDeviceGetLimit, (size_t * value, cudaLimit limit), (value, limit), ANSWERS(*value = 0))
STAND_IN(cudaDeviceSetLimit, (cudaLimit limit, size_t value), (limit, value), cudaSuccess)
STAND_IN(cudaCtxResetPersistingL2Cache, (), (), cudaSuccess)
STAND_IN(cudaDeviceSynchronize, (), (), cudaSuccess)
STAND_IN(cudaGetLastError, (), (), cudaSuccess)

STAND_IN(cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
         (to, from, bytes, kind), ANSWERS(std::memcpy(to, from, bytes)))
STAND_IN(cudaMemset, (void* memory, int byte, size_t bytes), (memory, byte, bytes), cudaSuccess)
STAND_IN(cudaHostAlloc, (void** memory, size_t bytes, unsigned flags), (memory, bytes, flags),
         duet::recorder::allocate(memory, bytes))
STAND_IN(cudaFreeHost, (void* memory), (memory), duet::recorder::release(memory))

STAND_IN(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags),
         duet::recorder::token(stream))
STAND_IN(cudaStreamDestroy, (cudaStream_t stream), (stream), cudaSuccess)
STAND_IN(cudaStreamSynchronize, (cudaStream_t stream), (stream), cudaSuccess)
STAND_IN(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
         (stream, event, flags), cudaSuccess)
STAND_IN(cudaStreamGetAttribute,
         (cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue* value),
         (stream, attribute, value), ANSWERS(*value = {}))
STAND_IN(cudaStreamSetAttribute,
         (cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue* value),
         (stream, attribute, value), cudaSuccess)
STAND_IN(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode),
         cudaSuccess)
STAND_IN(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph), (stream, graph),
         duet::recorder::token(graph))
STAND_IN(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), (graph, flags),
         duet::recorder::token(graph))
STAND_IN(cudaGraphDestroy, (cudaGraph_t graph), (graph), cudaSuccess)
STAND_IN(cudaGraphAddChildGraphNode,
         (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
          cudaGraph_t child),
         (node, graph, after, count, child), duet::recorder::token(node))
STAND_IN(cudaGraphInstantiate,
         (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags),
         (executable, graph, flags), duet::recorder::token(executable))
STAND_IN(cudaGraphExecDestroy, (cudaGraphExec_t executable), (executable), cudaSuccess)
STAND_IN(cudaGraphLaunch, (cudaGraphExec_t executable, cudaStream_t stream), (executable, stream),
         cudaSuccess)
STAND_IN(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void* data),
         (stream, function, data), cudaSuccess)

STAND_IN(cudaEventCreate, (cudaEvent_t * event), (event), duet::recorder::token(event))
STAND_IN(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags),
         duet::recorder::token(event))
STAND_IN(cudaEventDestroy, (cudaEvent_t event), (event), cudaSuccess)
STAND_IN(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream), cudaSuccess)
STAND_IN(cudaEventSynchronize, (cudaEvent_t event), (event), cudaSuccess)
STAND_IN(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t begin, cudaEvent_t end),
         (milliseconds, begin, end), ANSWERS(*milliseconds = 1))

STAND_IN(cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* kernel),
         (attributes, kernel), ANSWERS(*attributes = {}))
STAND_IN(cudaFuncSetAttribute, (const void* kernel, cudaFuncAttribute attribute, int value),
         (kernel, attribute, value), cudaSuccess)
STAND_IN(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
         (int* blocks, const void* kernel, int threads, size_t shared, unsigned flags),
         (blocks, kernel, threads, shared, flags), ANSWERS(*blocks = 1))
STAND_IN(cudaOccupancyMaxActiveClusters,
         (int* clusters, const void* kernel, const cudaLaunchConfig_t* config),
         (clusters, kernel, config), ANSWERS(*clusters = 1))

// Queued copies and fills belong to what a layer does, as its kernels do.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  static const auto next =
      next_of<cudaError_t(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t)>(
          "cudaMemcpyAsync");
  duet::recorder::record_transfer("cudaMemcpyAsync", {{to, false}, {from, true}}, bytes);
  return stands_in() ? cudaSuccess : next(to, from, bytes, kind, stream);
}

cudaError_t cudaMemsetAsync(void* memory, int byte, size_t bytes, cudaStream_t stream) {
  static const auto next =
      next_of<cudaError_t(void*, int, size_t, cudaStream_t)>("cudaMemsetAsync");
  duet::recorder::record_transfer("cudaMemsetAsync", {{memory, false}}, bytes);
  return stands_in() ? cudaSuccess : next(memory, byte, bytes, stream);
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  static const auto next = next_of<cudaError_t(void**, size_t)>("cudaMalloc");
  const bool inner = duet::recorder::depth > 0;  // a library's own
  const cudaError_t status =
      stands_in() ? duet::recorder::allocate(memory, bytes) : next(memory, bytes);
  if (status == cudaSuccess && !inner) {
    duet::recorder::add({{"allocated", duet::recorder::text_of(*memory)}, {"bytes", bytes}});
  }
  return status;
}

cudaError_t cudaFree(void* memory) {
  static const auto next = next_of<cudaError_t(void*)>("cudaFree");
  return stands_in() ? duet::recorder::release(memory) : next(memory);
}

// ---- kernels ----

void __cudaRegisterFunction(void** code, const char* on_host, char* on_device, const char* name,
                            int limit, uint3* thread, uint3* block, dim3* block_size,
                            dim3* grid_size, int* warp_size) {
  static const auto next = next_of<decltype(__cudaRegisterFunction)>("__cudaRegisterFunction");
  {
    duet::recorder::Runtime& all = duet::recorder::runtime();
    const std::lock_guard lock(all.mutex);
    all.kernels[on_host] = duet::recorder::demangled(name);
  }
  next(code, on_host, on_device, name, limit, thread, block, block_size, grid_size, warp_size);
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  static const auto next =
      next_of<cudaError_t(const void*, dim3, dim3, void**, size_t, cudaStream_t)>(
          "cudaLaunchKernel");
  duet::recorder::record_launch(kernel, arguments);
  return stands_in() ? cudaSuccess : next(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                void** arguments) {
  static const auto next =
      next_of<cudaError_t(const cudaLaunchConfig_t*, const void*, void**)>("cudaLaunchKernelExC");
  duet::recorder::record_launch(kernel, arguments);
  return stands_in() ? cudaSuccess : next(config, kernel, arguments);
}

#if CUDART_VERSION >= 13000
// What <<<>>> becomes from CUDA 13 on: the runtime's own name for a kernel, and a launch by that.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* on_host) {
  static const auto next = next_of<cudaError_t(cudaKernel_t*, const void*)>("__cudaGetKernel");
  const cudaError_t status = stands_in() ? duet::recorder::token(kernel) : next(kernel, on_host);
  duet::recorder::Runtime& all = duet::recorder::runtime();
  const std::lock_guard lock(all.mutex);
  const auto found = all.kernels.find(on_host);
  if (status == cudaSuccess && found != all.kernels.end()) all.kernels[*kernel] = found->second;
  return status;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  static const auto next =
      next_of<cudaError_t(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t)>(
          "__cudaLaunchKernel");
  duet::recorder::record_launch(kernel, arguments);
  return stands_in() ? cudaSuccess : next(kernel, grid, block, arguments, shared, stream);
}
#endif

}  // extern "C"
