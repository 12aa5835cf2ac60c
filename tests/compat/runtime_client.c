/* A program for the runtime API: it uses cuda_runtime_api.h and -lcudart, and does not know
 * Wherry. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  int count = 0;
  void* pointer = NULL;
  cudaStream_t stream;
  struct cudaMemLocation there = {cudaMemLocationTypeDevice, 0};
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 1) return 1;
  if (cudaMallocManaged(&pointer, 1 << 20, cudaMemAttachGlobal) != cudaSuccess) return 2;
  memset(pointer, 42, 1 << 20);
  if (cudaStreamCreate(&stream) != cudaSuccess) return 3;
  if (cudaMemPrefetchAsync(pointer, 1 << 20, there, 0, stream) != cudaSuccess) return 4;
  if (cudaStreamSynchronize(stream) != cudaSuccess) return 5;
  if (((char*)pointer)[4096] != 42) return 6;
  if (cudaFree(pointer) != cudaSuccess) return 7;
  puts("done");
  return 0;
}
