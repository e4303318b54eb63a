// The OpenMP runtime that compiled kernels bring into this process. Duet itself uses none
// (core/parallel.h): without such kernels nothing here does anything.
#pragma once

namespace duet::openmp {

/// The threads of the calling thread's next parallel region; 0 if no runtime is loaded.
int threads();
/// As omp_set_num_threads().
void set_threads(int threads);
/// Calls body(data) at once in every thread of a team, as `#pragma omp parallel` does: of `threads`,
/// or of threads() if that is 0. Without a runtime the calling thread is the team.
void in_every_thread(void (*body)(void* data), void* data, int threads = 0);

}  // namespace duet::openmp
