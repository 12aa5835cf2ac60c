/* A program that first queries everything about its devices, as NVIDIA's deviceQuery and most
 * libraries do. It is compiled with Wherry's cuda_runtime_api.h and, if a toolkit is installed,
 * with NVIDIA's: layouts, names and values must be the same. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      return 1;                                               \
    }                                                         \
  } while (0)

static int attribute(enum cudaDeviceAttr which, int device) {
  int value = -77;
  return cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : -78;
}

static int check_properties(int device) {
  struct cudaDeviceProp properties;
  memset(&properties, 0xee, sizeof properties);
  EXPECT(cudaGetDeviceProperties(&properties, device) == cudaSuccess);
  EXPECT(strncmp(properties.name, "Wherry device", 13) == 0);
  EXPECT(properties.totalGlobalMem == (size_t)(device == 0 ? 32 : 64) << 20);
  EXPECT(properties.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount, device));
  EXPECT(properties.major == attribute(cudaDevAttrComputeCapabilityMajor, device));
  EXPECT(properties.maxThreadsDim[2] == attribute(cudaDevAttrMaxBlockDimZ, device));
  EXPECT(properties.maxGridSize[0] == attribute(cudaDevAttrMaxGridDimX, device));
  EXPECT(properties.memPitch == (size_t)attribute(cudaDevAttrMaxPitch, device));
  EXPECT(properties.surfaceAlignment == (size_t)attribute(cudaDevAttrSurfaceAlignment, device));
  EXPECT(properties.managedMemory == 1 && properties.concurrentManagedAccess == 1);
  EXPECT(properties.hostRegisterSupported == attribute(cudaDevAttrHostRegisterSupported, device));
  EXPECT(properties.pciDeviceID == attribute(cudaDevAttrPciDeviceId, device));
  EXPECT(properties.hostNumaId == attribute(cudaDevAttrHostNumaId, device));
  EXPECT(properties.reserved[55] == 0);
  char bus_id[32];
  int same = -1;
  EXPECT(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device) == cudaSuccess);
  EXPECT(cudaDeviceGetByPCIBusId(&same, bus_id) == cudaSuccess && same == device);
  return 0;
}

static int check_memory(void) {
  size_t free = 0;
  size_t total = 0;
  EXPECT(cudaMemGetInfo(&free, &total) == cudaSuccess && free <= total && total == 32 << 20);
  int least = 1;
  int greatest = 1;
  EXPECT(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess && greatest < least);
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  EXPECT(cudaStreamGetCaptureInfo(0, &status, NULL, NULL, NULL, NULL, NULL) == cudaSuccess);
  EXPECT(status == cudaStreamCaptureStatusNone);
  return 0;
}

/* Runs a kernel of a library that was compiled for Wherry. It adds 1 to the first word of each
 * page. */
static int check_launch(const char* file) {
  cudaLibrary_t library;
  cudaKernel_t kernel;
  EXPECT(cudaLibraryLoadFromFile(&library, file, NULL, NULL, 0, NULL, NULL, 0) == cudaSuccess);
  EXPECT(cudaLibraryGetKernel(&kernel, library, "add_one") == cudaSuccess);
  struct cudaFuncAttributes attributes;
  EXPECT(cudaFuncGetAttributes(&attributes, (const void*)kernel) == cudaSuccess);
  int blocks = 0;
  EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
             &blocks, (const void*)kernel, attributes.maxThreadsPerBlock, 0) == cudaSuccess);
  EXPECT(blocks == 1);
  int* numbers;
  int count = 1000;
  EXPECT(cudaMallocManaged((void**)&numbers, count * sizeof *numbers, cudaMemAttachGlobal) ==
         cudaSuccess);
  for (int i = 0; i < count; ++i) numbers[i] = i;
  struct dim3 grid = {8, 1, 1};
  struct dim3 block = {125, 1, 1};
  void* arguments[] = {&numbers, &count};
  EXPECT(cudaLaunchKernel((const void*)kernel, grid, block, arguments, 0, 0) == cudaSuccess);
  cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = block};
  EXPECT(cudaLaunchKernelExC(&config, (const void*)kernel, arguments) == cudaSuccess);
  EXPECT(cudaDeviceSynchronize() == cudaSuccess);
  for (int i = 0; i < count; ++i) EXPECT(numbers[i] == i + 2);
  EXPECT(cudaFree(numbers) == cudaSuccess);
  EXPECT(cudaLibraryUnload(library) == cudaSuccess);
  return 0;
}

/* The argument is the library. CUDA_VISIBLE_DEVICES is 1,0, and the devices have 64 and 32 MiB. */
int main(int argument_count, char** arguments) {
  int count = 0;
  EXPECT(argument_count == 2);
  EXPECT(cudaGetDeviceCount(&count) == cudaSuccess && count == 2);
  for (int device = 0; device < count; ++device)
    if (check_properties(device) != 0) return 1;
  struct cudaDeviceProp wanted;
  int chosen = -1;
  memset(&wanted, 0, sizeof wanted);
  wanted.totalGlobalMem = 64 << 20;
  EXPECT(cudaChooseDevice(&chosen, &wanted) == cudaSuccess && chosen == 1);
  if (check_memory() != 0 || check_launch(arguments[1]) != 0) return 1;
  puts("done");
  return 0;
}
