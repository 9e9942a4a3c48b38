// What CUDA's own headers declare, as far as the translation knows it. It is put before every file.
#define __CUDACC__ 1
#define __CUDA_ARCH__ 700
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define CUDART_INF_F __builtin_inff()
#define CUDART_INF __builtin_inf()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_PI_F 3.141592654f
#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif
#ifndef FLT_MAX
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define DBL_MAX __DBL_MAX__
#define DBL_MIN __DBL_MIN__
#define DBL_EPSILON __DBL_EPSILON__
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2u + 1u)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
#define __AIO_BOTH __attribute__((host)) __attribute__((device))

typedef __SIZE_TYPE__ size_t;
typedef __INT8_TYPE__ int8_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __INT16_TYPE__ int16_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
#ifndef NULL
#define NULL 0
#endif

#define __AIO_VECTORS(T, N) \
  struct N##1 { T x; }; struct __attribute__((aligned(2 * sizeof(T)))) N##2 { T x, y; }; \
  struct N##3 { T x, y, z; }; struct __attribute__((aligned(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4))) N##4 { T x, y, z, w; }; \
  static __AIO_BOTH inline N##1 make_##N##1(T x) { N##1 v; v.x = x; return v; } \
  static __AIO_BOTH inline N##2 make_##N##2(T x, T y) { N##2 v; v.x = x; v.y = y; return v; } \
  static __AIO_BOTH inline N##3 make_##N##3(T x, T y, T z) { N##3 v; v.x = x; v.y = y; v.z = z; return v; } \
  static __AIO_BOTH inline N##4 make_##N##4(T x, T y, T z, T w) { N##4 v; v.x = x; v.y = y; v.z = z; v.w = w; return v; }
__AIO_VECTORS(signed char, char)
__AIO_VECTORS(unsigned char, uchar)
__AIO_VECTORS(short, short)
__AIO_VECTORS(unsigned short, ushort)
__AIO_VECTORS(int, int)
__AIO_VECTORS(unsigned int, uint)
__AIO_VECTORS(long long, longlong)
__AIO_VECTORS(unsigned long long, ulonglong)
__AIO_VECTORS(float, float)
__AIO_VECTORS(double, double)

struct dim3 {
  unsigned int x, y, z;
  __AIO_BOTH constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  __AIO_BOTH constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
extern const __device__ uint3 threadIdx, blockIdx;
extern const __device__ dim3 blockDim, gridDim;
extern const __device__ int warpSize;

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
extern "C" int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, void* stream = 0);
enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
typedef enum cudaError cudaError_t;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
cudaError_t cudaMalloc(void** pointer, size_t size);
template <class T> cudaError_t cudaMalloc(T** pointer, size_t size);
cudaError_t cudaMemcpy(void* target, const void* source, size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* target, int value, size_t size);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaThreadSynchronize();
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaSetDevice(int);
const char* cudaGetErrorString(cudaError_t);
template <class T> cudaError_t cudaMemcpyToSymbol(T& symbol, const void* source, size_t size, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice);
template <class T> cudaError_t cudaMemcpyFromSymbol(void* target, T& symbol, size_t size, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost);
struct cudaDeviceProp { char name[256]; size_t totalGlobalMem, sharedMemPerBlock; int major, minor, warpSize, maxThreadsPerBlock, multiProcessorCount; };
cudaError_t cudaGetDeviceCount(int*); cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int); cudaError_t cudaGetDevice(int*);
cudaError_t cudaDeviceReset(); cudaError_t cudaThreadExit(); cudaError_t cudaHostAlloc(void**, size_t, unsigned); cudaError_t cudaMallocHost(void**, size_t);
cudaError_t cudaEventCreate(cudaEvent_t*); cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = 0); cudaError_t cudaEventSynchronize(cudaEvent_t);
template <class T> cudaError_t cudaMallocManaged(T** pointer, size_t size, unsigned flags = 1); template <class T> cudaError_t cudaMallocHost(T** pointer, size_t size); cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t size, cudaMemcpyKind kind, cudaStream_t = 0); cudaError_t cudaMemsetAsync(void* target, int value, size_t size, cudaStream_t = 0);
cudaError_t cudaStreamCreate(cudaStream_t*); cudaError_t cudaStreamSynchronize(cudaStream_t); cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t); cudaError_t cudaEventDestroy(cudaEvent_t);
typedef struct aio_FILE FILE;
extern FILE *stdin, *stdout, *stderr;
extern "C" int fprintf(FILE*, const char*, ...); extern "C" int sprintf(char*, const char*, ...); extern "C" int fscanf(FILE*, const char*, ...);
extern "C" FILE* fopen(const char*, const char*); extern "C" int fclose(FILE*); extern "C" void exit(int); extern "C" void abort();
extern "C" int atoi(const char*); extern "C" double atof(const char*); extern "C" int rand(); extern "C" void srand(unsigned);
extern "C" int strcmp(const char*, const char*); extern "C" size_t strlen(const char*); extern "C" char* strcpy(char*, const char*);
#define EXIT_FAILURE 1
#define EXIT_SUCCESS 0
#define RAND_MAX 2147483647
struct timeval { long tv_sec, tv_usec; };
struct timezone { int tz_minuteswest, tz_dsttime; };
extern "C" int gettimeofday(struct timeval*, struct timezone*);
extern "C" __AIO_BOTH int printf(const char* format, ...);
extern "C" __AIO_BOTH void* malloc(size_t);
extern "C" __AIO_BOTH void free(void*);
extern "C" __AIO_BOTH void* memset(void*, int, size_t);
extern "C" __AIO_BOTH void* memcpy(void*, const void*, size_t);
__AIO_BOTH void __aio_assert(bool condition);
#undef assert
#define assert(condition) __aio_assert((bool)(condition))

__device__ void __syncthreads();
__device__ int __syncthreads_count(int);
__device__ int __syncthreads_and(int);
__device__ int __syncthreads_or(int);
__device__ void __syncwarp(unsigned mask = 0xffffffffu);
__device__ void __threadfence();
__device__ void __threadfence_block();
__device__ void __threadfence_system();
__device__ void __trap();
__device__ long long clock64();
__device__ int clock();

#define __AIO_SHUFFLES(T) \
  __device__ T __shfl_sync(unsigned mask, T v, int lane, int width = 32); \
  __device__ T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32); \
  __device__ T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32); \
  __device__ T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32); \
  __device__ T __shfl(T v, int lane, int width = 32); \
  __device__ T __shfl_up(T v, unsigned delta, int width = 32); \
  __device__ T __shfl_down(T v, unsigned delta, int width = 32); \
  __device__ T __shfl_xor(T v, int lanes, int width = 32); \
  __device__ T __ldg(const T* p);
__AIO_SHUFFLES(int)
__AIO_SHUFFLES(unsigned)
__AIO_SHUFFLES(long)
__AIO_SHUFFLES(unsigned long)
__AIO_SHUFFLES(long long)
__AIO_SHUFFLES(unsigned long long)
__AIO_SHUFFLES(float)
__AIO_SHUFFLES(double)
__device__ unsigned __ballot_sync(unsigned mask, int predicate);
__device__ int __any_sync(unsigned mask, int predicate);
__device__ int __all_sync(unsigned mask, int predicate);
__device__ unsigned __ballot(int predicate);
__device__ int __any(int predicate);
__device__ int __all(int predicate);
__device__ unsigned __activemask();

#define __AIO_ATOMICS(T) \
  __device__ T atomicAdd(T* p, T v); __device__ T atomicSub(T* p, T v); __device__ T atomicExch(T* p, T v); \
  __device__ T atomicMin(T* p, T v); __device__ T atomicMax(T* p, T v); __device__ T atomicCAS(T* p, T compare, T v); \
  __device__ T atomicAnd(T* p, T v); __device__ T atomicOr(T* p, T v); __device__ T atomicXor(T* p, T v); \
  __device__ T atomicInc(T* p, T v); __device__ T atomicDec(T* p, T v);
__AIO_ATOMICS(int)
__AIO_ATOMICS(unsigned)
__AIO_ATOMICS(unsigned long)
__AIO_ATOMICS(long long)
__AIO_ATOMICS(unsigned long long)
__device__ float atomicAdd(float* p, float v);
__device__ double atomicAdd(double* p, double v);
__device__ float atomicExch(float* p, float v);

#define __AIO_UNARY(name) \
  __AIO_BOTH float name##f(float); __AIO_BOTH float name(float); __AIO_BOTH double name(double);
#define __AIO_BINARY(name) \
  __AIO_BOTH float name##f(float, float); __AIO_BOTH float name(float, float); __AIO_BOTH double name(double, double);
__AIO_UNARY(sqrt) __AIO_UNARY(rsqrt) __AIO_UNARY(cbrt) __AIO_UNARY(exp) __AIO_UNARY(exp2) __AIO_UNARY(exp10)
__AIO_UNARY(expm1) __AIO_UNARY(log) __AIO_UNARY(log2) __AIO_UNARY(log10) __AIO_UNARY(log1p) __AIO_UNARY(sin)
__AIO_UNARY(cos) __AIO_UNARY(tan) __AIO_UNARY(asin) __AIO_UNARY(acos) __AIO_UNARY(atan) __AIO_UNARY(sinh)
__AIO_UNARY(cosh) __AIO_UNARY(tanh) __AIO_UNARY(asinh) __AIO_UNARY(acosh) __AIO_UNARY(atanh) __AIO_UNARY(erf)
__AIO_UNARY(erfc) __AIO_UNARY(lgamma) __AIO_UNARY(tgamma) __AIO_UNARY(floor) __AIO_UNARY(ceil) __AIO_UNARY(trunc)
__AIO_UNARY(rint) __AIO_UNARY(nearbyint) __AIO_UNARY(round) __AIO_UNARY(fabs)
__AIO_BINARY(pow) __AIO_BINARY(atan2) __AIO_BINARY(hypot) __AIO_BINARY(fmod) __AIO_BINARY(fmin) __AIO_BINARY(fmax)
__AIO_BINARY(copysign) __AIO_BINARY(fdim)
__AIO_BOTH float fmaf(float, float, float); __AIO_BOTH float fma(float, float, float);
__AIO_BOTH double fma(double, double, double);
__AIO_BOTH double pow(double, int); __AIO_BOTH float pow(float, int);
__AIO_BOTH bool isnan(float); __AIO_BOTH bool isnan(double);
__AIO_BOTH bool isinf(float); __AIO_BOTH bool isinf(double);
__AIO_BOTH bool isfinite(float); __AIO_BOTH bool isfinite(double);
__AIO_BOTH int abs(int); __AIO_BOTH long abs(long); __AIO_BOTH long long abs(long long);
__AIO_BOTH float abs(float); __AIO_BOTH double abs(double); __AIO_BOTH long labs(long); __AIO_BOTH long long llabs(long long);
#define __AIO_EXTREMES(T) __AIO_BOTH T min(T, T); __AIO_BOTH T max(T, T);
__AIO_EXTREMES(int) __AIO_EXTREMES(unsigned) __AIO_EXTREMES(long) __AIO_EXTREMES(unsigned long)
__AIO_EXTREMES(long long) __AIO_EXTREMES(unsigned long long) __AIO_EXTREMES(float) __AIO_EXTREMES(double)
__AIO_BOTH unsigned min(int, unsigned); __AIO_BOTH unsigned min(unsigned, int);
__AIO_BOTH unsigned max(int, unsigned); __AIO_BOTH unsigned max(unsigned, int);
#define __AIO_FAST(name) __device__ float name(float);
__AIO_FAST(__expf) __AIO_FAST(__exp10f) __AIO_FAST(__logf) __AIO_FAST(__log2f) __AIO_FAST(__log10f) __AIO_FAST(__sinf)
__AIO_FAST(__cosf) __AIO_FAST(__tanf) __AIO_FAST(__fsqrt_rn) __AIO_FAST(__frcp_rn) __AIO_FAST(__saturatef)
__AIO_FAST(__frsqrt_rn)
__device__ float __powf(float, float); __device__ float __fdividef(float, float);
__device__ float __fadd_rn(float, float); __device__ float __fmul_rn(float, float); __device__ float __fsub_rn(float, float);
__device__ float __fdiv_rn(float, float); __device__ float __fmaf_rn(float, float, float);
__device__ double __dadd_rn(double, double); __device__ double __dmul_rn(double, double); __device__ double __ddiv_rn(double, double);
__device__ double __fma_rn(double, double, double);
__device__ int __popc(unsigned); __device__ int __popcll(unsigned long long); __device__ int __clz(int);
__device__ int __clzll(long long); __device__ int __ffs(int); __device__ int __ffsll(long long);
__device__ unsigned __brev(unsigned); __device__ unsigned long long __brevll(unsigned long long);
__device__ int __mul24(int, int); __device__ unsigned __umul24(unsigned, unsigned);
__device__ int __mulhi(int, int); __device__ unsigned __umulhi(unsigned, unsigned);
__device__ int __float_as_int(float); __device__ unsigned __float_as_uint(float); __device__ float __int_as_float(int);
__device__ float __uint_as_float(unsigned); __device__ long long __double_as_longlong(double);
__device__ double __longlong_as_double(long long);
__device__ int __float2int_rn(float); __device__ int __float2int_rz(float); __device__ int __float2int_rd(float);
__device__ int __float2int_ru(float); __device__ unsigned __float2uint_rz(float); __device__ float __int2float_rn(int);
__device__ float __uint2float_rn(unsigned); __device__ int __double2int_rz(double); __device__ float __double2float_rn(double);

typedef _Float16 __half;
typedef _Float16 half;
__AIO_BOTH float __half2float(__half); __AIO_BOTH __half __float2half(float); __AIO_BOTH __half __float2half_rn(float);
__AIO_BOTH __half __hadd(__half, __half); __AIO_BOTH __half __hsub(__half, __half); __AIO_BOTH __half __hmul(__half, __half);
__AIO_BOTH __half __hdiv(__half, __half); __AIO_BOTH __half __hfma(__half, __half, __half);
