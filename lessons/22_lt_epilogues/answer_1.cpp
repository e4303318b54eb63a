// Lesson 22, exercise 1: the gradient of the bias as the epilogue of another product.
#define main main_of_the_lesson
#include "lt_epilogues.cpp"
#undef main

void answer() {
  cublasLtHandle_t lt;
  CHECK(cublasLtCreate(&lt));
  const auto x = lesson::random_values(kRows * kIn, 1), dy = lesson::random_values(kRows * kOut, 2);
  std::vector<double> dw(kOut * kIn), db(kOut);
  for (int row = 0; row < kRows; ++row) {
    for (int o = 0; o < kOut; ++o) {
      db[o] += dy[row * kOut + o];
      for (int i = 0; i < kIn; ++i)
        dw[o * kIn + i] += double(dy[row * kOut + o]) * x[row * kIn + i];
    }
  }
  const lesson::Array<float> xs(x), dys(dy), dws(dw.size()), dbs(kOut);
  const float one = 1, zero = 0;
  // region answer
  // Row-major dw = dy^T x is column-major dw^T = x^T dy. BGRADB sums the second operand over the rows.
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t lx, ldy, ldw;
  CHECK(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t turn = CUBLAS_OP_T;
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BGRADB;
  void* gradient = dbs.data();
  CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &turn, sizeof turn));
  CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                       sizeof epilogue));
  CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &gradient,
                                       sizeof gradient));
  CHECK(cublasLtMatrixLayoutCreate(&lx, CUDA_R_32F, kIn, kRows, kIn));
  CHECK(cublasLtMatrixLayoutCreate(&ldy, CUDA_R_32F, kOut, kRows, kOut));
  CHECK(cublasLtMatrixLayoutCreate(&ldw, CUDA_R_32F, kIn, kOut, kIn));
  // No algorithm: cuBLASLt takes the first that its heuristics propose.
  const lesson::Array<char> workspace(size_t{32} << 20);
  CHECK(cublasLtMatmul(lt, operation, &one, xs.data(), lx, dys.data(), ldy, &zero, dws.data(), ldw,
                       dws.data(), ldw, nullptr, workspace.data(), workspace.bytes(), nullptr));
  // end answer
  lesson::compare("dw", dws.host(), dw, 1e-3);
  lesson::compare("db", dbs.host(), db, 1e-3);
  for (auto layout : {lx, ldy, ldw}) CHECK(cublasLtMatrixLayoutDestroy(layout));
  CHECK(cublasLtMatmulDescDestroy(operation));
  CHECK(cublasLtDestroy(lt));
}

int main() { return lesson::run("Lesson 22, answer 1", "dw and db in one call.", answer); }
