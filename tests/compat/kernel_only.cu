// A kernel on memory that the program allocates.
#include <cstdio>

__global__ void add(int* numbers, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) numbers[i] += 1;
}

int main() {
  int* numbers = nullptr;
  const cudaError_t allocated = cudaMallocManaged(&numbers, 1024);
  std::printf("allocate: %s\n", cudaGetErrorName(allocated));
  if (allocated != cudaSuccess) return 3;
  numbers[0] = 5;
  add<<<1, 32>>>(numbers, 32);
  std::printf("peek: %s\n", cudaGetErrorName(cudaPeekAtLastError()));
  std::printf("last: %s\n", cudaGetErrorName(cudaGetLastError()));
  std::printf("synchronize: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  std::printf("number: %d\n", numbers[0]);
}
