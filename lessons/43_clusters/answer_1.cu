// Lesson 43, exercise 1: clusters of 16 blocks, where the GPU has them.
#define main main_of_the_lesson
#include "clusters.cu"
#undef main

void answer() {
  const auto x = lesson::random_values(size_t{kRows} * kWidth, 1);
  const lesson::Array<float> xs(x), ys(x.size());
  // region answer
  CHECK(cudaFuncSetAttribute(center_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 16;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kRows * 16);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kWidth / 16 * sizeof(float);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;  // that run at the same time; 0: none ever would
  if (cudaOccupancyMaxActiveClusters(&clusters, center_kernel, &config) != cudaSuccess) {
    (void)cudaGetLastError();  // some GPUs have no more than 8
  }
  const int blocks = clusters > 0 ? 16 : 8;
  std::printf("%d clusters of 16 run at the same time\n", clusters);
  // end answer
  const double us = lesson::microseconds([&] { CHECK(launch(blocks, xs.data(), ys.data())); });
  std::printf("clusters of %d: %.1f us\n", blocks, us);
  lesson::compare("x - mean", ys.host(), plain(x), 1e-5);
}

int main() {
  return lesson::run("Lesson 43, answer 1", "Clusters of 16 blocks.", answer,
                     {9, 0, "clusters came with Hopper"});
}
