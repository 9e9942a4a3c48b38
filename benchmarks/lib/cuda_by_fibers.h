// CUDA programs by g++, slowly and plainly: each thread of a block is a fiber, and __syncthreads()
// goes on with the next. Put before a program's text in which `k<<<shape>>>(` was replaced by
// `aio_kernel("k", k, shape)(`. The first launches of each kernel are written to $AIO_TRACE: what
// it was passed, and all memory of the device before and after, for another implementation to
// be compared with. Memory has slack on both sides, as programs read a row beyond its ends.
#pragma once
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <tuple>
#include <ucontext.h>
#include <unistd.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct float2 { float x, y; };
struct float3 { float x, y, z; };
struct float4 { float x, y, z, w; };
struct double3 { double x, y, z; };
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline const int warpSize = 32;

// --- the device's memory, and calls about it

enum cudaError_t { cudaSuccess };
typedef cudaError_t cudaError;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1 };
typedef void *cudaEvent_t, *cudaStream_t;
struct cudaDeviceProp { char name[256]; size_t totalGlobalMem, sharedMemPerBlock; int major, minor, warpSize, maxThreadsPerBlock, multiProcessorCount, clockRate; };

const size_t aio_slack = 1 << 16;
inline std::map<char *, size_t> aio_memory;
inline std::map<std::string, std::pair<char *, size_t>> aio_symbols;

template <class T> cudaError_t cudaMalloc(T **pointer, size_t size) {
  char *base = (char *)calloc(size + 2 * aio_slack, 1) + aio_slack;
  aio_memory[base] = size;
  *pointer = (T *)base;
  return cudaSuccess;
}
inline cudaError_t cudaFree(void *pointer) { aio_memory.erase((char *)pointer); return cudaSuccess; }
inline void aio_copied(const void *to, const void *from, int value, size_t size);
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind) { aio_copied(to, from, 0, size); memmove(to, from, size); return cudaSuccess; }
inline cudaError_t cudaMemset(void *to, int value, size_t size) { aio_copied(to, nullptr, value, size); memset(to, value, size); return cudaSuccess; }
template <class T> cudaError_t aio_to_symbol(const char *name, T &symbol, const void *from, size_t size, size_t offset = 0, int = 0) {
  memcpy((char *)&symbol + offset, from, size);
  aio_symbols[name] = {(char *)&symbol, sizeof(symbol)};
  return cudaSuccess;
}
#define cudaMemcpyToSymbol(symbol, ...) aio_to_symbol(#symbol, symbol, __VA_ARGS__)
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaThreadSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" __attribute__((used, weak)) cudaError_t cudaSetDevice(int) { return cudaSuccess; } // C calls it, too
inline cudaError_t cudaGetDevice(int *number) { *number = 0; return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int *count) { *count = 1; return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *all, int) { memset(all, 0, sizeof *all); all->maxThreadsPerBlock = 1024; all->multiProcessorCount = 1; all->warpSize = 32; return cudaSuccess; }
inline const char *cudaGetErrorString(cudaError_t) { return "no error"; }
template <class T> cudaError_t cudaFuncSetCacheConfig(T, cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t *) { return cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = 0) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float *time, cudaEvent_t, cudaEvent_t) { *time = 1; return cudaSuccess; }
struct StopWatchInterface {};
inline void sdkCreateTimer(StopWatchInterface **) {}
inline void sdkStartTimer(StopWatchInterface **) {}
inline void sdkStopTimer(StopWatchInterface **) {}
inline float sdkGetAverageTimerValue(StopWatchInterface **) { return 1; }
#define checkCudaErrors(call) (void)(call)
#define getLastCudaError(message) (void)0
#define CUDA_SAFE_CALL(call) (call)
#define CUT_CHECK_ERROR(message) (void)0

inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
template <class T> T atomicAdd(T *p, T v) { T old = *p; *p = old + v; return old; }

// --- fibers

// A fiber runs one thread behind the other; only where a thread waits at a barrier is another fiber
// needed for those behind it. So a kernel without barriers runs as plain loops do.
struct AioFiber { ucontext_t context; uint3 index; bool waits; };
inline std::deque<AioFiber> aio_fibers; // they stay where they are: contexts point into themselves
inline std::vector<AioFiber *> aio_idle;
inline AioFiber *aio_running;
inline ucontext_t aio_scheduler;
inline size_t aio_next;
inline std::function<void()> aio_body;

inline void aio_leave() { swapcontext(&aio_running->context, &aio_scheduler); }
inline void __syncthreads() { aio_running->waits = true; aio_leave(); }
inline void aio_enter() {
  for (;;) {
    while (aio_next < blockDim.x * blockDim.y * blockDim.z) {
      const size_t i = aio_next++;
      threadIdx = aio_running->index = {unsigned(i % blockDim.x), unsigned(i / blockDim.x % blockDim.y), unsigned(i / blockDim.x / blockDim.y)};
      aio_body();
    }
    aio_leave();
  }
}
inline AioFiber *aio_fiber() {
  if (aio_idle.empty()) {
    const size_t stack = 1 << 17;
    aio_fibers.emplace_back();
    AioFiber &fiber = aio_fibers.back();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = malloc(stack);
    fiber.context.uc_stack.ss_size = stack;
    makecontext(&fiber.context, aio_enter, 0);
    return &fiber;
  }
  AioFiber *fiber = aio_idle.back();
  aio_idle.pop_back();
  return fiber;
}

inline void aio_block() {
  static std::vector<AioFiber *> waiting, again;
  const auto resumed = [](AioFiber *fiber) {
    aio_running = fiber;
    fiber->waits = false;
    threadIdx = fiber->index;
    swapcontext(&aio_scheduler, &fiber->context);
    (fiber->waits ? again : aio_idle).push_back(fiber);
  };
  for (aio_next = 0; aio_next < blockDim.x * blockDim.y * blockDim.z;) resumed(aio_fiber());
  while (!again.empty()) {
    waiting.swap(again);
    for (AioFiber *fiber : waiting) resumed(fiber);
    waiting.clear();
  }
}

// --- what a launch was passed, before and after

inline FILE *aio_trace() {
  static FILE *file = getenv("AIO_TRACE") ? fopen(getenv("AIO_TRACE"), "wb") : nullptr;
  return file;
}
inline void aio_dump(const char *when) {
  FILE *file = aio_trace();
  for (auto &[base, size] : aio_memory) {
    fprintf(file, "%s %zu %zu\n", when, (size_t)base, size);
    fwrite(base, 1, size, file);
  }
  for (auto &[name, symbol] : aio_symbols) {
    if (*when == 'a') continue;
    fprintf(file, "symbol %s %zu\n", name.c_str(), symbol.second);
    fwrite(symbol.first, 1, symbol.second, file);
  }
}
template <class T> void aio_argument(T value) {
  fprintf(aio_trace(), "argument %c %zu\n", std::is_pointer_v<T> ? 'p' : std::is_class_v<T> ? 's' : 'n', sizeof value);
  fwrite(&value, 1, sizeof value, aio_trace());
}
inline bool aio_is_on_device(const void *place) {
  for (auto &[base, size] : aio_memory)
    if ((char *)place >= base && (char *)place < base + size) return true;
  return false;
}

// A region is what the program does between two readings of its clock, with $AIO_REGIONS in place
// of single launches: memory before and after, and in between each launch and each copy.
inline int aio_regions = 0, aio_depth = 0;
inline int aio_most_regions() { return getenv("AIO_REGIONS") ? atoi(getenv("AIO_REGIONS")) : 0; }
inline bool aio_in_region() { return aio_trace() && aio_depth && aio_regions < aio_most_regions(); }
inline void aio_start(const char *name) {
  if (aio_depth++ || !aio_most_regions() || !aio_trace()) return;
  fprintf(aio_trace(), "region %s\n", name);
  aio_dump("before");
}
inline void aio_stop() {
  if (--aio_depth || !aio_most_regions() || !aio_trace()) return;
  aio_dump("after");
  fprintf(aio_trace(), "end\n");
  fflush(aio_trace());
  if (++aio_regions >= aio_most_regions()) _exit(0);
}
#define MY_START_CLOCK(app, region) aio_start(#app " " #region)
#define MY_STOP_CLOCK(app, region) aio_stop()
inline void aio_copied(const void *to, const void *from, int value, size_t size) {
  if (!aio_in_region()) return;
  const size_t target = aio_is_on_device(to) ? (size_t)to : 0;
  if (from && !aio_is_on_device(from)) {
    fprintf(aio_trace(), "put %zu %zu\n", target, size);
    fwrite(from, 1, size, aio_trace());
  } else if (from)
    fprintf(aio_trace(), "copy %zu %zu %zu\n", target, (size_t)from, size);
  else
    fprintf(aio_trace(), "fill %zu %d %zu\n", target, value, size);
}

inline int aio_launches = 0;
inline int aio_most_launches() { return getenv("AIO_LAUNCHES") ? atoi(getenv("AIO_LAUNCHES")) : 3; }

template <class... P> struct AioKernel {
  const char *name;
  void (*function)(P...);
  dim3 grid, block;
  template <class... A> void operator()(A... arguments) const {
    static std::map<std::string, int> seen;
    std::tuple<P...> passed(static_cast<P>(arguments)...);
    const bool traced = aio_trace() && !aio_most_regions() && seen[name]++ < aio_most_launches();
    if (traced || aio_in_region()) {
      fprintf(aio_trace(), "launch %s %u %u %u %u %u %u\n", name, grid.x, grid.y, grid.z, block.x, block.y, block.z);
      std::apply([](auto... each) { (aio_argument(each), ...); }, passed);
      if (traced) aio_dump("before");
    }
    gridDim = grid, blockDim = block;
    aio_body = [&] { std::apply(function, passed); };
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
      for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) aio_block();
    if (traced) {
      aio_dump("after");
      fprintf(aio_trace(), "end\n");
      fflush(aio_trace());
    }
    if (getenv("AIO_MOST") && ++aio_launches >= atoi(getenv("AIO_MOST"))) _exit(0);
  }
};
template <class... P> AioKernel<P...> aio_kernel(const char *name, void (*function)(P...), dim3 grid, dim3 block, size_t = 0, void * = nullptr) {
  return {name, function, grid, block};
}
