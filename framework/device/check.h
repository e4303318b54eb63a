// DUET_CUDA, DUET_CUDNN, DUET_CUBLAS: run a call and throw DeviceError
// "file:line: call -> NAME: text" if it failed. DUET_LAUNCHED() does the same for the launch before
// it and belongs after every <<<>>>. Include only in files that are compiled with CUDA.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

namespace duet::gpu {

[[noreturn]] void fail(const char* file, int line, const char* call, cudaError_t status);
[[noreturn]] void fail(const char* file, int line, const char* call, cudnnStatus_t status);
[[noreturn]] void fail(const char* file, int line, const char* call, cublasStatus_t status);

template <class Status>
inline void check(const char* file, int line, const char* call, Status status) {
  if (status != Status{}) fail(file, line, call, status);  // success is 0 in all three libraries
}

}  // namespace duet::gpu

#define DUET_CUDA(call) ::duet::gpu::check<cudaError_t>(__FILE__, __LINE__, #call, (call))
#define DUET_CUDNN(call) ::duet::gpu::check<cudnnStatus_t>(__FILE__, __LINE__, #call, (call))
#define DUET_CUBLAS(call) ::duet::gpu::check<cublasStatus_t>(__FILE__, __LINE__, #call, (call))
#define DUET_LAUNCHED() \
  ::duet::gpu::check<cudaError_t>(__FILE__, __LINE__, "kernel launch", cudaGetLastError())
