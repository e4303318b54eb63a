// The functions of cuDNN, cuBLAS, cuBLASLt and cuFFT that Duet calls, each with its parameters as
// NVIDIA's headers name them. A call to one that is missing here is not recorded;
// explain_test.cpp compares this list with the source.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>
#include <cufft.h>

#include "recorder.h"

// usage: RECORDED(result, function, (parameters), (their names))
#define RECORDED(result, function, parameters, arguments)                                  \
  extern "C" result function parameters {                                                  \
    static const auto next = duet::recorder::next_of<result parameters>(SYMBOL(function)); \
    return duet::recorder::call(#function, #arguments, next, std::tie arguments);          \
  }
#define SYMBOL(function) SYMBOL_TEXT(function)  // cublasCreate is a macro: cublasCreate_v2
#define SYMBOL_TEXT(function) #function

RECORDED(cudnnStatus_t, cudnnActivationBackward,
         (cudnnHandle_t handle, cudnnActivationDescriptor_t activationDesc, const void* alpha,
          const cudnnTensorDescriptor_t yDesc, const void* y, const cudnnTensorDescriptor_t dyDesc,
          const void* dy, const cudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
          const cudnnTensorDescriptor_t dxDesc, void* dx),
         (handle, activationDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx))
RECORDED(cudnnStatus_t, cudnnActivationForward,
         (cudnnHandle_t handle, cudnnActivationDescriptor_t activationDesc, const void* alpha,
          const cudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
          const cudnnTensorDescriptor_t yDesc, void* y),
         (handle, activationDesc, alpha, xDesc, x, beta, yDesc, y))
RECORDED(cudnnStatus_t, cudnnAddTensor,
         (cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t aDesc,
          const void* A, const void* beta, const cudnnTensorDescriptor_t cDesc, void* C),
         (handle, alpha, aDesc, A, beta, cDesc, C))
RECORDED(cudnnStatus_t, cudnnBackendCreateDescriptor,
         (cudnnBackendDescriptorType_t descriptorType, cudnnBackendDescriptor_t* descriptor),
         (descriptorType, descriptor))
RECORDED(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor),
         (descriptor))
RECORDED(cudnnStatus_t, cudnnBackendExecute,
         (cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
          cudnnBackendDescriptor_t variantPack),
         (handle, executionPlan, variantPack))
RECORDED(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor), (descriptor))
RECORDED(cudnnStatus_t, cudnnBackendGetAttribute,
         (cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t attributeName,
          cudnnBackendAttributeType_t attributeType, int64_t requestedElementCount,
          int64_t* elementCount, void* arrayOfElements),
         (descriptor, attributeName, attributeType, requestedElementCount, elementCount,
          arrayOfElements))
RECORDED(cudnnStatus_t, cudnnBackendSetAttribute,
         (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t attributeName,
          cudnnBackendAttributeType_t attributeType, int64_t elementCount,
          const void* arrayOfElements),
         (descriptor, attributeName, attributeType, elementCount, arrayOfElements))
RECORDED(cudnnStatus_t, cudnnBatchNormalizationBackward,
         (cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alphaDataDiff,
          const void* betaDataDiff, const void* alphaParamDiff, const void* betaParamDiff,
          const cudnnTensorDescriptor_t xDesc, const void* x, const cudnnTensorDescriptor_t dyDesc,
          const void* dy, const cudnnTensorDescriptor_t dxDesc, void* dx,
          const cudnnTensorDescriptor_t dBnScaleBiasDesc, const void* bnScale, void* dBnScaleResult,
          void* dBnBiasResult, double epsilon, const void* savedMean, const void* savedInvVariance),
         (handle, mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff, xDesc, x,
          dyDesc, dy, dxDesc, dx, dBnScaleBiasDesc, bnScale, dBnScaleResult, dBnBiasResult, epsilon,
          savedMean, savedInvVariance))
RECORDED(cudnnStatus_t, cudnnBatchNormalizationForwardInference,
         (cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
          const cudnnTensorDescriptor_t xDesc, const void* x, const cudnnTensorDescriptor_t yDesc,
          void* y, const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void* bnScale,
          const void* bnBias, const void* estimatedMean, const void* estimatedVariance,
          double epsilon),
         (handle, mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc, bnScale, bnBias,
          estimatedMean, estimatedVariance, epsilon))
RECORDED(cudnnStatus_t, cudnnBatchNormalizationForwardTraining,
         (cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
          const cudnnTensorDescriptor_t xDesc, const void* x, const cudnnTensorDescriptor_t yDesc,
          void* y, const cudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void* bnScale,
          const void* bnBias, double exponentialAverageFactor, void* resultRunningMean,
          void* resultRunningVariance, double epsilon, void* resultSaveMean,
          void* resultSaveInvVariance),
         (handle, mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc, bnScale, bnBias,
          exponentialAverageFactor, resultRunningMean, resultRunningVariance, epsilon,
          resultSaveMean, resultSaveInvVariance))
RECORDED(cudnnStatus_t, cudnnConvolutionBackwardBias,
         (cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t dyDesc,
          const void* dy, const void* beta, const cudnnTensorDescriptor_t dbDesc, void* db),
         (handle, alpha, dyDesc, dy, beta, dbDesc, db))
RECORDED(cudnnStatus_t, cudnnConvolutionBackwardData,
         (cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t wDesc,
          const void* w, const cudnnTensorDescriptor_t dyDesc, const void* dy,
          const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionBwdDataAlgo_t algo,
          void* workSpace, size_t workSpaceSizeInBytes, const void* beta,
          const cudnnTensorDescriptor_t dxDesc, void* dx),
         (handle, alpha, wDesc, w, dyDesc, dy, convDesc, algo, workSpace, workSpaceSizeInBytes,
          beta, dxDesc, dx))
RECORDED(cudnnStatus_t, cudnnConvolutionBackwardFilter,
         (cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t xDesc,
          const void* x, const cudnnTensorDescriptor_t dyDesc, const void* dy,
          const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionBwdFilterAlgo_t algo,
          void* workSpace, size_t workSpaceSizeInBytes, const void* beta,
          const cudnnFilterDescriptor_t dwDesc, void* dw),
         (handle, alpha, xDesc, x, dyDesc, dy, convDesc, algo, workSpace, workSpaceSizeInBytes,
          beta, dwDesc, dw))
RECORDED(cudnnStatus_t, cudnnConvolutionBiasActivationForward,
         (cudnnHandle_t handle, const void* alpha1, const cudnnTensorDescriptor_t xDesc,
          const void* x, const cudnnFilterDescriptor_t wDesc, const void* w,
          const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionFwdAlgo_t algo,
          void* workSpace, size_t workSpaceSizeInBytes, const void* alpha2,
          const cudnnTensorDescriptor_t zDesc, const void* z,
          const cudnnTensorDescriptor_t biasDesc, const void* bias,
          const cudnnActivationDescriptor_t activationDesc, const cudnnTensorDescriptor_t yDesc,
          void* y),
         (handle, alpha1, xDesc, x, wDesc, w, convDesc, algo, workSpace, workSpaceSizeInBytes,
          alpha2, zDesc, z, biasDesc, bias, activationDesc, yDesc, y))
RECORDED(cudnnStatus_t, cudnnConvolutionForward,
         (cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t xDesc,
          const void* x, const cudnnFilterDescriptor_t wDesc, const void* w,
          const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionFwdAlgo_t algo,
          void* workSpace, size_t workSpaceSizeInBytes, const void* beta,
          const cudnnTensorDescriptor_t yDesc, void* y),
         (handle, alpha, xDesc, x, wDesc, w, convDesc, algo, workSpace, workSpaceSizeInBytes, beta,
          yDesc, y))
RECORDED(cudnnStatus_t, cudnnCreate, (cudnnHandle_t * handle), (handle))
RECORDED(cudnnStatus_t, cudnnCreateActivationDescriptor,
         (cudnnActivationDescriptor_t * activationDesc), (activationDesc))
RECORDED(cudnnStatus_t, cudnnCreateConvolutionDescriptor, (cudnnConvolutionDescriptor_t * convDesc),
         (convDesc))
RECORDED(cudnnStatus_t, cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t * filterDesc),
         (filterDesc))
RECORDED(cudnnStatus_t, cudnnCreateOpTensorDescriptor, (cudnnOpTensorDescriptor_t * opTensorDesc),
         (opTensorDesc))
RECORDED(cudnnStatus_t, cudnnCreatePoolingDescriptor, (cudnnPoolingDescriptor_t * poolingDesc),
         (poolingDesc))
RECORDED(cudnnStatus_t, cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t * tensorDesc),
         (tensorDesc))
RECORDED(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle), (handle))
RECORDED(cudnnStatus_t, cudnnDestroyActivationDescriptor,
         (cudnnActivationDescriptor_t activationDesc), (activationDesc))
RECORDED(cudnnStatus_t, cudnnDestroyConvolutionDescriptor, (cudnnConvolutionDescriptor_t convDesc),
         (convDesc))
RECORDED(cudnnStatus_t, cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t filterDesc),
         (filterDesc))
RECORDED(cudnnStatus_t, cudnnDestroyOpTensorDescriptor, (cudnnOpTensorDescriptor_t opTensorDesc),
         (opTensorDesc))
RECORDED(cudnnStatus_t, cudnnDestroyPoolingDescriptor, (cudnnPoolingDescriptor_t poolingDesc),
         (poolingDesc))
RECORDED(cudnnStatus_t, cudnnDestroyTensorDescriptor, (cudnnTensorDescriptor_t tensorDesc),
         (tensorDesc))
RECORDED(cudnnStatus_t, cudnnGetConvolutionBackwardDataAlgorithm_v7,
         (cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc,
          const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
          const cudnnTensorDescriptor_t gradDesc, const int requestedAlgoCount,
          int* returnedAlgoCount, cudnnConvolutionBwdDataAlgoPerf_t* perfResults),
         (handle, filterDesc, diffDesc, convDesc, gradDesc, requestedAlgoCount, returnedAlgoCount,
          perfResults))
RECORDED(cudnnStatus_t, cudnnGetConvolutionBackwardDataWorkspaceSize,
         (cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc,
          const cudnnTensorDescriptor_t dyDesc, const cudnnConvolutionDescriptor_t convDesc,
          const cudnnTensorDescriptor_t dxDesc, cudnnConvolutionBwdDataAlgo_t algo,
          size_t* sizeInBytes),
         (handle, wDesc, dyDesc, convDesc, dxDesc, algo, sizeInBytes))
RECORDED(cudnnStatus_t, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
         (cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
          const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
          const cudnnFilterDescriptor_t gradDesc, const int requestedAlgoCount,
          int* returnedAlgoCount, cudnnConvolutionBwdFilterAlgoPerf_t* perfResults),
         (handle, srcDesc, diffDesc, convDesc, gradDesc, requestedAlgoCount, returnedAlgoCount,
          perfResults))
RECORDED(cudnnStatus_t, cudnnGetConvolutionBackwardFilterWorkspaceSize,
         (cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc,
          const cudnnTensorDescriptor_t dyDesc, const cudnnConvolutionDescriptor_t convDesc,
          const cudnnFilterDescriptor_t gradDesc, cudnnConvolutionBwdFilterAlgo_t algo,
          size_t* sizeInBytes),
         (handle, xDesc, dyDesc, convDesc, gradDesc, algo, sizeInBytes))
RECORDED(cudnnStatus_t, cudnnGetConvolutionForwardAlgorithm_v7,
         (cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
          const cudnnFilterDescriptor_t filterDesc, const cudnnConvolutionDescriptor_t convDesc,
          const cudnnTensorDescriptor_t destDesc, const int requestedAlgoCount,
          int* returnedAlgoCount, cudnnConvolutionFwdAlgoPerf_t* perfResults),
         (handle, srcDesc, filterDesc, convDesc, destDesc, requestedAlgoCount, returnedAlgoCount,
          perfResults))
RECORDED(cudnnStatus_t, cudnnGetConvolutionForwardWorkspaceSize,
         (cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc,
          const cudnnFilterDescriptor_t wDesc, const cudnnConvolutionDescriptor_t convDesc,
          const cudnnTensorDescriptor_t yDesc, cudnnConvolutionFwdAlgo_t algo, size_t* sizeInBytes),
         (handle, xDesc, wDesc, convDesc, yDesc, algo, sizeInBytes))
RECORDED(cudnnStatus_t, cudnnOpTensor,
         (cudnnHandle_t handle, const cudnnOpTensorDescriptor_t opTensorDesc, const void* alpha1,
          const cudnnTensorDescriptor_t aDesc, const void* A, const void* alpha2,
          const cudnnTensorDescriptor_t bDesc, const void* B, const void* beta,
          const cudnnTensorDescriptor_t cDesc, void* C),
         (handle, opTensorDesc, alpha1, aDesc, A, alpha2, bDesc, B, beta, cDesc, C))
RECORDED(cudnnStatus_t, cudnnPoolingBackward,
         (cudnnHandle_t handle, const cudnnPoolingDescriptor_t poolingDesc, const void* alpha,
          const cudnnTensorDescriptor_t yDesc, const void* y, const cudnnTensorDescriptor_t dyDesc,
          const void* dy, const cudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
          const cudnnTensorDescriptor_t dxDesc, void* dx),
         (handle, poolingDesc, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx))
RECORDED(cudnnStatus_t, cudnnPoolingForward,
         (cudnnHandle_t handle, const cudnnPoolingDescriptor_t poolingDesc, const void* alpha,
          const cudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
          const cudnnTensorDescriptor_t yDesc, void* y),
         (handle, poolingDesc, alpha, xDesc, x, beta, yDesc, y))
RECORDED(cudnnStatus_t, cudnnSetActivationDescriptor,
         (cudnnActivationDescriptor_t activationDesc, cudnnActivationMode_t mode,
          cudnnNanPropagation_t reluNanOpt, double coef),
         (activationDesc, mode, reluNanOpt, coef))
RECORDED(cudnnStatus_t, cudnnSetActivationDescriptorSwishBeta,
         (cudnnActivationDescriptor_t activationDesc, double swish_beta),
         (activationDesc, swish_beta))
RECORDED(cudnnStatus_t, cudnnSetConvolution2dDescriptor,
         (cudnnConvolutionDescriptor_t convDesc, int pad_h, int pad_w, int u, int v, int dilation_h,
          int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t computeType),
         (convDesc, pad_h, pad_w, u, v, dilation_h, dilation_w, mode, computeType))
RECORDED(cudnnStatus_t, cudnnSetConvolutionGroupCount,
         (cudnnConvolutionDescriptor_t convDesc, int groupCount), (convDesc, groupCount))
RECORDED(cudnnStatus_t, cudnnSetConvolutionMathType,
         (cudnnConvolutionDescriptor_t convDesc, cudnnMathType_t mathType), (convDesc, mathType))
RECORDED(cudnnStatus_t, cudnnSetFilter4dDescriptor,
         (cudnnFilterDescriptor_t filterDesc, cudnnDataType_t dataType, cudnnTensorFormat_t format,
          int k, int c, int h, int w),
         (filterDesc, dataType, format, k, c, h, w))
RECORDED(cudnnStatus_t, cudnnSetOpTensorDescriptor,
         (cudnnOpTensorDescriptor_t opTensorDesc, cudnnOpTensorOp_t opTensorOp,
          cudnnDataType_t opTensorCompType, cudnnNanPropagation_t opTensorNanOpt),
         (opTensorDesc, opTensorOp, opTensorCompType, opTensorNanOpt))
RECORDED(cudnnStatus_t, cudnnSetPooling2dDescriptor,
         (cudnnPoolingDescriptor_t poolingDesc, cudnnPoolingMode_t mode,
          cudnnNanPropagation_t maxpoolingNanOpt, int windowHeight, int windowWidth,
          int verticalPadding, int horizontalPadding, int verticalStride, int horizontalStride),
         (poolingDesc, mode, maxpoolingNanOpt, windowHeight, windowWidth, verticalPadding,
          horizontalPadding, verticalStride, horizontalStride))
RECORDED(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t streamId),
         (handle, streamId))
RECORDED(cudnnStatus_t, cudnnSetTensor4dDescriptor,
         (cudnnTensorDescriptor_t tensorDesc, cudnnTensorFormat_t format, cudnnDataType_t dataType,
          int n, int c, int h, int w),
         (tensorDesc, format, dataType, n, c, h, w))
RECORDED(cudnnStatus_t, cudnnSetTensor4dDescriptorEx,
         (cudnnTensorDescriptor_t tensorDesc, cudnnDataType_t dataType, int n, int c, int h, int w,
          int nStride, int cStride, int hStride, int wStride),
         (tensorDesc, dataType, n, c, h, w, nStride, cStride, hStride, wStride))
RECORDED(cudnnStatus_t, cudnnSoftmaxBackward,
         (cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo, cudnnSoftmaxMode_t mode,
          const void* alpha, const cudnnTensorDescriptor_t yDesc, const void* y,
          const cudnnTensorDescriptor_t dyDesc, const void* dy, const void* beta,
          const cudnnTensorDescriptor_t dxDesc, void* dx),
         (handle, algo, mode, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx))
RECORDED(cudnnStatus_t, cudnnSoftmaxForward,
         (cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo, cudnnSoftmaxMode_t mode,
          const void* alpha, const cudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
          const cudnnTensorDescriptor_t yDesc, void* y),
         (handle, algo, mode, alpha, xDesc, x, beta, yDesc, y))
RECORDED(cudnnStatus_t, cudnnTransformTensor,
         (cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t xDesc,
          const void* x, const void* beta, const cudnnTensorDescriptor_t yDesc, void* y),
         (handle, alpha, xDesc, x, beta, yDesc, y))

RECORDED(cublasStatus_t, cublasCreate, (cublasHandle_t * handle), (handle))
RECORDED(cublasStatus_t, cublasDestroy, (cublasHandle_t handle), (handle))
RECORDED(cublasStatus_t, cublasGemmEx,
         (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
          int k, const void* alpha, const void* A, cudaDataType Atype, int lda, const void* B,
          cudaDataType Btype, int ldb, const void* beta, void* C, cudaDataType Ctype, int ldc,
          cublasComputeType_t computeType, cublasGemmAlgo_t algo),
         (handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype, ldc,
          computeType, algo))
RECORDED(cublasStatus_t, cublasGemmStridedBatchedEx,
         (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
          int k, const void* alpha, const void* A, cudaDataType Atype, int lda,
          long long int strideA, const void* B, cudaDataType Btype, int ldb, long long int strideB,
          const void* beta, void* C, cudaDataType Ctype, int ldc, long long int strideC,
          int batchCount, cublasComputeType_t computeType, cublasGemmAlgo_t algo),
         (handle, transa, transb, m, n, k, alpha, A, Atype, lda, strideA, B, Btype, ldb, strideB,
          beta, C, Ctype, ldc, strideC, batchCount, computeType, algo))
RECORDED(cublasStatus_t, cublasGetVersion, (cublasHandle_t handle, int* version), (handle, version))
RECORDED(cublasStatus_t, cublasLtMatmul,
         (cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void* alpha,
          const void* A, cublasLtMatrixLayout_t Adesc, const void* B, cublasLtMatrixLayout_t Bdesc,
          const void* beta, const void* C, cublasLtMatrixLayout_t Cdesc, void* D,
          cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t* algo, void* workspace,
          size_t workspaceSizeInBytes, cudaStream_t stream),
         (lightHandle, computeDesc, alpha, A, Adesc, B, Bdesc, beta, C, Cdesc, D, Ddesc, algo,
          workspace, workspaceSizeInBytes, stream))
RECORDED(cublasStatus_t, cublasLtMatmulAlgoCheck,
         (cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
          cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc,
          cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t* algo,
          cublasLtMatmulHeuristicResult_t* result),
         (lightHandle, operationDesc, Adesc, Bdesc, Cdesc, Ddesc, algo, result))
RECORDED(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,
         (const cublasLtMatmulAlgo_t* algo, cublasLtMatmulAlgoConfigAttributes_t attr, void* buf,
          size_t sizeInBytes, size_t* sizeWritten),
         (algo, attr, buf, sizeInBytes, sizeWritten))
RECORDED(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
         (cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
          cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc,
          cublasLtMatrixLayout_t Ddesc, cublasLtMatmulPreference_t preference,
          int requestedAlgoCount, cublasLtMatmulHeuristicResult_t heuristicResultsArray[],
          int* returnAlgoCount),
         (lightHandle, operationDesc, Adesc, Bdesc, Cdesc, Ddesc, preference, requestedAlgoCount,
          heuristicResultsArray, returnAlgoCount))
RECORDED(cublasStatus_t, cublasLtMatmulDescCreate,
         (cublasLtMatmulDesc_t * matmulDesc, cublasComputeType_t computeType,
          cudaDataType_t scaleType),
         (matmulDesc, computeType, scaleType))
RECORDED(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t matmulDesc), (matmulDesc))
RECORDED(cublasStatus_t, cublasLtMatmulDescSetAttribute,
         (cublasLtMatmulDesc_t matmulDesc, cublasLtMatmulDescAttributes_t attr, const void* buf,
          size_t sizeInBytes),
         (matmulDesc, attr, buf, sizeInBytes))
RECORDED(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * pref),
         (pref))
RECORDED(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t pref), (pref))
RECORDED(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
         (cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t attr,
          const void* buf, size_t sizeInBytes),
         (pref, attr, buf, sizeInBytes))
RECORDED(cublasStatus_t, cublasLtMatrixLayoutCreate,
         (cublasLtMatrixLayout_t * matLayout, cudaDataType type, uint64_t rows, uint64_t cols,
          int64_t ld),
         (matLayout, type, rows, cols, ld))
RECORDED(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t matLayout),
         (matLayout))
RECORDED(cublasStatus_t, cublasSetMathMode, (cublasHandle_t handle, cublasMath_t mode),
         (handle, mode))
RECORDED(cublasStatus_t, cublasSetStream, (cublasHandle_t handle, cudaStream_t streamId),
         (handle, streamId))
RECORDED(cublasStatus_t, cublasSetWorkspace,
         (cublasHandle_t handle, void* workspace, size_t workspaceSizeInBytes),
         (handle, workspace, workspaceSizeInBytes))
RECORDED(cublasStatus_t, cublasSgemm,
         (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
          int k, const float* alpha, const float* A, int lda, const float* B, int ldb,
          const float* beta, float* C, int ldc),
         (handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc))
RECORDED(cublasStatus_t, cublasSgemv,
         (cublasHandle_t handle, cublasOperation_t trans, int m, int n, const float* alpha,
          const float* A, int lda, const float* x, int incx, const float* beta, float* y, int incy),
         (handle, trans, m, n, alpha, A, lda, x, incx, beta, y, incy))

RECORDED(cufftResult, cufftCreate, (cufftHandle * handle), (handle))
RECORDED(cufftResult, cufftDestroy, (cufftHandle plan), (plan))
RECORDED(cufftResult, cufftExecC2R, (cufftHandle plan, cufftComplex* idata, cufftReal* odata),
         (plan, idata, odata))
RECORDED(cufftResult, cufftExecR2C, (cufftHandle plan, cufftReal* idata, cufftComplex* odata),
         (plan, idata, odata))
RECORDED(cufftResult, cufftMakePlanMany,
         (cufftHandle plan, int rank, int* n, int* inembed, int istride, int idist, int* onembed,
          int ostride, int odist, cufftType type, int batch, size_t* workSize),
         (plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, workSize))
RECORDED(cufftResult, cufftSetAutoAllocation, (cufftHandle plan, int autoAllocate),
         (plan, autoAllocate))
RECORDED(cufftResult, cufftSetStream, (cufftHandle plan, cudaStream_t stream), (plan, stream))
RECORDED(cufftResult, cufftSetWorkArea, (cufftHandle plan, void* workArea), (plan, workArea))
