// ResNet-50 in CUDA, as it trains on a GPU: kernels for what goes element by element, for pooling,
// normalisation and loss; cuDNN and cuBLAS for convolutions and products. `step` is a step of training.
#include <cublas_v2.h>
#include <cudnn.h>

// A convolution with its batch norm. The last seven say where in `params`, `work` and `saved` things are.
struct Unit {
  int channels, side, filters, size, stride, out_side, clips;
  int input, convolved, result, weights, statistics;
};

// Three units, and a fourth for the shortcut or -1 where that is the input.
struct Block { int first, shortcut, input, result; };

struct Ends { int pooled, features, logits, weights, filters, side; };

// --- batch norm, with or without a relu behind it: a block of threads for each channel

__device__ float block_sum(float *s, float value) {
  int t = threadIdx.x;
  s[t] = value;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  float sum = s[0];
  __syncthreads();
  return sum;
}

__global__ void normalize(int images, int channels, int size, bool clips, const float *x, const float *scale, const float *bias,
                          float *y, float *mean, float *inverse, float *running_mean, float *running_variance) {
  __shared__ float s[256];
  int c = blockIdx.x, count = images * size;
  float sum = 0, square = 0;
  for (int i = 0; i < images; i++)
    for (int begin = 0; begin < size; begin += blockDim.x) {
      int p = begin + threadIdx.x;
      if (p < size) sum += x[(i * channels + c) * size + p];
    }
  float average = block_sum(s, sum) / count;
  for (int i = 0; i < images; i++)
    for (int begin = 0; begin < size; begin += blockDim.x) {
      int p = begin + threadIdx.x;
      float d = p < size ? x[(i * channels + c) * size + p] - average : 0.0f;
      square += d * d;
    }
  float variance = block_sum(s, square) / count;
  float deviation = 1.0f / sqrtf(variance + 1e-5f), factor = scale[c] * deviation, shift = bias[c] - average * factor;
  for (int i = 0; i < images; i++)
    for (int begin = 0; begin < size; begin += blockDim.x) {
      int p = begin + threadIdx.x;
      if (p < size) {
        float v = x[(i * channels + c) * size + p] * factor + shift;
        y[(i * channels + c) * size + p] = clips ? fmaxf(v, 0.0f) : v;
      }
    }
  if (threadIdx.x == 0) {
    mean[c] = average;
    inverse[c] = deviation;
    running_mean[c] = 0.9f * running_mean[c] + 0.1f * average;
    running_variance[c] = 0.9f * running_variance[c] + 0.1f * variance * count / (count > 1 ? count - 1 : 1);
  }
}

__global__ void normalize_back(int images, int channels, int size, bool clips, const float *x, const float *y, const float *dy,
                               const float *scale, const float *mean, const float *inverse, float *dx, float *dscale,
                               float *dbias) {
  __shared__ float s[256];
  int c = blockIdx.x;
  float average = mean[c], factor = inverse[c], count = images * size, sum = 0, product = 0;
  for (int i = 0; i < images; i++)
    for (int begin = 0; begin < size; begin += blockDim.x) {
      int p = begin + threadIdx.x, at = (i * channels + c) * size + p;
      if (p < size) {
        float d = clips && y[at] <= 0.0f ? 0.0f : dy[at];
        sum += d;
        product += d * (x[at] - average);
      }
    }
  float total = block_sum(s, sum), slope = block_sum(s, product) * factor;
  for (int i = 0; i < images; i++)
    for (int begin = 0; begin < size; begin += blockDim.x) {
      int p = begin + threadIdx.x, at = (i * channels + c) * size + p;
      if (p < size) {
        float d = clips && y[at] <= 0.0f ? 0.0f : dy[at];
        dx[at] = scale[c] * factor * (d - total / count - (x[at] - average) * factor * slope / count);
      }
    }
  if (threadIdx.x == 0) {
    dscale[c] = slope;
    dbias[c] = total;
  }
}

// --- the end of a block

__global__ void add_and_clip(int n, const float *x, const float *shortcut, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i] + shortcut[i], 0.0f);
}

__global__ void add_and_clip_back(int n, const float *y, const float *dy, float *dx, float *dshortcut) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float d = y[i] > 0.0f ? dy[i] : 0.0f;
    dx[i] = d;
    dshortcut[i] = d;
  }
}

// --- pooling: the largest of 3 by 3 at every second pixel, and the mean of all; a block for each plane

__global__ void pool(int side, int out, const float *x, float *y, int *winner) {
  const float *plane = x + blockIdx.x * side * side;
  for (int h = 0; h < out; h++) {
    int w = threadIdx.x;
    if (w < out) {
      float most = -INFINITY;
      int at = 0;
      for (int r = 0; r < 3; r++)
        for (int s = 0; s < 3; s++) {
          int i = 2 * h + r - 1, j = 2 * w + s - 1;
          if (i >= 0 && i < side && j >= 0 && j < side && plane[i * side + j] > most) {
            most = plane[i * side + j];
            at = i * side + j;
          }
        }
      y[(blockIdx.x * out + h) * out + w] = most;
      winner[(blockIdx.x * out + h) * out + w] = at;
    }
  }
}

// A pixel is in four windows at most, and has the change of those that it won.
__global__ void pool_back(int side, int out, const int *winner, const float *dy, float *dx) {
  int first = blockIdx.x * out * out;
  for (int i = 0; i < side; i++) {
    int j = threadIdx.x;
    if (j < side) {
      float sum = 0;
      for (int r = 0; r < 2; r++)
        for (int s = 0; s < 2; s++) {
          int h = i / 2 + r, w = j / 2 + s;
          if (h < out && w < out && winner[first + h * out + w] == i * side + j) sum += dy[first + h * out + w];
        }
      dx[(blockIdx.x * side + i) * side + j] = sum;
    }
  }
}

__global__ void average(int planes, int size, const float *x, float *y) {
  int plane = blockIdx.x * blockDim.x + threadIdx.x;
  if (plane < planes) {
    float sum = 0;
    for (int p = 0; p < size; p++) sum += x[plane * size + p];
    y[plane] = sum / size;
  }
}

__global__ void average_back(int n, int size, const float *dy, float *dx) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dx[i] = dy[i / size] / size;
}

// --- the last layer's bias, and the cross entropy of its softmax: a block for each image

__global__ void cross_entropy(int images, int classes, const int *labels, const float *bias, float *logits, float *slopes,
                              float *loss) {
  __shared__ float s[128];
  int t = threadIdx.x;
  float *row = logits + blockIdx.x * classes, *change = slopes + blockIdx.x * classes;
  float most = -INFINITY, sum = 0;
  for (int begin = 0; begin < classes; begin += 128) {
    int c = begin + t;
    if (c < classes) {
      row[c] += bias[c];
      most = fmaxf(most, row[c]);
    }
  }
  s[t] = most;
  __syncthreads();
  for (int k = 64; k > 0; k >>= 1) {
    if (t < k) s[t] = fmaxf(s[t], s[t + k]);
    __syncthreads();
  }
  most = s[0];
  __syncthreads();
  for (int begin = 0; begin < classes; begin += 128) {
    int c = begin + t;
    if (c < classes) sum += expf(row[c] - most);
  }
  float total = block_sum(s, sum);
  int label = labels[blockIdx.x];
  for (int begin = 0; begin < classes; begin += 128) {
    int c = begin + t;
    if (c < classes) change[c] = (expf(row[c] - most) / total - (c == label ? 1.0f : 0.0f)) / images;
  }
  if (t == 0) atomicAdd(loss, (most + logf(total) - row[label]) / images);
}

__global__ void sum_rows(int rows, int columns, const float *x, float *sums) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < columns) {
    float sum = 0;
    for (int r = 0; r < rows; r++) sum += x[r * columns + c];
    sums[c] = sum;
  }
}

// --- stochastic gradient descent with momentum

__global__ void descend(int n, float rate, float momentum, const float *slopes, float *velocity, float *params) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    velocity[i] = momentum * velocity[i] + slopes[i];
    params[i] -= rate * velocity[i];
  }
}

// --- on the host

struct Library {
  cudnnHandle_t cudnn;
  cublasHandle_t cublas;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t window;
};

int threads(int size) { return size <= 16 ? 16 : size <= 64 ? 64 : 256; }

void describe(const Library &l, const Unit &u, int images) {
  cudnnSetTensor4dDescriptor(l.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, images, u.channels, u.side, u.side);
  cudnnSetTensor4dDescriptor(l.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, images, u.filters, u.out_side, u.out_side);
  cudnnSetFilter4dDescriptor(l.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, u.filters, u.channels, u.size, u.size);
  cudnnSetConvolution2dDescriptor(l.window, u.size / 2, u.size / 2, u.stride, u.stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                  CUDNN_DATA_FLOAT);
}

void forward(const Library &l, const Unit &u, int images, const float *x, const float *params, float *work, float *saved,
             float *running) {
  float one = 1, zero = 0;
  const float *w = params + u.weights, *scale = w + u.filters * u.channels * u.size * u.size;
  int area = u.out_side * u.out_side;
  float *mean = saved + u.statistics, *average = running + u.statistics;
  describe(l, u, images);
  cudnnConvolutionForward(l.cudnn, &one, l.x, x, l.w, w, l.window, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, 0, &zero, l.y,
                          work + u.convolved);
  normalize<<<u.filters, threads(area)>>>(images, u.filters, area, u.clips, work + u.convolved, scale, scale + u.filters,
                                          work + u.result, mean, mean + u.filters, average, average + u.filters);
}

// `adds` says whether the input has a change already; the change of the images themselves is not asked for.
void backward(const Library &l, const Unit &u, int images, bool adds, const float *x, const float *params, const float *work,
              const float *saved, float *changes, float *slopes) {
  float one = 1, zero = 0, before = adds ? 1 : 0;
  const float *w = params + u.weights, *mean = saved + u.statistics;
  int weights = u.filters * u.channels * u.size * u.size, area = u.out_side * u.out_side;
  float *dw = slopes + u.weights, *dscale = dw + weights;
  normalize_back<<<u.filters, threads(area)>>>(images, u.filters, area, u.clips, work + u.convolved, work + u.result,
                                               changes + u.result, w + weights, mean, mean + u.filters, changes + u.convolved,
                                               dscale, dscale + u.filters);
  describe(l, u, images);
  cudnnConvolutionBackwardFilter(l.cudnn, &one, l.x, x, l.y, changes + u.convolved, l.window,
                                 CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, 0, 0, &zero, l.w, dw);
  if (u.input >= 0)
    cudnnConvolutionBackwardData(l.cudnn, &one, l.w, w, l.y, changes + u.convolved, l.window,
                                 CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, 0, 0, &before, l.x, changes + u.input);
}

// Gives the loss, and changes `params`; `slopes` are the gradients, in the same places.
float step(int images, int classes, int block_count, int parameters, const Unit *units, const Block *blocks, const Ends *ends,
           const float *image, const int *labels, float *params, float *slopes, float *velocity, float *work, float *changes,
           int *winners, float *saved, float *running, float rate, float momentum) {
  float one = 1, zero = 0, *loss;
  Library l;
  cudnnCreate(&l.cudnn);
  cublasCreate(&l.cublas);
  cudnnCreateTensorDescriptor(&l.x);
  cudnnCreateTensorDescriptor(&l.y);
  cudnnCreateFilterDescriptor(&l.w);
  cudnnCreateConvolutionDescriptor(&l.window);
  cudaMalloc(&loss, sizeof(float));
  cudaMemset(loss, 0, sizeof(float));
  Unit stem = units[0];
  int half = (stem.out_side + 1) / 2;
  forward(l, stem, images, image, params, work, saved, running);
  pool<<<images * stem.filters, threads(half)>>>(stem.out_side, half, work + stem.result, work + ends->pooled, winners);
  for (int b = 0; b < block_count; b++) {
    Block block = blocks[b];
    for (int i = 0; i < 4; i++) {
      int place = i < 3 ? block.first + i : block.shortcut;
      if (place >= 0) forward(l, units[place], images, work + units[place].input, params, work, saved, running);
    }
    Unit last = units[block.first + 2];
    int n = images * last.filters * last.out_side * last.out_side;
    const float *shortcut = work + (block.shortcut < 0 ? block.input : units[block.shortcut].result);
    add_and_clip<<<(n + 255) / 256, 256>>>(n, work + last.result, shortcut, work + block.result);
  }
  int end = blocks[block_count - 1].result, f = ends->filters, area = ends->side * ends->side, planes = images * f;
  float *features = work + ends->features, *logits = work + ends->logits, *dlogits = changes + ends->logits;
  const float *w = params + ends->weights;
  average<<<(planes + 255) / 256, 256>>>(planes, area, work + end, features);
  cublasSgemm(l.cublas, CUBLAS_OP_T, CUBLAS_OP_N, classes, images, f, &one, w, f, features, f, &zero, logits, classes);
  cross_entropy<<<images, 128>>>(images, classes, labels, w + classes * f, logits, dlogits, loss);

  float *dw = slopes + ends->weights;
  sum_rows<<<(classes + 255) / 256, 256>>>(images, classes, dlogits, dw + classes * f);
  cublasSgemm(l.cublas, CUBLAS_OP_N, CUBLAS_OP_T, f, classes, images, &one, features, f, dlogits, classes, &zero, dw, f);
  cublasSgemm(l.cublas, CUBLAS_OP_N, CUBLAS_OP_N, f, images, classes, &one, w, f, dlogits, classes, &zero,
              changes + ends->features, f);
  average_back<<<(planes * area + 255) / 256, 256>>>(planes * area, area, changes + ends->features, changes + end);
  for (int b = block_count - 1; b >= 0; b--) {
    Block block = blocks[b];
    Unit last = units[block.first + 2];
    int n = images * last.filters * last.out_side * last.out_side;
    float *shortcut = changes + (block.shortcut < 0 ? block.input : units[block.shortcut].result);
    add_and_clip_back<<<(n + 255) / 256, 256>>>(n, work + block.result, changes + block.result, changes + last.result, shortcut);
    for (int i = 3; i >= 0; i--) {
      int place = i < 3 ? block.first + i : block.shortcut;
      if (place >= 0)
        backward(l, units[place], images, i == 0, work + units[place].input, params, work, saved, changes, slopes);
    }
  }
  pool_back<<<images * stem.filters, threads(stem.out_side)>>>(stem.out_side, half, winners, changes + ends->pooled,
                                                               changes + stem.result);
  backward(l, stem, images, false, image, params, work, saved, changes, slopes);
  descend<<<(parameters + 255) / 256, 256>>>(parameters, rate, momentum, slopes, velocity, params);
  float result;
  cudaMemcpy(&result, loss, sizeof(float), cudaMemcpyDeviceToHost);
  cudaFree(loss);
  return result;
}
