/* A program for the driver API: it uses cuda.h and -lcuda, and does not know Wherry. */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      return 1;                                               \
    }                                                         \
  } while (0)

int main(void) {
  EXPECT(cuInit(0) == CUDA_SUCCESS);
  CUdevice device;
  EXPECT(cuDeviceGet(&device, 0) == CUDA_SUCCESS);
  CUcontext context;
  EXPECT(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
  EXPECT(cuCtxSetCurrent(context) == CUDA_SUCCESS);

  CUdeviceptr pointer;
  EXPECT(cuMemAllocManaged(&pointer, 1 << 20, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  memset((void*)(uintptr_t)pointer, 42, 1 << 20);
  CUmemLocation there = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  EXPECT(cuMemAdvise(pointer, 1 << 20, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, there) ==
         CUDA_SUCCESS);
  CUstream stream;
  EXPECT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  EXPECT(cuMemPrefetchAsync(pointer, 1 << 20, there, 0, stream) == CUDA_SUCCESS);
  EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  for (int i = 0; i < 1 << 20; i += 4096) EXPECT(((char*)(uintptr_t)pointer)[i] == 42);
  EXPECT(cuMemFree(pointer) == CUDA_SUCCESS);
  EXPECT(cuDevicePrimaryCtxRelease(device) == CUDA_SUCCESS);
  puts("done");
  return 0;
}
