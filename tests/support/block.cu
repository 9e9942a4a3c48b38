// A residual block as a training step: two convolutions with batch norm, a shortcut, a squared loss.
#include <cublas_v2.h>
#include <cudnn.h>

__global__ void add_and_clip(const float *x, const float *shortcut, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i] + shortcut[i], 0.0f);
}

__global__ void loss_gradient(const float *y, const float *target, float *dy, float *loss, int n) {
  __shared__ float s[128];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  float d = i < n ? y[i] - target[i] : 0.0f;
  if (i < n) dy[i] = y[i] > 0.0f ? 2.0f * d / n : 0.0f;
  s[t] = d * d / n;
  __syncthreads();
  for (int k = 64; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) atomicAdd(loss, s[0]);
}

__global__ void descend(float *p, const float *g, float rate, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] -= rate * g[i];
}


// params: w1, s1, b1, w2, s2, b2; work: eight arrays of n elements; grads like params; saved: 4 c
void step(int count, int c, int side, const float *x, const float *target, float *params, float *grads,
          float *work, float *saved, float *running, float *loss, float rate) {
  float one = 1.0f, zero = 0.0f;
  int n = count * c * side * side, weights = c * c * 9, half = weights + 2 * c;
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t data, norm;
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t window;
  cudnnActivationDescriptor_t relu;
  cudnnCreate(&handle);
  cudnnCreateTensorDescriptor(&data);
  cudnnCreateTensorDescriptor(&norm);
  cudnnCreateFilterDescriptor(&filter);
  cudnnCreateConvolutionDescriptor(&window);
  cudnnCreateActivationDescriptor(&relu);
  cudnnSetTensor4dDescriptor(data, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, count, c, side, side);
  cudnnSetTensor4dDescriptor(norm, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, c, 1, 1);
  cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, c, c, 3, 3);
  cudnnSetConvolution2dDescriptor(window, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0);

  float *w1 = params, *s1 = params + weights, *b1 = s1 + c;
  float *w2 = params + half, *s2 = w2 + weights, *b2 = s2 + c;
  float *a1 = work, *n1 = a1 + n, *r1 = n1 + n, *a2 = r1 + n, *n2 = a2 + n, *y = n2 + n;
  float *d = y + n, *e = d + n;
  dim3 grid((n + 127) / 128);

  cudnnConvolutionForward(handle, &one, data, x, filter, w1, window,
                          CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, 0, &zero, data, a1);
  cudnnBatchNormalizationForwardTraining(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, data, a1, data,
                                         n1, norm, s1, b1, 0.1, running, running + c, 1e-5, saved,
                                         saved + c);
  cudnnActivationForward(handle, relu, &one, data, n1, &zero, data, r1);
  cudnnConvolutionForward(handle, &one, data, r1, filter, w2, window,
                          CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, 0, &zero, data, a2);
  cudnnBatchNormalizationForwardTraining(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, data, a2, data,
                                         n2, norm, s2, b2, 0.1, running + 2 * c, running + 3 * c, 1e-5,
                                         saved + 2 * c, saved + 3 * c);
  add_and_clip<<<grid, 128>>>(n2, x, y, n);
  loss_gradient<<<grid, 128>>>(y, target, d, loss, n);

  float *g2 = grads + half, *g1 = grads;
  cudnnBatchNormalizationBackward(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, data, a2,
                                  data, d, data, e, norm, s2, g2 + weights, g2 + weights + c, 1e-5,
                                  saved + 2 * c, saved + 3 * c);
  cudnnConvolutionBackwardFilter(handle, &one, data, r1, data, e, window,
                                 CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, 0, 0, &zero, filter, g2);
  cudnnConvolutionBackwardData(handle, &one, filter, w2, data, e, window,
                               CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, 0, 0, &zero, data, d);
  cudnnActivationBackward(handle, relu, &one, data, r1, data, d, data, n1, &zero, data, e);
  cudnnBatchNormalizationBackward(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, data, a1,
                                  data, e, data, d, norm, s1, g1 + weights, g1 + weights + c, 1e-5,
                                  saved, saved + c);
  cudnnConvolutionBackwardFilter(handle, &one, data, x, data, d, window,
                                 CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, 0, 0, &zero, filter, g1);
  descend<<<(2 * half + 127) / 128, 128>>>(params, grads, rate, 2 * half);
  cudnnDestroy(handle);
}
