// What calls of cuBLAS and cuDNN are served by where our kernels are faster than XLA's;
// `library_kernels.py` chooses. Matrices here are row by row; `T` is float or double.

#define DEEP 64
#define FOR6(X) X(0) X(1) X(2) X(3) X(4) X(5)

// --- products of matrices: C = A B for each blockIdx.z

struct Product {
  int m, n, k;
  int lda, ldb, ldc;
  long long step_a, step_b, step_c;
};

// A tile of A: `along_k` says that neighbours in memory are neighbours along k.
template <typename T, int WIDE, int ROWS>
__device__ void load_left(T *tile, const T *a, int lda, bool along_k, int row, int k, int m, int deep) {
  int x = threadIdx.x, y = threadIdx.y;
  if (along_k) {
    for (int i = y; i < ROWS; i += 8)
      for (int wide = 0; wide < DEEP; wide += WIDE) {
        int j = wide + x;
        tile[i * DEEP + j] = row + i < m && j < deep ? a[(long long)(row + i) * lda + k + j] : (T)0;
      }
  } else {
    for (int j = y; j < DEEP; j += 8)
      for (int wide = 0; wide < ROWS; wide += WIDE) {
        int i = wide + x;
        if (i < ROWS) tile[j * ROWS + i] = row + i < m && j < deep ? a[(long long)(k + j) * lda + row + i] : (T)0;
      }
  }
}

template <typename T, int WIDE, int COLUMNS>
__device__ void load_right(T *tile, const T *b, int ldb, bool along_n, int column, int k, int n, int deep) {
  int x = threadIdx.x, y = threadIdx.y;
  if (along_n) {
    for (int j = y; j < deep; j += 8)
      for (int wide = 0; wide < COLUMNS; wide += WIDE) {
        int i = wide + x;
        tile[j * COLUMNS + i] = column + i < n ? b[(long long)(k + j) * ldb + column + i] : (T)0;
      }
  } else {
    for (int i = y; i < COLUMNS; i += 8)
      for (int wide = 0; wide < DEEP; wide += WIDE) {
        int j = wide + x;
        tile[j * COLUMNS + i] = column + i < n && j < deep ? b[(long long)(column + i) * ldb + k + j] : (T)0;
      }
  }
}

template <typename T> __device__ void put(T *c, T sum, bool inside) {
  if (inside) *c = sum;
}

// 48 rows and 64 columns for a block of 32 by 8 threads: six rows and two columns each.
template <typename T, bool ALONG_K, bool ALONG_N>
__device__ void wide_product(Product p, const T *a, const T *b, T *c) {
  __shared__ T left[48 * DEEP], right[64 * DEEP];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 48, column = blockIdx.x * 64;
  a += blockIdx.z * p.step_a;
  b += blockIdx.z * p.step_b;
  c += blockIdx.z * p.step_c;
#define BEGIN(i) T c##i = 0, d##i = 0;
  FOR6(BEGIN)
  for (int k = 0; k < p.k; k += DEEP) {
    int deep = min(DEEP, p.k - k);
    load_left<T, 32, 48>(left, a, p.lda, ALONG_K, row, k, p.m, deep);
    load_right<T, 32, 64>(right, b, p.ldb, ALONG_N, column, k, p.n, deep);
    __syncthreads();
    for (int j = 0; j < deep; j++) {
      T first = right[j * 64 + x], second = right[j * 64 + 32 + x];
#define ADD(i) { T v = ALONG_K ? left[(y * 6 + i) * DEEP + j] : left[j * 48 + y * 6 + i]; c##i += v * first; d##i += v * second; }
      FOR6(ADD)
    }
    __syncthreads();
  }
  int j = column + x;
#define PUT(i) { int r = row + y * 6 + i; T *at = c + (long long)r * p.ldc + j; \
    put(at, c##i, r < p.m && j < p.n); put(at + 32, d##i, r < p.m && j + 32 < p.n); }
  FOR6(PUT)
}

// 48 rows and 16 columns for a block of 16 by 8 threads: six rows and one column each. A is read once
// only, so nothing is gained by a copy of its tile; rows beyond the last are the last, and not written.
template <typename T, bool ALONG_K, bool ALONG_N>
__device__ void narrow_product(Product p, const T *a, const T *b, T *c) {
  __shared__ T right[16 * DEEP];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 48 + y * 6, column = blockIdx.x * 16;
  a += blockIdx.z * p.step_a;
  b += blockIdx.z * p.step_b;
  c += blockIdx.z * p.step_c;
#define START(i) T e##i = 0; const T *a##i = a + (ALONG_K ? (long long)min(row + i, p.m - 1) * p.lda : min(row + i, p.m - 1));
  FOR6(START)
  for (int k = 0; k < p.k; k += DEEP) {
    int deep = min(DEEP, p.k - k);
    load_right<T, 16, 16>(right, b, p.ldb, ALONG_N, column, k, p.n, deep);
    __syncthreads();
    for (int j = 0; j < deep; j++) {
      T first = right[j * 16 + x];
#define SUM(i) e##i += a##i[ALONG_K ? k + j : (long long)(k + j) * p.lda] * first;
      FOR6(SUM)
    }
    __syncthreads();
  }
  int j = column + x;
#define END(i) put(c + (long long)(row + i) * p.ldc + j, e##i, row + i < p.m && j < p.n);
  FOR6(END)
}

#define PRODUCT(NAME, FORM, T, ALONG_K, ALONG_N) \
  __global__ void NAME(Product p, const T *a, const T *b, T *c) { FORM<T, ALONG_K, ALONG_N>(p, a, b, c); }
#define PRODUCTS(TYPE, T) \
  PRODUCT(wide_kn_##TYPE, wide_product, T, true, true) PRODUCT(wide_mn_##TYPE, wide_product, T, false, true) \
  PRODUCT(wide_kk_##TYPE, wide_product, T, true, false) PRODUCT(wide_mk_##TYPE, wide_product, T, false, false) \
  PRODUCT(narrow_kn_##TYPE, narrow_product, T, true, true) PRODUCT(narrow_mn_##TYPE, narrow_product, T, false, true) \
  PRODUCT(narrow_kk_##TYPE, narrow_product, T, true, false) PRODUCT(narrow_mk_##TYPE, narrow_product, T, false, false)
PRODUCTS(f32, float)
PRODUCTS(f64, double)

// --- convolutions: columns of patches, whose product with the filters is the convolution

struct Window {
  int h, w, out_h, out_w;
  int size_h, size_w, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
};

// A quotient of lanes that differ: a vector divides floats, and whole numbers one by one. Right for
// numbers below 2^22, which positions in an image are.
__device__ int over(int position, int width) { return (int)((position + 0.5f) / width); }

// Row (c, r, s) of the columns, images side by side: blockIdx.x is the row, blockIdx.y the image.
template <typename T> __device__ void patches_of(Window q, int channels, int images, const T *x, T *columns) {
  int taps = q.size_h * q.size_w, row = blockIdx.x, image = blockIdx.y;
  int c = row / taps, r = row % taps / q.size_w, s = row % q.size_w, size = q.out_h * q.out_w;
  const T *plane = x + ((long long)image * channels + c) * q.h * q.w;
  T *out = columns + ((long long)row * images + image) * size;
  for (int begin = 0; begin < size; begin += blockDim.x) {
    int p = begin + threadIdx.x;
    if (p < size) {
      int oh = over(p, q.out_w), ow = p - oh * q.out_w;
      int h = oh * q.stride_h - q.pad_h + r * q.dilation_h, w = ow * q.stride_w - q.pad_w + s * q.dilation_w;
      out[p] = h >= 0 && h < q.h && w >= 0 && w < q.w ? plane[h * q.w + w] : (T)0;
    }
  }
}

// What changes of the columns mean for the image: each pixel adds up the patches that it is in.
template <typename T>
__device__ void image_of(Window q, int channels, int images, const T *columns, T *x) {
  int c = blockIdx.x, image = blockIdx.y, size = q.out_h * q.out_w, taps = q.size_h * q.size_w;
  T *plane = x + ((long long)image * channels + c) * q.h * q.w;
  for (int begin = 0; begin < q.h * q.w; begin += blockDim.x) {
    int p = begin + threadIdx.x;
    if (p < q.h * q.w) {
      int h = over(p, q.w), w = p - h * q.w;
      T sum = 0;
      for (int r = 0; r < q.size_h; r++) {
        int top = h + q.pad_h - r * q.dilation_h, oh = over(top, q.stride_h);
        bool inside_h = top >= 0 && oh * q.stride_h == top && oh < q.out_h;
        for (int s = 0; s < q.size_w; s++) {
          int left = w + q.pad_w - s * q.dilation_w, ow = over(left, q.stride_w);
          const T *row = columns + ((long long)(c * taps + r * q.size_w + s) * images + image) * size;
          if (inside_h && left >= 0 && ow * q.stride_w == left && ow < q.out_w) sum += row[oh * q.out_w + ow];
        }
      }
      plane[p] = sum;
    }
  }
}

// Planes of images to images of planes, or back: blockIdx.x counts `first`, blockIdx.y `second`.
template <typename T>
__device__ void exchanged(int first, int second, int size, const T *in, T *out) {
  int a = blockIdx.x, b = blockIdx.y;
  const T *from = in + ((long long)a * second + b) * size;
  T *to = out + ((long long)b * first + a) * size;
  for (int begin = 0; begin < size; begin += blockDim.x) {
    int p = begin + threadIdx.x;
    if (p < size) to[p] = from[p];
  }
}

// --- batch norm: a block for each channel of images in NCHW

template <typename T> __device__ T block_sum(T *s, T value) {
  int t = threadIdx.x;
  s[t] = value;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  T sum = s[0];
  __syncthreads();
  return sum;
}

template <typename T>
__device__ void statistics(int images, int channels, int size, const T *x, T epsilon, T *mean, T *variance, T *inverse) {
  __shared__ T s[256];
  int c = blockIdx.x;
  T sum = 0, square = 0;
  for (int i = 0; i < images; i++)
    for (int begin = 0; begin < size; begin += blockDim.x) {
      int p = begin + threadIdx.x;
      if (p < size) sum += x[((long long)i * channels + c) * size + p];
    }
  T average = block_sum(s, sum) / (images * size);
  for (int i = 0; i < images; i++)
    for (int begin = 0; begin < size; begin += blockDim.x) {
      int p = begin + threadIdx.x;
      T d = p < size ? x[((long long)i * channels + c) * size + p] - average : (T)0;
      square += d * d;
    }
  T spread = block_sum(s, square) / (images * size);
  if (threadIdx.x == 0) {
    mean[c] = average;
    variance[c] = spread;
    inverse[c] = (T)1 / sqrt(spread + epsilon);
  }
}

// blockIdx.x is the channel, blockIdx.y the image.
template <typename T>
__device__ void normalized(int channels, int size, const T *x, T *y, const T *scale, const T *bias, const T *mean,
                           const T *inverse) {
  int c = blockIdx.x;
  T factor = scale[c] * inverse[c], shift = bias[c] - mean[c] * factor;
  long long first = ((long long)blockIdx.y * channels + c) * size;
  for (int begin = 0; begin < size; begin += blockDim.x) {
    int p = begin + threadIdx.x;
    if (p < size) y[first + p] = x[first + p] * factor + shift;
  }
}

template <typename T>
__device__ void normalized_back(int images, int channels, int size, const T *x, const T *dy, T *dx, const T *scale, T *dscale,
                                T *dbias, const T *mean, const T *inverse) {
  __shared__ T s[256];
  int c = blockIdx.x;
  T average = mean[c], factor = inverse[c], sum = 0, product = 0;
  for (int i = 0; i < images; i++)
    for (int begin = 0; begin < size; begin += blockDim.x) {
      int p = begin + threadIdx.x;
      if (p < size) {
        long long at = ((long long)i * channels + c) * size + p;
        sum += dy[at];
        product += dy[at] * (x[at] - average);
      }
    }
  T total = block_sum(s, sum), slope = block_sum(s, product) * factor;
  T count = images * size;
  for (int i = 0; i < images; i++)
    for (int begin = 0; begin < size; begin += blockDim.x) {
      int p = begin + threadIdx.x;
      if (p < size) {
        long long at = ((long long)i * channels + c) * size + p;
        dx[at] = scale[c] * factor * (dy[at] - total / count - (x[at] - average) * factor * slope / count);
      }
    }
  if (threadIdx.x == 0) {
    dscale[c] = slope;
    dbias[c] = total;
  }
}

// --- pooling: blockIdx.x is the plane; mode 0 is the maximum, 1 a mean with padding, 2 one without

template <typename T> __device__ void pooled(int mode, Window q, const T *x, T *y) {
  const T *plane = x + (long long)blockIdx.x * q.h * q.w;
  T *out = y + (long long)blockIdx.x * q.out_h * q.out_w;
  for (int begin = 0; begin < q.out_h * q.out_w; begin += blockDim.x) {
    int p = begin + threadIdx.x;
    if (p < q.out_h * q.out_w) {
      int oh = over(p, q.out_w), top = oh * q.stride_h - q.pad_h, left = (p - oh * q.out_w) * q.stride_w - q.pad_w;
      T largest = -(T)INFINITY, sum = 0;
      int count = 0;
      for (int r = 0; r < q.size_h; r++)
        for (int s = 0; s < q.size_w; s++) {
          int h = top + r, w = left + s;
          if (h >= 0 && h < q.h && w >= 0 && w < q.w) {
            T value = plane[h * q.w + w];
            largest = value > largest || value != value ? value : largest;
            sum += value;
            count++;
          }
        }
      out[p] = mode == 0 ? largest : sum / (mode == 1 ? q.size_h * q.size_w : count);
    }
  }
}

// Of equal maxima the first has the change: the pixel asks each window that it is in whether that is it.
template <typename T> __device__ void pooled_back(int mode, Window q, const T *x, const T *y, const T *dy, T *dx) {
  const T *plane = x + (long long)blockIdx.x * q.h * q.w, *most = y + (long long)blockIdx.x * q.out_h * q.out_w;
  const T *change = dy + (long long)blockIdx.x * q.out_h * q.out_w;
  for (int begin = 0; begin < q.h * q.w; begin += blockDim.x) {
    int p = begin + threadIdx.x;
    if (p < q.h * q.w) {
      int h = over(p, q.w), w = p - h * q.w;
      T sum = 0, value = plane[p];
      for (int r = 0; r < q.size_h; r++) {
        int above = h + q.pad_h - r, oh = over(above, q.stride_h);
        bool inside_h = above >= 0 && oh * q.stride_h == above && oh < q.out_h;
        for (int s = 0; s < q.size_w; s++) {
          int before = w + q.pad_w - s, ow = over(before, q.stride_w), window = oh * q.out_w + ow;
          if (!inside_h || before < 0 || ow * q.stride_w != before || ow >= q.out_w) continue;
          int top = h - r, left = w - s;
          if (mode == 0) {
            bool first = value == most[window];
            for (int earlier = 0; earlier < r * q.size_w + s; earlier++) {
              int i = top + earlier / q.size_w, j = left + earlier % q.size_w;
              if (first && i >= 0 && j >= 0 && j < q.w) first = plane[i * q.w + j] != value;
            }
            if (first) sum += change[window];
          } else {
            int high = min(top + q.size_h, q.h) - max(top, 0), wide = min(left + q.size_w, q.w) - max(left, 0);
            sum += change[window] / (mode == 1 ? q.size_h * q.size_w : high * wide);
          }
        }
      }
      dx[blockIdx.x * (long long)q.h * q.w + p] = sum;
    }
  }
}

// --- activations; mode 0 is the sigmoid, 1 is relu, 2 is tanh, 3 is relu with a largest value

template <typename T> __device__ T activation(int mode, T most, T v) {
  if (mode == 0) return (T)1 / ((T)1 + exp(-v));
  if (mode == 2) return tanh(v);
  T positive = v > (T)0 || v != v ? v : (T)0;
  return mode == 3 && positive > most ? most : positive;
}

template <typename T> __device__ T slope(int mode, T most, T v, T y) {
  if (mode == 0) return y * ((T)1 - y);
  if (mode == 2) return (T)1 - y * y;
  return v > (T)0 && (mode == 1 || v < most) ? (T)1 : (T)0;
}

template <typename T> __device__ void activated(int mode, T most, long long n, const T *x, T *y) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = activation(mode, most, x[i]);
}

template <typename T>
__device__ void activated_back(int mode, T most, long long n, const T *x, const T *y, const T *dy, T *dx) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) dx[i] = slope(mode, most, x[i], y[i]) * dy[i];
}

// --- softmax over `count` values that are `inner` apart; a thread for each blockIdx.y and position

template <typename T> __device__ void softmax(bool logarithm, int count, int inner, const T *x, T *y) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  long long first = (long long)blockIdx.y * count * inner + p;
  if (p >= inner) return;
  T most = x[first], sum = 0;
  for (int c = 1; c < count; c++) most = max(most, x[first + (long long)c * inner]);
  for (int c = 0; c < count; c++) sum += exp(x[first + (long long)c * inner] - most);
  T logged = log(sum);
  for (int c = 0; c < count; c++) {
    T v = x[first + (long long)c * inner] - most;
    y[first + (long long)c * inner] = logarithm ? v - logged : exp(v) / sum;
  }
}

template <typename T>
__device__ void softmax_back(bool logarithm, int count, int inner, const T *y, const T *dy, T *dx) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  long long first = (long long)blockIdx.y * count * inner + p;
  if (p >= inner) return;
  T sum = 0;
  for (int c = 0; c < count; c++) {
    long long at = first + (long long)c * inner;
    sum += logarithm ? dy[at] : y[at] * dy[at];
  }
  for (int c = 0; c < count; c++) {
    long long at = first + (long long)c * inner;
    dx[at] = logarithm ? dy[at] - exp(y[at]) * sum : y[at] * (dy[at] - sum);
  }
}

#define KERNELS(TYPE, T) \
  __global__ void patches_##TYPE(Window q, int channels, int images, const T *x, T *columns) { patches_of(q, channels, images, x, columns); } \
  __global__ void image_##TYPE(Window q, int channels, int images, const T *columns, T *x) { image_of(q, channels, images, columns, x); } \
  __global__ void exchange_##TYPE(int first, int second, int size, const T *in, T *out) { exchanged(first, second, size, in, out); } \
  __global__ void statistics_##TYPE(int images, int channels, int size, const T *x, T epsilon, T *mean, T *variance, T *inverse) { statistics(images, channels, size, x, epsilon, mean, variance, inverse); } \
  __global__ void normalize_##TYPE(int channels, int size, const T *x, T *y, const T *scale, const T *bias, const T *mean, const T *inverse) { normalized(channels, size, x, y, scale, bias, mean, inverse); } \
  __global__ void normalize_back_##TYPE(int images, int channels, int size, const T *x, const T *dy, T *dx, const T *scale, T *dscale, T *dbias, const T *mean, const T *inverse) { normalized_back(images, channels, size, x, dy, dx, scale, dscale, dbias, mean, inverse); } \
  __global__ void pool_##TYPE(int mode, Window q, const T *x, T *y) { pooled(mode, q, x, y); } \
  __global__ void pool_back_##TYPE(int mode, Window q, const T *x, const T *y, const T *dy, T *dx) { pooled_back(mode, q, x, y, dy, dx); } \
  __global__ void activate_##TYPE(int mode, T most, long long n, const T *x, T *y) { activated(mode, most, n, x, y); } \
  __global__ void activate_back_##TYPE(int mode, T most, long long n, const T *x, const T *y, const T *dy, T *dx) { activated_back(mode, most, n, x, y, dy, dx); } \
  __global__ void softmax_##TYPE(bool logarithm, int count, int inner, const T *x, T *y) { softmax(logarithm, count, inner, x, y); } \
  __global__ void softmax_back_##TYPE(bool logarithm, int count, int inner, const T *y, const T *dy, T *dx) { softmax_back(logarithm, count, inner, y, dy, dx); }
KERNELS(f32, float)
KERNELS(f64, double)
