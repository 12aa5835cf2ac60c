/* A program that loads Wherry under all of its names: only one instance exists. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <wherry/wherry.h>

int main(void) {
  CUdeviceptr pointer;
  CUcontext context;
  wherryStats stats = {.size = sizeof stats};
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return 1;
  if (cuCtxSetCurrent(context) != CUDA_SUCCESS) return 2;
  if (cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) return 3;
  if (cudaFree((void*)(uintptr_t)pointer) != cudaSuccess) return 4;

  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
  void* wherry = dlopen("libwherry.so.0", RTLD_NOW | RTLD_LOCAL);
  if (driver == NULL || runtime == NULL || wherry == NULL) return 5;
  if (dlsym(driver, "cuInit") != (void*)&cuInit || dlsym(wherry, "cuInit") != (void*)&cuInit)
    return 6;
  if (dlsym(runtime, "cudaFree") != (void*)&cudaFree) return 7;
  if (wherryGetStats(&stats) != CUDA_SUCCESS) return 8;
  puts("done");
  return 0;
}
