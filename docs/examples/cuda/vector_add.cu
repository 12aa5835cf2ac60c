// Adds two vectors in managed memory.
#include <cstdio>

__global__ void add(const float* a, const float* b, float* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

int main() {
  const int n = 100000;
  float *a, *b, *sum;
  cudaMallocManaged(&a, n * sizeof *a);
  cudaMallocManaged(&b, n * sizeof *b);
  cudaMallocManaged(&sum, n * sizeof *sum);
  for (int i = 0; i < n; ++i) {
    a[i] = i;
    b[i] = 2 * i;
  }
  add<<<(n + 255) / 256, 256>>>(a, b, sum, n);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return 1;
  }
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += sum[i] != 3.0f * i;
  std::printf("vector_add: %d of %d sums are wrong\n", wrong, n);
  cudaFree(a);
  cudaFree(b);
  cudaFree(sum);
  return wrong != 0;
}
