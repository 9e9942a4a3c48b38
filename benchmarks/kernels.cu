// Kernels of the kinds that people bring, written for this repository.

#define TILE 32
#define SIDE 16

__global__ void compute(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i], s = 0.0f;
    for (int k = 0; k < 32; k++) s = s * v + 0.5f;
    y[i] = sqrtf(s * s + v);
  }
}

__global__ void matmul(float *c, const float *a, const float *b, int n) {
  __shared__ float left[TILE][TILE], right[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0;
  for (int tile = 0; tile < n; tile += TILE) {
    left[y][x] = a[row * n + tile + x];
    right[y][x] = b[(tile + y) * n + column];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void total(const float *in, float *out) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  for (int k = 128; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

// Five points of a grid, several steps on a tile before anything is written.
__global__ void heat(const float *in, float *out, int n, int steps, float rate) {
  __shared__ float now[SIDE][SIDE], next[SIDE][SIDE];
  int x = threadIdx.x, y = threadIdx.y, inner = SIDE - 2 * steps;
  int column = blockIdx.x * inner + x - steps, row = blockIdx.y * inner + y - steps;
  bool inside = row >= 0 && row < n && column >= 0 && column < n;
  now[y][x] = inside ? in[row * n + column] : 0.0f;
  __syncthreads();
  bool computed = false;
  for (int i = 0; i < steps; i++) {
    computed = false;
    if (x > i && x < SIDE - 1 - i && y > i && y < SIDE - 1 - i && inside) {
      computed = true;
      next[y][x] = now[y][x] + rate * (now[y - 1][x] + now[y + 1][x] + now[y][x - 1] + now[y][x + 1] - 4.0f * now[y][x]);
    }
    __syncthreads();
    if (i == steps - 1) break;
    if (computed) now[y][x] = next[y][x];
    __syncthreads();
  }
  if (computed) out[row * n + column] = next[y][x];
}

// A layer of a network: each block sums a tile of weights times inputs along y. As in much code, there
// are more barriers than accesses to order.
__global__ void layer(const float *in, const float *weights, float *out, int n) {
  __shared__ float input[SIDE], tile[SIDE][SIDE];
  int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.y * SIDE + y, column = blockIdx.x * SIDE + x;
  if (x == 0) input[y] = in[row];
  __syncthreads();
  tile[y][x] = weights[row * n + column];
  __syncthreads();
  tile[y][x] *= input[y];
  __syncthreads();
  for (int k = SIDE / 2; k > 0; k >>= 1) {
    if (y < k) tile[y][x] += tile[y + k][x];
    __syncthreads();
  }
  if (y == 0) out[blockIdx.y * n + column] = tile[0][x];
  __syncthreads();
}

__global__ void histogram(const unsigned char *in, int *out, int n) {
  __shared__ int s[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&s[in[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], s[i]);
}

__global__ void warps(const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = in[i];
  for (int k = 16; k > 0; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
  if (threadIdx.x % 32 == 0) out[i / 32] = v;
}

__global__ void small_blocks(const float *in, float *out) {
  __shared__ float s[8];
  int t = threadIdx.x, i = blockIdx.x * 8 + t;
  s[t] = in[i];
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 8; k++) sum += s[(t + k) & 7] * (k + 1);
  out[i] = sum;
}

__global__ void scaled(const float *x, float *y, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * by;
}

__global__ void shifted(float *y, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += by;
}

__global__ void clipped(float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fminf(fmaxf(y[i], 0.0f), 1.0f);
}

void chain(const float *x, float *y, int n) {
  scaled<<<(n + 255) / 256, 256>>>(x, y, n, 2.0f);
  shifted<<<(n + 255) / 256, 256>>>(y, n, -0.5f);
  clipped<<<(n + 255) / 256, 256>>>(y, n);
}

__global__ void smoothed(const float *a, float *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) b[i] = 0.25f * a[i - 1] + 0.5f * a[i] + 0.25f * a[i + 1];
}

void repeated(float *a, float *b, int n, int times) {
  for (int t = 0; t < times; t++) {
    smoothed<<<(n + 255) / 256, 256>>>(a, b, n);
    smoothed<<<(n + 255) / 256, 256>>>(b, a, n);
  }
}
