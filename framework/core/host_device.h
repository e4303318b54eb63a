// Marks functions that device code calls too.
#pragma once

#ifdef __CUDACC__
#define DUET_HOST_DEVICE __host__ __device__
#else
#define DUET_HOST_DEVICE
#endif
