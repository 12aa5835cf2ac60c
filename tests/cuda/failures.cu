// Kernels that fail. The argument says how; prints the error that the program gets.
#include <cooperative_groups.h>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <string>

__global__ void wrong_assertion(int n) {
  const int i = blockIdx.x == 0 ? 0 : threadIdx.x;
  __syncthreads();
  assert(i < n);
}
__device__ int bit(int i) {
  return i & 1;
}
__global__ void deadlock() {
  if (bit(threadIdx.x))
    __syncwarp();
  else
    __syncthreads();
}
__device__ int deep(int n) {
  volatile char space[1024];
  space[n % 1024] = 1;
  __syncthreads();
  return n == 0 ? 0 : deep(n - 1) + space[n % 1024];
}
__global__ void recursion(int depth, int* out) {
  *out = deep(depth);
}
__global__ void illegal(int* p) {
  p[threadIdx.x] = 1;
}
__global__ void ordinary() {
  cooperative_groups::this_grid().sync();
}
__global__ void trap() {
  __trap();
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int* out = nullptr;
  if (cudaMallocManaged(&out, sizeof *out) != cudaSuccess) return 1;
  if (what == "assert") wrong_assertion<<<2, 4>>>(3);
  if (what == "deadlock") deadlock<<<1, 64>>>();
  if (what == "recursion") recursion<<<1, 2>>>(20, out);
  if (what == "overflow") recursion<<<1, 2>>>(200, out);
  if (what == "illegal") illegal<<<1, 1>>>(reinterpret_cast<int*>(64));
  if (what == "grid") ordinary<<<2, 1>>>();
  if (what == "trap") trap<<<1, 1>>>();
  if (what == "host-assert") assert(argc == 7);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorName(error));
  return 0;
}
