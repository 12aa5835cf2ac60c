/* A program that was linked with a library of kernels, and is not position-independent: there the
 * address of a kernel is the address of a stub in the program. */
#include <cuda_runtime_api.h>
#include <stdio.h>

struct wherryLaunchInfo;
void add_one(const struct wherryLaunchInfo* info, void** params);

int main(void) {
  int* numbers = NULL;
  int count = 100;
  void* args[] = {&numbers, &count};
  if (cudaMallocManaged((void**)&numbers, 128 * sizeof *numbers, cudaMemAttachGlobal) !=
      cudaSuccess)
    return 1;
  for (int i = 0; i < 128; ++i) numbers[i] = i;
  if (cudaLaunchKernel((const void*)add_one, (dim3){4, 1, 1}, (dim3){32, 1, 1}, args, 0, NULL) !=
      cudaSuccess)
    return 2;
  if (cudaDeviceSynchronize() != cudaSuccess) return 3;
  for (int i = 0; i < 128; ++i)
    if (numbers[i] != i + (i < count)) return 4;
  puts("done");
  return 0;
}
