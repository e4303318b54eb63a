// Keeps OpenBLAS from using threads of its own: loops are shared by core/parallel.h.
#pragma once

#include <cblas.h>

namespace duet {

/// One thread for all BLAS calls of the process while it lives. Cheap: sets a number.
class SingleThreadedBlas {
 public:
  SingleThreadedBlas() : threads_(openblas_get_num_threads()) { openblas_set_num_threads(1); }
  ~SingleThreadedBlas() { openblas_set_num_threads(threads_); }
  SingleThreadedBlas(const SingleThreadedBlas&) = delete;
  SingleThreadedBlas& operator=(const SingleThreadedBlas&) = delete;

 private:
  int threads_;
};

}  // namespace duet
