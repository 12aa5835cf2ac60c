// The sum of a vector by shuffles in warps and one atomic addition for each block.
#include <cstdio>

__inline__ __device__ int sum_of_warp(int value) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2)
    value += __shfl_down_sync(0xffffffff, value, offset);
  return value;
}

__global__ void sum(const int* numbers, int n, int* total) {
  __shared__ int of_warps[32];
  int value = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    value += numbers[i];
  const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  value = sum_of_warp(value);
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = lane < blockDim.x / warpSize ? of_warps[lane] : 0;
    value = sum_of_warp(value);
    if (lane == 0) atomicAdd(total, value);
  }
}

int main() {
  const int n = 50000;
  int *numbers, *total;
  cudaMallocManaged(&numbers, n * sizeof *numbers);
  cudaMallocManaged(&total, sizeof *total);
  long expected = 0;
  for (int i = 0; i < n; ++i) expected += numbers[i] = i % 100;
  sum<<<8, 256>>>(numbers, n, total);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return 1;
  }
  std::printf("reduction: %d, expected %ld\n", *total, expected);
  return *total != expected;
}
