// The product of two matrices by tiles in shared memory.
#include <cstdio>

template <int tile>
__global__ void multiply(const float* a, const float* b, float* product, int n) {
  __shared__ float tile_a[tile][tile];
  __shared__ float tile_b[tile][tile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * tile + y;
  const int column = blockIdx.x * tile + x;
  float sum = 0;
  for (int k = 0; k < n; k += tile) {
    tile_a[y][x] = a[row * n + k + x];
    tile_b[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < tile; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  product[row * n + column] = sum;
}

int main() {
  constexpr int n = 64, tile = 16;
  float *a, *b, *product;
  cudaMallocManaged(&a, n * n * sizeof *a);
  cudaMallocManaged(&b, n * n * sizeof *b);
  cudaMallocManaged(&product, n * n * sizeof *product);
  for (int i = 0; i < n * n; ++i) {
    a[i] = i % 7;
    b[i] = i % 5;
  }
  multiply<tile><<<dim3(n / tile, n / tile), dim3(tile, tile)>>>(a, b, product, n);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return 1;
  }
  int wrong = 0;
  for (int row = 0; row < n; ++row)
    for (int column = 0; column < n; ++column) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
      wrong += product[row * n + column] != sum;
    }
  std::printf("matrix_product: %d of %d elements are wrong\n", wrong, n * n);
  return wrong != 0;
}
