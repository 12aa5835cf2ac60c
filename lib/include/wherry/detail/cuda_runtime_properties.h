/* Part of cuda_runtime_api.h, which includes it: all properties of a device in one structure. */
#include "../cuda_runtime_api.h"

#ifndef WHERRY_CUDA_RUNTIME_PROPERTIES_H
#define WHERRY_CUDA_RUNTIME_PROPERTIES_H

/* The results of cuDeviceGetName, cuDeviceGetUuid, cuDeviceTotalMem and cuDeviceGetAttribute, each
 * in a field of its own. The layout is that of CUDA 13, also with CUDA 12 names. */
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  char luid[8]; /* zero: exists only on Windows */
  unsigned int luidDeviceNodeMask;
  size_t totalGlobalMem; /* bytes, like the other sizes */
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  size_t totalConstMem;
  int major;
  int minor;
  size_t textureAlignment;
  size_t texturePitchAlignment;
  int multiProcessorCount;
  int integrated;
  int canMapHostMemory;
  int maxTexture1D;
  int maxTexture1DMipmap;
  int maxTexture2D[2];
  int maxTexture2DMipmap[2];
  int maxTexture2DLinear[3];
  int maxTexture2DGather[2];
  int maxTexture3D[3];
  int maxTexture3DAlt[3];
  int maxTextureCubemap;
  int maxTexture1DLayered[2];
  int maxTexture2DLayered[3];
  int maxTextureCubemapLayered[2];
  int maxSurface1D;
  int maxSurface2D[2];
  int maxSurface3D[3];
  int maxSurface1DLayered[2];
  int maxSurface2DLayered[3];
  int maxSurfaceCubemap;
  int maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryBusWidth; /* bits */
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int gpuDirectRDMASupported;
  unsigned int gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned int memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported;
  int ipcEventSupported;
  int clusterLaunch;
  int unifiedFunctionPointers;
  int deviceNumaConfig;
  int deviceNumaId;
  int mpsEnabled;
  int hostNumaId;
  unsigned int gpuPciDeviceID;
  unsigned int gpuPciSubsystemID;
  int hostNumaMultinodeIpcSupported;
#ifdef __CUDACC__
  /* Members that CUDA 12 has, at other places. Rates are in kHz. */
  int clockRate;
  int memoryClockRate;
  int deviceOverlap;
  int kernelExecTimeoutEnabled;
  int computeMode;
  int cooperativeMultiDeviceLaunch;
  int maxTexture1DLinear;
  int singleToDoublePrecisionPerfRatio;
  int reserved[48];
#else
  int reserved[56];
#endif
};

/* Returns the properties of the device. Makes no context.
 * Errors:
 * - cudaErrorInvalidValue: prop is NULL.
 * - cudaErrorInvalidDevice: there is no such device. */
cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp* prop, int device);

/* Returns the device that satisfies most of the requests: each field of *prop that is not 0
 * requests a device that has at least this value. Of equal devices, the first one. The texts and
 * ids of *prop request nothing. Makes no context.
 * Errors:
 * - cudaErrorInvalidValue: a pointer is NULL. */
cudaError_t CUDARTAPI cudaChooseDevice(int* device, const struct cudaDeviceProp* prop);

/* As cuMemGetInfo: returns the unused bytes and the capacity, in bytes, of the current device's
 * memory. Other processors may change the unused bytes at any time.
 * Errors:
 * - cudaErrorInvalidValue: a pointer is NULL. */
cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free, size_t* total);

#endif
