# Everything Duet builds on. System packages first; what has a CMake project of its own is fetched
# where the system has none.
include(FetchContent)

function(duet_find_or_fetch package target url)
  find_package(${package} QUIET)
  if(NOT TARGET ${target})
    message(STATUS "${package} was not found; fetching ${url}")
    FetchContent_Declare(${package} URL ${url} DOWNLOAD_EXTRACT_TIMESTAMP ON)
    FetchContent_MakeAvailable(${package})
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
set(BLA_VENDOR OpenBLAS)
find_package(BLAS REQUIRED)
find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas x86_64-linux-gnu REQUIRED)

# Of `trainer download`, which can be done without.
find_package(CURL QUIET)
find_package(OpenSSL QUIET)
find_package(LibArchive QUIET)
set(DUET_DOWNLOADS OFF)
if(TARGET CURL::libcurl AND TARGET OpenSSL::Crypto AND TARGET LibArchive::LibArchive)
  set(DUET_DOWNLOADS ON)
endif()

# What is fetched is installed with Duet, because Duet's package asks for it.
set(SPDLOG_INSTALL ${DUET_INSTALL})
set(YAML_CPP_INSTALL ${DUET_INSTALL})
duet_find_or_fetch(spdlog spdlog::spdlog
  https://github.com/gabime/spdlog/archive/refs/tags/v1.14.1.tar.gz)
duet_find_or_fetch(CLI11 CLI11::CLI11
  https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz)
duet_find_or_fetch(nlohmann_json nlohmann_json::nlohmann_json
  https://github.com/nlohmann/json/archive/refs/tags/v3.11.3.tar.gz)
find_package(yaml-cpp QUIET)
if(NOT yaml-cpp_FOUND)
  duet_find_or_fetch(yaml-cpp yaml-cpp::yaml-cpp
    https://github.com/jbeder/yaml-cpp/archive/refs/tags/0.8.0.tar.gz)
endif()
if(NOT TARGET yaml-cpp::yaml-cpp)  # before 0.8 the target had no namespace
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
if(DUET_TESTS)
  duet_find_or_fetch(GTest GTest::gtest
    https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz)
endif()

# CUDA: AUTO builds it where a compiler, cuDNN, cuBLAS, cuFFT and cuRAND are found.
set(DUET_WITH_CUDA OFF)
if(NOT DUET_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    # The GPU of this machine, or Hopper where there is none to ask.
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE _capability ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(_capability MATCHES "^([0-9]+)\\.([0-9]+)")
      set(CMAKE_CUDA_ARCHITECTURES "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
    else()
      set(CMAKE_CUDA_ARCHITECTURES 90)
    endif()
    set(CMAKE_CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES} CACHE STRING "GPU architectures")
  endif()
  # The toolkit's installer leaves nvcc outside PATH; and a toolkit may have come since the last time.
  find_program(DUET_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda /opt/cuda
    PATH_SUFFIXES bin)
  if(NOT CMAKE_CUDA_COMPILER AND DUET_NVCC)
    unset(CMAKE_CUDA_COMPILER CACHE)
    if(NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} ${DUET_NVCC})
    endif()
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 12.4 QUIET)
    find_package(CUDNN 9 QUIET)
  endif()
  set(_found "nvcc: '${CMAKE_CUDA_COMPILER}', CUDA toolkit 12.4 or later with cuBLAS, cuFFT and "
    "cuRAND: "
    "'${CUDAToolkit_VERSION}', cuDNN 9: '${CUDNN_LIBRARY}'")
  string(CONCAT _found ${_found})
  if(TARGET CUDA::cudart AND TARGET CUDA::cublas AND TARGET CUDA::cufft AND TARGET CUDA::curand
     AND CUDNN_FOUND)
    set(DUET_WITH_CUDA ON)
  elseif(DUET_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DUET_CUDA=ON needs all of these; found ${_found}. Set CUDACXX and CUDNN_ROOT "
      "if they are in unusual places, or configure with -DDUET_CUDA=OFF.")
  endif()
endif()
if(DUET_WITH_CUDA)
  message(STATUS "Duet: building the cpu, custom and cudnn families (found ${_found})")
elseif(DUET_CUDA STREQUAL "OFF")
  message(STATUS "Duet: building the cpu family (DUET_CUDA=OFF)")
else()
  message(STATUS "Duet: building the cpu family; custom and cudnn need all of these (found ${_found})")
endif()
