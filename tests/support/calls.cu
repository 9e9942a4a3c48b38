// A host function for each call of cuBLAS and cuDNN; `p` holds the numbers of descriptors.
#include <cublas_v2.h>
#include <cudnn.h>

#ifndef REAL
#define REAL float
#define TYPE CUDNN_DATA_FLOAT
#endif

void tensor(cudnnTensorDescriptor_t *d, const int *s) {
  cudnnCreateTensorDescriptor(d);
  cudnnSetTensor4dDescriptor(*d, CUDNN_TENSOR_NCHW, TYPE, s[0], s[1], s[2], s[3]);
}

// sizes: image, filter, output; then padding, strides, dilations, groups
void convolve(int which, const int *s, REAL alpha, REAL beta, const REAL *first, const REAL *second, REAL *out) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t window;
  size_t bytes;
  cudnnCreate(&handle);
  tensor(&x, s);
  cudnnCreateFilterDescriptor(&w);
  cudnnSetFilter4dDescriptor(w, TYPE, CUDNN_TENSOR_NCHW, s[4], s[5], s[6], s[7]);
  tensor(&y, s + 8);
  cudnnCreateConvolutionDescriptor(&window);
  cudnnSetConvolution2dDescriptor(window, s[12], s[13], s[14], s[15], s[16], s[17], CUDNN_CROSS_CORRELATION, TYPE);
  cudnnSetConvolutionGroupCount(window, s[18]);
  if (which == 0) {
    cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, window, y, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &bytes);
    cudnnConvolutionForward(handle, &alpha, x, first, w, second, window, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, 0, bytes, &beta, y, out);
  } else if (which == 1) {
    cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, y, window, x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, &bytes);
    cudnnConvolutionBackwardData(handle, &alpha, w, first, y, second, window, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, 0, bytes, &beta, x, out);
  } else {
    cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, y, window, w, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, &bytes);
    cudnnConvolutionBackwardFilter(handle, &alpha, x, first, y, second, window, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, 0, bytes, &beta, w, out);
  }
}

void bias(const int *s, const REAL *b, REAL *y, REAL *back) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t large, small;
  REAL one = 1, zero = 0;
  cudnnCreate(&handle);
  tensor(&large, s);
  tensor(&small, s + 4);
  cudnnConvolutionBackwardBias(handle, &one, large, y, &zero, small, back);
  cudnnAddTensor(handle, &one, small, b, &one, large, y);
}

void normalize(const int *s, const REAL *x, const REAL *dy, const REAL *scale, const REAL *bias, REAL *running, REAL *saved,
               REAL *y, REAL *inferred, REAL *dx, REAL *slopes) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t large, small;
  REAL one = 1, zero = 0;
  int c = s[1];
  cudnnCreate(&handle);
  tensor(&large, s);
  tensor(&small, s + 4);
  cudnnBatchNormalizationForwardTraining(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, large, x, large, y, small, scale, bias,
                                         0.25, running, running + c, 1e-3, saved, saved + c);
  cudnnBatchNormalizationForwardInference(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, large, x, large, inferred, small, scale,
                                          bias, running, running + c, 1e-3);
  cudnnBatchNormalizationBackward(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, large, x, large, dy, large, dx,
                                  small, scale, slopes, slopes + c, 1e-3, saved, saved + c);
}

// p: mode, size, padding, strides
void pool(const int *s, const int *p, const REAL *x, const REAL *dy, REAL *y, REAL *dx) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t large, small;
  cudnnPoolingDescriptor_t pooling;
  REAL one = 1, zero = 0;
  cudnnCreate(&handle);
  tensor(&large, s);
  tensor(&small, s + 4);
  cudnnCreatePoolingDescriptor(&pooling);
  cudnnSetPooling2dDescriptor(pooling, (cudnnPoolingMode_t)p[0], CUDNN_PROPAGATE_NAN, p[1], p[2], p[3], p[4], p[5], p[6]);
  cudnnPoolingForward(handle, pooling, &one, large, x, &zero, small, y);
  cudnnPoolingBackward(handle, pooling, &one, small, y, small, dy, large, x, &zero, large, dx);
}

void activate(const int *s, int mode, double most, const REAL *x, const REAL *dy, REAL *y, REAL *dx) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t d;
  cudnnActivationDescriptor_t activation;
  REAL one = 1, zero = 0;
  cudnnCreate(&handle);
  tensor(&d, s);
  cudnnCreateActivationDescriptor(&activation);
  cudnnSetActivationDescriptor(activation, (cudnnActivationMode_t)mode, CUDNN_PROPAGATE_NAN, most);
  cudnnActivationForward(handle, activation, &one, d, x, &zero, d, y);
  cudnnActivationBackward(handle, activation, &one, d, y, d, dy, d, x, &zero, d, dx);
}

void soften(const int *s, int algorithm, int mode, const REAL *x, const REAL *dy, REAL *y, REAL *dx) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t d;
  REAL one = 1, zero = 0;
  cudnnCreate(&handle);
  tensor(&d, s);
  cudnnSoftmaxForward(handle, (cudnnSoftmaxAlgorithm_t)algorithm, (cudnnSoftmaxMode_t)mode, &one, d, x, &zero, d, y);
  cudnnSoftmaxBackward(handle, (cudnnSoftmaxAlgorithm_t)algorithm, (cudnnSoftmaxMode_t)mode, &one, d, y, d, dy, &zero, d, dx);
}

void products(int n, const float *a, const float *b, float *c) {
  cublasHandle_t handle;
  float one = 1, zero = 0;
  const float *left[2], *right[2];
  float *out[2];
  for (int i = 0; i < 2; i++) {
    left[i] = a + i * n * n;
    right[i] = b + (1 - i) * n * n;
    out[i] = c + i * n * n;
  }
  cublasCreate(&handle);
  cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, left, n, right, n, &zero, out, n, 2);
}
