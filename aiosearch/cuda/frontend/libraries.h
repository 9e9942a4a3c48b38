// What host code may call of cuBLAS and cuDNN; `library_calls.py` says what is done.

struct cublasContext;
typedef struct cublasContext* cublasHandle_t;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
cublasStatus_t cublasCreate(cublasHandle_t*);
cublasStatus_t cublasDestroy(cublasHandle_t);
cublasStatus_t cublasSetStream(cublasHandle_t, void*);
cublasStatus_t cublasSgemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const float* alpha, const float* a, int lda, const float* b, int ldb, const float* beta, float* c, int ldc);
cublasStatus_t cublasDgemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const double* alpha, const double* a, int lda, const double* b, int ldb, const double* beta, double* c, int ldc);
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const float* alpha, const float* a, int lda, long long strideA, const float* b, int ldb, long long strideB, const float* beta, float* c, int ldc, long long strideC, int count);
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const double* alpha, const double* a, int lda, long long strideA, const double* b, int ldb, long long strideB, const double* beta, double* c, int ldc, long long strideC, int count);
cublasStatus_t cublasSgemmBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const float* alpha, const float* const* a, int lda, const float* const* b, int ldb, const float* beta, float* const* c, int ldc, int count);
cublasStatus_t cublasDgemmBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const double* alpha, const double* const* a, int lda, const double* const* b, int ldb, const double* beta, double* const* c, int ldc, int count);
#define cublasCreate_v2 cublasCreate
#define cublasDestroy_v2 cublasDestroy
#define cublasSgemm_v2 cublasSgemm
#define cublasDgemm_v2 cublasDgemm

struct cudnnContext; struct cudnnTensorStruct; struct cudnnFilterStruct; struct cudnnConvolutionStruct; struct cudnnPoolingStruct; struct cudnnActivationStruct;
typedef struct cudnnContext* cudnnHandle_t;
typedef struct cudnnTensorStruct* cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct* cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct* cudnnConvolutionDescriptor_t;
typedef struct cudnnPoolingStruct* cudnnPoolingDescriptor_t;
typedef struct cudnnActivationStruct* cudnnActivationDescriptor_t;
enum cudnnStatus_t { CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_NOT_SUPPORTED = 9 };
enum cudnnDataType_t { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2 };
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 };
enum cudnnNanPropagation_t { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 };
enum cudnnConvolutionFwdAlgo_t { CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT };
enum cudnnConvolutionBwdDataAlgo_t { CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 };
enum cudnnConvolutionBwdFilterAlgo_t { CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 };
enum cudnnBatchNormMode_t { CUDNN_BATCHNORM_PER_ACTIVATION = 0, CUDNN_BATCHNORM_SPATIAL = 1, CUDNN_BATCHNORM_SPATIAL_PERSISTENT = 2 };
enum cudnnPoolingMode_t { CUDNN_POOLING_MAX = 0, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING = 2 };
enum cudnnActivationMode_t { CUDNN_ACTIVATION_SIGMOID = 0, CUDNN_ACTIVATION_RELU = 1, CUDNN_ACTIVATION_TANH = 2, CUDNN_ACTIVATION_CLIPPED_RELU = 3 };
enum cudnnSoftmaxAlgorithm_t { CUDNN_SOFTMAX_FAST = 0, CUDNN_SOFTMAX_ACCURATE = 1, CUDNN_SOFTMAX_LOG = 2 };
enum cudnnSoftmaxMode_t { CUDNN_SOFTMAX_MODE_INSTANCE = 0, CUDNN_SOFTMAX_MODE_CHANNEL = 1 };
cudnnStatus_t cudnnCreate(cudnnHandle_t*); cudnnStatus_t cudnnDestroy(cudnnHandle_t); cudnnStatus_t cudnnSetStream(cudnnHandle_t, void*);
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t*); cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t*); cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t);
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t*); cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t);
cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t*); cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t);
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t*); cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnDataType_t, int n, int c, int h, int w);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int k, int c, int h, int w);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t, int padH, int padW, int strideH, int strideW, int dilationH, int dilationW, cudnnConvolutionMode_t, cudnnDataType_t);
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t, int);
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t, cudnnPoolingMode_t, cudnnNanPropagation_t, int h, int w, int padH, int padW, int strideH, int strideW);
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t, double);
cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, int*, int*, int*, int*);
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t, size_t*);
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t, const void* x, cudnnFilterDescriptor_t, const void* w, cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t, void* workspace, size_t bytes, const void* beta, cudnnTensorDescriptor_t, void* y);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void* alpha, cudnnFilterDescriptor_t, const void* w, cudnnTensorDescriptor_t, const void* dy, cudnnConvolutionDescriptor_t, cudnnConvolutionBwdDataAlgo_t, void* workspace, size_t bytes, const void* beta, cudnnTensorDescriptor_t, void* dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t, const void* x, cudnnTensorDescriptor_t, const void* dy, cudnnConvolutionDescriptor_t, cudnnConvolutionBwdFilterAlgo_t, void* workspace, size_t bytes, const void* beta, cudnnFilterDescriptor_t, void* dw);
cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t, cudnnBatchNormMode_t, const void* alpha, const void* beta, cudnnTensorDescriptor_t, const void* x, cudnnTensorDescriptor_t, void* y, cudnnTensorDescriptor_t, const void* scale, const void* bias, double factor, void* mean, void* variance, double epsilon, void* savedMean, void* savedInverse);
cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t, cudnnBatchNormMode_t, const void* alpha, const void* beta, cudnnTensorDescriptor_t, const void* x, cudnnTensorDescriptor_t, void* y, cudnnTensorDescriptor_t, const void* scale, const void* bias, const void* mean, const void* variance, double epsilon);
cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t, cudnnBatchNormMode_t, const void* alphaData, const void* betaData, const void* alphaParam, const void* betaParam, cudnnTensorDescriptor_t, const void* x, cudnnTensorDescriptor_t, const void* dy, cudnnTensorDescriptor_t, void* dx, cudnnTensorDescriptor_t, const void* scale, void* dscale, void* dbias, double epsilon, const void* savedMean, const void* savedInverse);
cudnnStatus_t cudnnPoolingForward(cudnnHandle_t, cudnnPoolingDescriptor_t, const void* alpha, cudnnTensorDescriptor_t, const void* x, const void* beta, cudnnTensorDescriptor_t, void* y);
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t, cudnnPoolingDescriptor_t, const void* alpha, cudnnTensorDescriptor_t, const void* y, cudnnTensorDescriptor_t, const void* dy, cudnnTensorDescriptor_t, const void* x, const void* beta, cudnnTensorDescriptor_t, void* dx);
cudnnStatus_t cudnnActivationForward(cudnnHandle_t, cudnnActivationDescriptor_t, const void* alpha, cudnnTensorDescriptor_t, const void* x, const void* beta, cudnnTensorDescriptor_t, void* y);
cudnnStatus_t cudnnActivationBackward(cudnnHandle_t, cudnnActivationDescriptor_t, const void* alpha, cudnnTensorDescriptor_t, const void* y, cudnnTensorDescriptor_t, const void* dy, cudnnTensorDescriptor_t, const void* x, const void* beta, cudnnTensorDescriptor_t, void* dx);
cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, const void* alpha, cudnnTensorDescriptor_t, const void* x, const void* beta, cudnnTensorDescriptor_t, void* y);
cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, const void* alpha, cudnnTensorDescriptor_t, const void* y, cudnnTensorDescriptor_t, const void* dy, const void* beta, cudnnTensorDescriptor_t, void* dx);
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t, size_t*);
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t, cudnnConvolutionBwdFilterAlgo_t, size_t*);
cudnnStatus_t cudnnAddTensor(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t, const void* a, const void* beta, cudnnTensorDescriptor_t, void* c);
cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t, const void* dy, const void* beta, cudnnTensorDescriptor_t, void* db);
