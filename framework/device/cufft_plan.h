// cuFFT's plans as a move-only type. Include only in files that are compiled with CUDA.
#pragma once

#include <cufft.h>

#include <string>
#include <utility>

#include "core/error.h"

/// Runs a call and throws DeviceError "file:line: call -> cuFFT error N" if it failed.
#define DUET_CUFFT(call) ::duet::gpu::check_cufft(__FILE__, __LINE__, #call, (call))

namespace duet::gpu {

inline void check_cufft(const char* file, int line, const char* call, cufftResult status) {
  if (status == CUFFT_SUCCESS) return;
  throw DeviceError(std::string(file) + ":" + std::to_string(line) + ": " + call +
                    " -> cuFFT error " + std::to_string(static_cast<int>(status)));
}

/// Many real planes of `rows` x `columns`, one behind the other, and their spectra, of rows x
/// (columns / 2 + 1) complex numbers. Spectra lie by frequency: the same frequency of all planes is
/// together, in the order of the planes.
class CufftPlan {
 public:
  /// `type` is CUFFT_R2C or CUFFT_C2R. May allocate and synchronise.
  CufftPlan(cufftType type, int rows, int columns, int planes) {
    DUET_CUFFT(cufftCreate(&handle_));
    DUET_CUFFT(cufftSetAutoAllocation(handle_, 0));
    int sizes[] = {rows, columns}, real[] = {rows, columns}, spectrum[] = {rows, columns / 2 + 1};
    const bool forward = type == CUFFT_R2C;
    DUET_CUFFT(cufftMakePlanMany(handle_, 2, sizes, forward ? real : spectrum, forward ? 1 : planes,
                                 forward ? rows * columns : 1, forward ? spectrum : real,
                                 forward ? planes : 1, forward ? 1 : rows * columns, type, planes,
                                 &workspace_bytes_));
  }
  ~CufftPlan() {
    if (handle_) (void)cufftDestroy(handle_);
  }
  CufftPlan(CufftPlan&& other) noexcept
      : handle_(std::exchange(other.handle_, 0)), workspace_bytes_(other.workspace_bytes_) {}
  CufftPlan& operator=(CufftPlan&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(workspace_bytes_, other.workspace_bytes_);
    return *this;
  }

  size_t workspace_bytes() const { return workspace_bytes_; }
  /// Queues the transform on `stream`. That to real planes leaves nothing of the spectra, and the
  /// planes rows * columns times as large.
  void to_spectra(float* planes, cufftComplex* spectra, void* workspace, cudaStream_t stream) {
    bind(workspace, stream);
    DUET_CUFFT(cufftExecR2C(handle_, planes, spectra));
  }
  void to_planes(cufftComplex* spectra, float* planes, void* workspace, cudaStream_t stream) {
    bind(workspace, stream);
    DUET_CUFFT(cufftExecC2R(handle_, spectra, planes));
  }

 private:
  void bind(void* workspace, cudaStream_t stream) {
    DUET_CUFFT(cufftSetStream(handle_, stream));
    DUET_CUFFT(cufftSetWorkArea(handle_, workspace));
  }

  cufftHandle handle_ = 0;
  size_t workspace_bytes_ = 0;
};

}  // namespace duet::gpu
