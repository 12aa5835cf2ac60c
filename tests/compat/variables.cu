// A kernel, and variables of every kind.
#include <cstdio>

__managed__ int total;
__managed__ double numbers[4096];
static __managed__ int own;
__device__ int counter = 7;
__constant__ int factor = 3;

__global__ void add(int x) {
  total += counter + factor + x;
  own++;
}

int main() {
  total = 43;
  numbers[7] = 2.5;
  own = -1;
  std::printf("variables: %d %g %d\n", total, numbers[7], own);
  add<<<1, 1>>>(4);
  std::printf("last: %s\n", cudaGetErrorName(cudaGetLastError()));
  std::printf("synchronize: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  int value = 9;
  std::printf("to counter: %s\n", cudaGetErrorName(cudaMemcpyToSymbol(counter, &value, sizeof value)));
  std::printf("from factor: %s\n", cudaGetErrorName(cudaMemcpyFromSymbol(&value, factor, sizeof value)));
  std::printf("to total: %s\n", cudaGetErrorName(cudaMemcpyToSymbol(total, &value, sizeof value)));
  std::printf("variables: %d %g %d\n", total, numbers[7], own);
}
