// What CUDA programs commonly do, in the style of published samples: reductions by templates,
// the last block, groups passed to functions, aggregated atomics, virtual functions, overloads,
// sorting, transposition, products with registers. Prints which checks fail, and a count.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <cassert>
#include <cstdio>
namespace cg = cooperative_groups;
#define FETCH_INT4(pointer) (reinterpret_cast<int4*>(&(pointer))[0])
typedef struct __align__(4) {
  unsigned char r, g, b, a;
}
RGBA8;
typedef unsigned int uint;
template <class T>
struct SharedMemory {
  __device__ inline operator T*() {
    extern __shared__ int __smem[];
    return (T*)__smem;
  }
  __device__ inline operator const T*() const {
    extern __shared__ int __smem[];
    return (T*)__smem;
  }
};
template <>
struct SharedMemory<double> {
  __device__ inline operator double*() {
    extern __shared__ double __smem_d[];
    return (double*)__smem_d;
  }
};
template <class T, unsigned int blockSize, bool nIsPow2>
__global__ void reduce6(T* g_idata, T* g_odata, unsigned int n) {
  cg::thread_block cta = cg::this_thread_block();
  T* sdata = SharedMemory<T>();
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockSize * 2 + threadIdx.x;
  unsigned int gridSize = blockSize * 2 * gridDim.x;
  T mySum = 0;
  while (i < n) {
    mySum += g_idata[i];
    if (nIsPow2 || i + blockSize < n) mySum += g_idata[i + blockSize];
    i += gridSize;
  }
  sdata[tid] = mySum;
  cg::sync(cta);
  if ((blockSize >= 512) && (tid < 256)) {
    sdata[tid] = mySum = mySum + sdata[tid + 256];
  }
  cg::sync(cta);
  if ((blockSize >= 256) && (tid < 128)) {
    sdata[tid] = mySum = mySum + sdata[tid + 128];
  }
  cg::sync(cta);
  if ((blockSize >= 128) && (tid < 64)) {
    sdata[tid] = mySum = mySum + sdata[tid + 64];
  }
  cg::sync(cta);
  cg::thread_block_tile<32> tile32 = cg::tiled_partition<32>(cta);
  if (cta.thread_rank() < 32) {
    if (blockSize >= 64) mySum += sdata[tid + 32];
    for (int offset = tile32.size() / 2; offset > 0; offset /= 2)
      mySum += tile32.shfl_down(mySum, offset);
  }
  if (cta.thread_rank() == 0) g_odata[blockIdx.x] = mySum;
}
__device__ unsigned int retirementCount = 0;
__global__ void last_block(int* out) {
  __shared__ bool amLast;
  cg::thread_block cta = cg::this_thread_block();
  __threadfence();
  if (threadIdx.x == 0) {
    unsigned int ticket = atomicInc(&retirementCount, gridDim.x);
    amLast = (ticket == gridDim.x - 1);
  }
  cg::sync(cta);
  if (amLast && threadIdx.x == 0) {
    *out = 1;
    retirementCount = 0;
  }
}
__device__ int sumReduction(cg::thread_group g, int* x, int val) {
  int lane = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    x[lane] = val;
    g.sync();
    if (lane < i) val += x[lane + i];
    g.sync();
  }
  if (g.thread_rank() == 0)
    return val;
  else
    return -1;
}
__global__ void cgkernel(int* out) {
  cg::thread_block tb = cg::this_thread_block();
  extern __shared__ int workspace[];
  int input = tb.thread_rank();
  int output = sumReduction(tb, workspace, input);
  if (tb.thread_rank() == 0) out[0] = output;
  tb.sync();
  cg::thread_block_tile<16> t16 = cg::tiled_partition<16>(tb);
  int off = tb.thread_rank() - t16.thread_rank();
  output = sumReduction(t16, workspace + off, t16.thread_rank());
  if (t16.thread_rank() == 0) out[1 + off / 16] = output;
}
__device__ int atomicAggInc(int* counter) {
  cg::coalesced_group active = cg::coalesced_threads();
  int res = 0;
  if (active.thread_rank() == 0) res = atomicAdd(counter, active.size());
  return active.shfl(res, 0) + active.thread_rank();
}
__global__ void filter_arr(int* dst, int* nres, const int* src, int n) {
  int id = threadIdx.x + blockIdx.x * blockDim.x;
  for (int i = id; i < n; i += gridDim.x * blockDim.x) {
    if (src[i] > 0) dst[atomicAggInc(nres)] = src[i];
  }
}
__global__ void calculateHistogram(unsigned int* counts, const unsigned* in) {
  auto block = cg::this_thread_block();
  auto tile32 = cg::tiled_partition<32>(block);
  unsigned v = in[threadIdx.x];
  auto sub = cg::binary_partition(tile32, v & 1);
  unsigned s = cg::reduce(sub, v, cg::plus<unsigned>());
  if (v & 1 && sub.thread_rank() == 0) atomicAdd(counts, s);
  auto active = cg::coalesced_threads();
  auto label = cg::labeled_partition(active, v % 4);
  if (label.thread_rank() == 0) atomicAdd(counts + 1 + v % 4, label.size());
}
struct Shape {
  __device__ Shape() {}
  __device__ virtual ~Shape() {}
  __device__ virtual int area() const = 0;
};
struct Square : Shape {
  int a;
  __device__ Square(int x) : a(x) {}
  __device__ int area() const override { return a * a; }
};
__global__ void newdelete(int* out) {
  Shape* s = new Square(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = s->area();
  delete s;
}
__global__ void simple_kernel(const int* a, int* b, int n) {
  *b = a[0] + n;
}
__global__ void simple_kernel(const int2* a, int* b, int n) {
  *b = a[0].x - n;
}
__device__ __forceinline__ uint bfe(uint x, uint bit) {
  return (x >> bit) & 1;
}
__global__ static void __launch_bounds__(128, 2) bounded(uint* x) {
  x[threadIdx.x] = bfe(x[threadIdx.x], 1);
}
template <typename T>
__device__ __forceinline__ void swap_(T& a, T& b) {
  T c(a);
  a = b;
  b = c;
}
inline __host__ __device__ float3 operator+(float3 a, float3 b) {
  return make_float3(a.x + b.x, a.y + b.y, a.z + b.z);
}
__host__ __device__ inline float3& operator+=(float3& a, const float3 b) {
  a = a + b;
  return a;
}
__global__ void bitonic(uint* d) {
  __shared__ uint s_key[64];
  s_key[threadIdx.x] = d[threadIdx.x];
  s_key[threadIdx.x + 32] = d[threadIdx.x + 32];
  for (uint size = 2; size < 64; size <<= 1) {
    uint ddd = ((threadIdx.x & (size / 2)) != 0);
    for (uint stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      uint pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      if ((s_key[pos] > s_key[pos + stride]) == ddd) swap_(s_key[pos], s_key[pos + stride]);
    }
  }
  {
    for (uint stride = 32; stride > 0; stride >>= 1) {
      __syncthreads();
      uint pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      if ((s_key[pos] > s_key[pos + stride]) == 0) swap_(s_key[pos], s_key[pos + stride]);
    }
  }
  __syncthreads();
  d[threadIdx.x] = s_key[threadIdx.x];
  d[threadIdx.x + 32] = s_key[threadIdx.x + 32];
}
__global__ void transposeNoBank(float* odata, float* idata, int width, int height) {
  cg::thread_block cta = cg::this_thread_block();
  __shared__ float tile[16][16 + 1];
  int xIndex = blockIdx.x * 16 + threadIdx.x, yIndex = blockIdx.y * 16 + threadIdx.y;
  int index_in = xIndex + (yIndex)*width;
  xIndex = blockIdx.y * 16 + threadIdx.x;
  yIndex = blockIdx.x * 16 + threadIdx.y;
  int index_out = xIndex + (yIndex)*height;
  for (int i = 0; i < 16; i += 4) tile[threadIdx.y + i][threadIdx.x] = idata[index_in + i * width];
  cg::sync(cta);
  for (int i = 0; i < 16; i += 4)
    odata[index_out + i * height] = tile[threadIdx.x][threadIdx.y + i];
}
template <int BM, int BN, int BK, int TM>
__global__ void sgemm1d(int M, int N, int K, float alpha, const float* A, const float* B,
                        float beta, float* C) {
  const uint cRow = blockIdx.y, cCol = blockIdx.x;
  const int threadCol = threadIdx.x % BN, threadRow = threadIdx.x / BN;
  __shared__ float As[BM * BK];
  __shared__ float Bs[BK * BN];
  A += cRow * BM * K;
  B += cCol * BN;
  C += cRow * BM * N + cCol * BN;
  const uint innerColA = threadIdx.x % BK, innerRowA = threadIdx.x / BK,
             innerColB = threadIdx.x % BN, innerRowB = threadIdx.x / BN;
  float threadResults[TM] = {0.0};
  for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
    As[innerRowA * BK + innerColA] = A[innerRowA * K + innerColA];
    Bs[innerRowB * BN + innerColB] = B[innerRowB * N + innerColB];
    __syncthreads();
    A += BK;
    B += BK * N;
    for (uint dotIdx = 0; dotIdx < BK; ++dotIdx) {
      float tmpB = Bs[dotIdx * BN + threadCol];
      for (uint resIdx = 0; resIdx < TM; ++resIdx)
        threadResults[resIdx] += As[(threadRow * TM + resIdx) * BK + dotIdx] * tmpB;
    }
    __syncthreads();
  }
  for (uint r = 0; r < TM; ++r)
    C[(threadRow * TM + r) * N + threadCol] =
        alpha * threadResults[r] + beta * C[(threadRow * TM + r) * N + threadCol];
}
#define OK(x)                                \
  do {                                       \
    if (!(x)) {                              \
      printf("line %d: %s\n", __LINE__, #x); \
      bad++;                                 \
    }                                        \
  } while (0)
int main() {
  int bad = 0;
  int *a, *o;
  uint* u;
  double* d;
  float *f, *g;
  cudaMallocManaged(&a, 1 << 16);
  cudaMallocManaged(&o, 1 << 16);
  cudaMallocManaged(&u, 1 << 16);
  cudaMallocManaged(&d, 1 << 16);
  cudaMallocManaged((void**)&f, 1 << 16);
  cudaMallocManaged(&g, 1 << 16);
  for (int i = 0; i < 1000; ++i) a[i] = i, d[i] = i;
  switch (256) {
    case 256:
      reduce6<int, 256, false><<<2, 256, 256 * sizeof(int)>>>(a, o, 1000);
      break;
  }
  OK(cudaDeviceSynchronize() == 0 && o[0] + o[1] == 499500);
  reduce6<double, 256, false><<<dim3(1), dim3(256), 256 * sizeof(double)>>>(d, d + 2000, 1000);
  OK(cudaDeviceSynchronize() == 0 && d[2000] == 499500);
  *o = 0;
  last_block<<<5, 32>>>(o);
  OK(cudaDeviceSynchronize() == 0 && *o == 1);
  cgkernel<<<1, 64, 64 * sizeof(int)>>>(o);
  OK(cudaDeviceSynchronize() == 0 && o[0] == 2016 && o[1] == 120 && o[4] == 120);
  *o = 0;
  for (int i = 0; i < 1000; ++i) a[i] = i % 3 - 1;
  filter_arr<<<4, 64>>>(o + 1, o, a, 1000);
  OK(cudaDeviceSynchronize() == 0 && *o == 333);
  for (int i = 0; i < 64; ++i) u[i] = i;
  for (int i = 100; i < 110; ++i) u[i] = 0;
  calculateHistogram<<<1, 64>>>(u + 100, u);
  OK(cudaDeviceSynchronize() == 0 && u[100] == 1024 && u[101] == 16 && u[104] == 16);
  newdelete<<<1, 8>>>(o);
  OK(cudaDeviceSynchronize() == 0 && o[7] == 49);
  void (*func1)(const int*, int*, int) = simple_kernel;
  void (*func2)(const int2*, int*, int) = simple_kernel;
  cudaFuncAttributes attr;
  OK(cudaFuncGetAttributes(&attr, *func1) == 0);
  OK(cudaFuncSetCacheConfig(*func2, cudaFuncCachePreferShared) == 0);
  a[0] = 5;
  (*func1)<<<1, 1>>>(a, o, 3);
  OK(cudaDeviceSynchronize() == 0 && *o == 8);
  func2<<<1, 1>>>((int2*)a, o, 3);
  OK(cudaDeviceSynchronize() == 0 && *o == 2);
  u[3] = 3;
  bounded<<<1, 8>>>(u);
  OK(cudaDeviceSynchronize() == 0 && u[3] == 1 && u[4] == 0);
  for (int i = 0; i < 64; ++i) u[i] = (i * 37) % 64;
  bitonic<<<1, 32>>>(u);
  OK(cudaDeviceSynchronize() == 0);
  for (int i = 0; i < 64; ++i) OK(u[i] == 63 - i);
  for (int i = 0; i < 1024; ++i) f[i] = i;
  transposeNoBank<<<dim3(2, 2), dim3(16, 4)>>>(g, f, 32, 32);
  OK(cudaDeviceSynchronize() == 0 && g[1] == 32 && g[33] == 33 && g[32 * 31] == 31);
  for (int i = 0; i < 4096; ++i) f[i] = i % 7, g[i] = 0;
  float* h = f + 4096;
  for (int i = 0; i < 4096; ++i) h[i] = i % 5;
  sgemm1d<64, 64, 8, 8><<<dim3(1, 1), dim3(64 * 64 / 8)>>>(64, 64, 64, 1.0f, f, h, 0.0f, g);
  OK(cudaDeviceSynchronize() == 0);
  float s = 0;
  for (int k = 0; k < 64; ++k) s += f[3 * 64 + k] * h[k * 64 + 5];
  OK(g[3 * 64 + 5] == s);
  float3 v = make_float3(1, 2, 3);
  v += v;
  OK(v.z == 6);
  printf("%d checks failed\n", bad);
  return bad;
}
