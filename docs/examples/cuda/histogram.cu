// Counts bytes: by atomics in shared memory for each block, then in managed memory.
#include <cstdio>

__managed__ unsigned counts[256];

__global__ void count(const unsigned char* bytes, int n) {
  __shared__ unsigned own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd_block(&own[bytes[i]], 1);
  __syncthreads();
  atomicAdd_system(&counts[threadIdx.x], own[threadIdx.x]);
}

int main() {
  const int n = 200000;
  unsigned char* bytes;
  cudaMallocManaged(&bytes, n);
  unsigned expected[256] = {};
  for (int i = 0; i < n; ++i) ++expected[bytes[i] = static_cast<unsigned char>(i * i >> 3)];
  count<<<6, 256>>>(bytes, n);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return 1;
  }
  int wrong = 0;
  for (int i = 0; i < 256; ++i) wrong += counts[i] != expected[i];
  std::printf("histogram: %d of 256 counts are wrong\n", wrong);
  return wrong != 0;
}
