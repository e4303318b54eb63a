// The GPU side of a build without CUDA: nothing is there, and it says so.
#include <cstring>
#include <stdexcept>

#include "core/error.h"
#include "device/cache_flush.h"
#include "device/context.h"
#include "device/device.h"
#include "device/gpu.h"
#include "device/gpu_copies.h"
#include "device/gpu_state.h"
#include "device/graph_time.h"
#include "device/step_graph.h"
#include "device/stream_times.h"

namespace duet {

bool built_with_cuda() { return false; }
bool gpu_available() { return false; }
std::string gpu_missing_reason(std::string_view instead) {
  return "this build has no CUDA; install the CUDA toolkit, cuDNN and cuBLAS and configure with "
         "-DDUET_CUDA=ON, or use " +
         std::string(instead);
}
std::string gpu_name() { return ""; }
size_t gpu_memory() { return 0; }

struct Context::Gpu {};

Context::Context(Device device, CUstream_st*) : device_(device) {
  if (device == Device::kGpu) throw UnsupportedError(gpu_missing_reason());
}
Context::~Context() = default;
CUstream_st* Context::stream() const { return nullptr; }
cudnnContext* Context::cudnn() { throw UnsupportedError(gpu_missing_reason()); }
cublasContext* Context::cublas() { throw UnsupportedError(gpu_missing_reason()); }
void Context::synchronize() {}
void Context::queue_copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void Context::queue_fill(void* memory, int byte, size_t bytes) { std::memset(memory, byte, bytes); }
void Context::queue_delay(double) {}

struct StepGraph::Impl {};
StepGraph::StepGraph() = default;
StepGraph::StepGraph(Context&, const std::function<void()>&) {
  throw UnsupportedError(gpu_missing_reason());
}
StepGraph StepGraph::with_early_secondaries(Context& context, const std::function<void()>& record) {
  return StepGraph(context, record);
}
StepGraph::StepGraph(Context&, const std::vector<const StepGraph*>&) {
  throw UnsupportedError(gpu_missing_reason());
}
StepGraph::~StepGraph() = default;
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
void StepGraph::launch() {}

double microseconds_in_graph(Context&, const std::function<void()>&, double) {
  throw UnsupportedError(gpu_missing_reason());
}

struct StreamTimes::Impl {};
StreamTimes::StreamTimes(Context&) { throw UnsupportedError(gpu_missing_reason()); }
StreamTimes::~StreamTimes() = default;
void StreamTimes::hold() {}
void StreamTimes::release() {}
size_t StreamTimes::mark(CUstream_st*) { return 0; }
std::vector<double> StreamTimes::microseconds() { return {}; }
StreamTimes::Clock::time_point StreamTimes::zero() const { return {}; }

size_t l2_bytes() { throw UnsupportedError(gpu_missing_reason()); }
CacheFlush::CacheFlush(Context& context) : context_(context) {
  throw UnsupportedError(gpu_missing_reason());
}
void CacheFlush::queue() {}

namespace gpu {
void* allocate(size_t) { throw UnsupportedError(gpu_missing_reason()); }
void release(void*) noexcept {}
void copy(void*, const void*, size_t) { throw UnsupportedError(gpu_missing_reason()); }
void fill(void*, int, size_t) { throw UnsupportedError(gpu_missing_reason()); }
int64_t memory_in_use() { return 0; }
void* allocate_pinned(size_t) { throw UnsupportedError(gpu_missing_reason()); }
void release_pinned(void*) noexcept {}
CUstream_st* make_stream() { throw UnsupportedError(gpu_missing_reason()); }
void destroy_stream(CUstream_st*) noexcept {}
void queue_upload(void*, const void*, size_t, CUstream_st*) {
  throw UnsupportedError(gpu_missing_reason());
}
void push_range(const char*) {}
void pop_range() {}

int compute_capability() { throw std::logic_error("there is no GPU"); }
std::string pci_bus_id() { return ""; }
void* make_event() { throw UnsupportedError(gpu_missing_reason()); }
void destroy_event(void*) noexcept {}
void record_event(void*, CUstream_st*) { throw UnsupportedError(gpu_missing_reason()); }
void queue_wait(void*, CUstream_st*) { throw UnsupportedError(gpu_missing_reason()); }
void wait_for(void*) { throw UnsupportedError(gpu_missing_reason()); }
void* make_sleeping_event() { throw UnsupportedError(gpu_missing_reason()); }
double seconds_between(void*, void*) { throw UnsupportedError(gpu_missing_reason()); }
std::string take_error() { return ""; }
bool is_lost() { return false; }
PersistingCache persisting_cache(CUstream_st*) { return {}; }
void set_persisting_cache(CUstream_st*, const PersistingCache&) {}
std::vector<std::pair<std::string, std::string>> versions() { return {{"CUDA", "not built in"}}; }
}  // namespace gpu

}  // namespace duet
