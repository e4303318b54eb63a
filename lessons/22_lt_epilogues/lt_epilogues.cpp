// Lesson 22: cuBLASLt: layouts, epilogues (bias and relu inside the product), heuristics.
#include <cublasLt.h>
#include <cublas_v2.h>

#include "../lesson.h"

// region constants
constexpr int kRows = 512, kIn = 384, kOut = 256;  // y = relu(x w^T + b), all row-major
// end constants

// region plain
std::vector<double> plain(const std::vector<float>& x, const std::vector<float>& w,
                          const std::vector<float>& b) {
  std::vector<double> y;
  for (int i = 0; i < kRows * kOut; ++i) {
    double sum = b[i % kOut];
    for (int k = 0; k < kIn; ++k) sum += double(x[i / kOut * kIn + k]) * w[i % kOut * kIn + k];
    y.push_back(std::max(0.0, sum));
  }
  return y;
}
// end plain

// region describe
/// What is multiplied, and how. Column-major, like cuBLAS: y^T = w x^T.
struct Product {
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t w, x, y;
  explicit Product(cublasComputeType_t compute) {
    CHECK(cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    // Rows of w, seen as columns: rows, columns, and the step from column to column.
    CHECK(cublasLtMatrixLayoutCreate(&w, CUDA_R_32F, kIn, kOut, kIn));
    CHECK(cublasLtMatrixLayoutCreate(&x, CUDA_R_32F, kIn, kRows, kIn));
    CHECK(cublasLtMatrixLayoutCreate(&y, CUDA_R_32F, kOut, kRows, kOut));
  }
  ~Product() {
    for (auto layout : {w, x, y}) (void)cublasLtMatrixLayoutDestroy(layout);
    (void)cublasLtMatmulDescDestroy(operation);
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) const {
    CHECK(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value));
  }
};
// end describe

// region propose
/// Up to 6 algorithms for the product, as the heuristics order them.
std::vector<cublasLtMatmulHeuristicResult_t> propose(cublasLtHandle_t lt, const Product& p,
                                                     size_t workspace) {
  cublasLtMatmulPreference_t preference;
  CHECK(cublasLtMatmulPreferenceCreate(&preference));
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof workspace));
  std::vector<cublasLtMatmulHeuristicResult_t> results(6);
  int found = 0;
  CHECK(cublasLtMatmulAlgoGetHeuristic(lt, p.operation, p.w, p.x, p.y, p.y, preference,
                                       static_cast<int>(results.size()), results.data(), &found));
  CHECK(cublasLtMatmulPreferenceDestroy(preference));
  results.resize(found);
  return results;
}
// end propose

void teach() {
  cublasLtHandle_t lt;
  CHECK(cublasLtCreate(&lt));
  const auto x = lesson::random_values(kRows * kIn, 1), w = lesson::random_values(kOut * kIn, 2);
  const auto b = lesson::random_values(kOut, 3);
  const std::vector<double> expected = plain(x, w, b);
  // region memory
  const lesson::Array<float> xs(x), ws(w), bs(b), ys(expected.size());
  const lesson::Array<char> workspace(size_t{32} << 20);
  const float one = 1, zero = 0;
  // end memory
  const auto multiply = [&](const Product& p, const cublasLtMatmulHeuristicResult_t& choice) {
    CHECK(cublasLtMatmul(lt, p.operation, &one, ws.data(), p.w, xs.data(), p.x, &zero, ys.data(),
                         p.y, ys.data(), p.y, &choice.algo, workspace.data(), workspace.bytes(),
                         nullptr));
  };

  // region epilogue
  const Product plain_product(CUBLAS_COMPUTE_32F), fused(CUBLAS_COMPUTE_32F);
  fused.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_BIAS);
  fused.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bs.data()));
  const auto choices = propose(lt, fused, workspace.bytes());
  lesson::expect("the heuristics propose an algorithm", !choices.empty());
  for (const auto& choice : choices) {
    int id = 0, tile = 0;
    size_t written = 0;
    CHECK(cublasLtMatmulAlgoConfigGetAttribute(&choice.algo, CUBLASLT_ALGO_CONFIG_ID, &id,
                                               sizeof id, &written));
    CHECK(cublasLtMatmulAlgoConfigGetAttribute(&choice.algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile,
                                               sizeof tile, &written));
    const double us = lesson::microseconds([&] { multiply(fused, choice); });
    std::printf("algorithm %d, tile %d, workspace %zu bytes, waves %.2f: %.1f us\n", id, tile,
                choice.workspaceSize, choice.wavesCount, us);
    lesson::compare("relu(x w^T + b)", ys.host(), expected, 1e-4);
  }
  // end epilogue

  // region worth
  const auto without = propose(lt, plain_product, workspace.bytes());
  if (!without.empty() && !choices.empty()) {
    const double alone = lesson::microseconds([&] { multiply(plain_product, without[0]); });
    const double together = lesson::microseconds([&] { multiply(fused, choices[0]); });
    std::printf("product alone %.1f us, with bias and relu %.1f us\n", alone, together);
  }
  // end worth

  // region wrong
  // w with a row too few: the inner sizes of the product no longer agree.
  Product mismatched(CUBLAS_COMPUTE_32F);
  CHECK(cublasLtMatrixLayoutDestroy(mismatched.w));
  CHECK(cublasLtMatrixLayoutCreate(&mismatched.w, CUDA_R_32F, kIn - 1, kOut, kIn));
  SHOULD_FAIL(cublasLtMatmul(lt, mismatched.operation, &one, ws.data(), mismatched.w, xs.data(),
                             mismatched.x, &zero, ys.data(), mismatched.y, ys.data(), mismatched.y,
                             nullptr, workspace.data(), workspace.bytes(), nullptr),
              CUBLAS_STATUS_INVALID_VALUE);
  // end wrong
  CHECK(cublasLtDestroy(lt));
}

int main() {
  return lesson::run("Lesson 22: cuBLASLt",
                     "Computes relu(x w^T + b) in one call, with every algorithm that the "
                     "heuristics propose.",
                     teach);
}
