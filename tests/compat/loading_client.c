/* A program that loads the driver at run time, as most libraries do, and looks up its functions by
 * version. Its argument is the library's name. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

#undef cuGetProcAddress

typedef CUresult (*GetProcAddress)(const char*, void**, int, cuuint64_t,
                                   CUdriverProcAddressQueryResult*);
typedef CUresult (*Init)(unsigned);
typedef CUresult (*Alloc)(CUdeviceptr*, size_t, unsigned);
typedef CUresult (*Free)(CUdeviceptr);
typedef CUresult (*Retain)(CUcontext*, CUdevice);
typedef CUresult (*SetCurrent)(CUcontext);
typedef CUresult (*Anything)(void);

static GetProcAddress get;

static void* find(const char* name, int version) {
  void* function = NULL;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (get(name, &function, version, 0, &status) != CUDA_SUCCESS) return NULL;
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? function : NULL;
}

int main(int count, char** arguments) {
  void* library = dlopen(arguments[count - 1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  get = (GetProcAddress)dlsym(library, "cuGetProcAddress_v2");
  if (get == NULL) return 2;
  if (((Init)find("cuInit", 12000))(0) != CUDA_SUCCESS) return 3;
  CUcontext context;
  if (((Retain)find("cuDevicePrimaryCtxRetain", 12000))(&context, 0) != CUDA_SUCCESS) return 4;
  if (((SetCurrent)find("cuCtxSetCurrent", 12000))(context) != CUDA_SUCCESS) return 5;
  CUdeviceptr pointer;
  if (((Alloc)find("cuMemAllocManaged", 12000))(&pointer, 4096, CU_MEM_ATTACH_GLOBAL) !=
      CUDA_SUCCESS) {
    return 6;
  }
  *(volatile int*)(uintptr_t)pointer = 1;
  if (((Free)find("cuMemFree", 12000))(pointer) != CUDA_SUCCESS) return 7;
  if (find("cuMemAdvise", 12000) != dlsym(library, "cuMemAdvise")) return 8;
  if (find("cuMemAdvise", 12020) != dlsym(library, "cuMemAdvise_v2")) return 9;
  if (find("cuMemDiscardBatchAsync", 12000) != NULL || find("cuNothing", 13000) != NULL) return 10;

  /* Functions that Wherry does not support exist, too, and log that once. */
  Anything refused = (Anything)find("cuTensorMapReplaceAddress", 12000);
  if (refused == NULL || refused != (Anything)dlsym(library, "cuTensorMapReplaceAddress"))
    return 11;
  if (refused() != CUDA_ERROR_NOT_SUPPORTED || refused() != CUDA_ERROR_NOT_SUPPORTED) return 12;
  puts("done");
  return 0;
}
