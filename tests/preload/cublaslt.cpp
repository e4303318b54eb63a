// Stands for cuBLASLt in programs that tests start on a machine without a GPU. The linker spends
// 0.1 s of each start on NVIDIA's library, 350,000 relocations, and nothing there calls it but
// cuBLAS, for its version. A call of any other function ends the program: "undefined symbol".
#include <cublasLt.h>

extern "C" cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION   ? CUBLAS_VER_MAJOR
           : type == MINOR_VERSION ? CUBLAS_VER_MINOR
                                   : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}
