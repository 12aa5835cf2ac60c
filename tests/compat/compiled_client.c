/* Makes the calls of a program whose kernels and variables the CUDA compiler has compiled:
 * registration before main(), a push and a stub for each launch, __cudaInitModule before a managed
 * variable is used. The fat binary is a dummy.
 *
 * Usage: compiled_client [no-device]: what is answered without a device */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The declarations of nvcc's crt/host_runtime.h. */
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFatBinaryEnd(void** module);
void __cudaUnregisterFatBinary(void** module);
void __cudaRegisterFunction(void** module, const char* stub, char* device_function,
                            const char* name, int thread_limit, void* tid, void* bid, void* block,
                            void* grid, int* warp);
void __cudaRegisterVar(void** module, char* shadow, char* device_address, const char* name, int ext,
                       size_t size, int constant, int global);
void __cudaRegisterManagedVar(void** module, void** pointer, char* device_address, const char* name,
                              int ext, size_t size, int constant, int global);
char __cudaInitModule(void** module);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     struct CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                               size_t shared, cudaStream_t stream);
cudaError_t cudaGetSymbolAddress(void** address, const void* symbol);
cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol);
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t count, size_t offset,
                               enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t count, size_t offset,
                                 enum cudaMemcpyKind kind);

#define CHECK(condition)                                          \
  do {                                                            \
    if (!(condition)) {                                           \
      fprintf(stderr, "line %d: not %s\n", __LINE__, #condition); \
      exit(1);                                                    \
    }                                                             \
  } while (0)

static const struct {
  int magic, version;
  const void* data;
  void* file;
} fat_binary = {0x466243b1, 1, NULL, NULL};

static int counter_shadow;       /* __device__ int counter */
static int factor_shadow;        /* __constant__ int factor */
static int* total;               /* __managed__ int total */
static double (*numbers)[10000]; /* __managed__ double numbers[10000] */
static int unknown;
static void** module;

/* __global__ void add(int x): CUDA 13's stub, and that of older compilers. */
static cudaError_t launched;
static void add(int x) {
  static cudaKernel_t handle;
  static int is_asked;
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
  void* args[] = {&x};
  if (!is_asked) CHECK(__cudaGetKernel(&handle, (const void*)add) == cudaSuccess);
  is_asked = 1;
  CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == cudaSuccess);
  CHECK(grid.x == 7 && grid.y == 1 && block.x == 32 && shared == 16);
  launched = __cudaLaunchKernel(handle, grid, block, args, shared, stream);
}
static void add_in_the_old_way(int x) {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
  void* args[] = {&x};
  CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == cudaSuccess);
  launched = cudaLaunchKernel((const void*)add_in_the_old_way, grid, block, args, shared, stream);
}

static void unregister(void) {
  __cudaUnregisterFatBinary(module);
}

__attribute__((constructor)) static void register_all(void) {
  module = __cudaRegisterFatBinary((void*)&fat_binary);
  __cudaRegisterFunction(module, (const char*)add, "_Z3addi", "_Z3addi", -1, NULL, NULL, NULL, NULL,
                         NULL);
  __cudaRegisterFunction(module, (const char*)add_in_the_old_way, "_Z3oldi", "_Z3oldi", -1, NULL,
                         NULL, NULL, NULL, NULL);
  __cudaRegisterVar(module, (char*)&counter_shadow, "counter", "counter", 0, sizeof counter_shadow,
                    0, 0);
  __cudaRegisterVar(module, (char*)&factor_shadow, "factor", "factor", 0, sizeof factor_shadow, 1,
                    0);
  __cudaRegisterManagedVar(module, (void**)&total, "total", "total", 0, sizeof *total, 0, 0);
  __cudaRegisterManagedVar(module, (void**)&numbers, "numbers", "numbers", 0, sizeof *numbers, 0,
                           0);
  __cudaRegisterFatBinaryEnd(module);
  atexit(unregister);
}

/* add<<<7, 32, 16>>>(x) */
static void launch(void (*stub)(int), cudaError_t wanted) {
  const dim3 grid = {7, 1, 1}, block = {32, 1, 1};
  CHECK(__cudaPushCallConfiguration(grid, block, 16, NULL) == 0);
  stub(3);
  CHECK(launched == wanted);
  CHECK(cudaPeekAtLastError() == wanted);
  CHECK(cudaGetLastError() == wanted);
  CHECK(cudaGetLastError() == cudaSuccess);
}

static void check_launches(void) {
  dim3 grid = {1, 1, 1};
  size_t shared;
  cudaStream_t stream;
  struct cudaFuncAttributes attributes;
  int blocks;
  launch(add, cudaErrorNoKernelImageForDevice);
  launch(add, cudaErrorNoKernelImageForDevice);
  launch(add_in_the_old_way, cudaErrorNoKernelImageForDevice);
  /* A refused launch does not affect the context. */
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaFuncGetAttributes(&attributes, (const void*)add) == cudaErrorNoKernelImageForDevice);
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void*)add, 32, 0) ==
        cudaErrorNoKernelImageForDevice);
  CHECK(cudaLaunchKernel((const void*)&unknown, grid, grid, NULL, 0, NULL) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaGetLastError() == cudaErrorInvalidDeviceFunction);

  /* Configurations are a stack. */
  CHECK(__cudaPushCallConfiguration((dim3){1, 1, 1}, grid, 1, NULL) == 0);
  CHECK(__cudaPushCallConfiguration((dim3){2, 1, 1}, grid, 2, NULL) == 0);
  CHECK(__cudaPopCallConfiguration(&grid, &grid, &shared, &stream) == cudaSuccess && shared == 2);
  CHECK(__cudaPopCallConfiguration(&grid, &grid, &shared, &stream) == cudaSuccess && shared == 1);
  CHECK(__cudaPopCallConfiguration(&grid, &grid, &shared, &stream) ==
        cudaErrorMissingConfiguration);
  CHECK(cudaGetLastError() == cudaErrorMissingConfiguration);
}

static void use_managed_variables(void) {
  CHECK(total == NULL);
  CHECK(__cudaInitModule(module) != 0);
  CHECK(*total == 0 && (*numbers)[9999] == 0);
  *total = 42;
  for (int i = 0; i < 10000; ++i) (*numbers)[i] = i;
  CHECK(*total == 42 && (*numbers)[1234] == 1234);
  /* Each source file calls this: the variables keep their values. */
  int* const before = total;
  CHECK(__cudaInitModule(module) != 0);
  CHECK(total == before && *total == 42);
}

static void check_variables(void) {
  int value = 5;
  void* address = NULL;
  size_t size = 0;
  struct cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, total) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeManaged);
  CHECK(cudaGetSymbolAddress(&address, total) == cudaSuccess && address == total);
  CHECK(cudaGetSymbolSize(&size, numbers) == cudaSuccess && size == sizeof *numbers);
  CHECK(cudaMemcpyToSymbol(total, &value, sizeof value, 0, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(*total == 5);
  CHECK(cudaMemcpyFromSymbol(&value, numbers, 4, 8 * 1234, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(memcmp(&value, &(*numbers)[1234], 4) == 0);
  CHECK(cudaMemcpyToSymbol(total, &value, 4, 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyToSymbol(total, &value, 4, 0, cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidMemcpyDirection);

  /* The device's variables are not in an image that the library can load. */
  CHECK(cudaMemcpyToSymbol(&counter_shadow, &value, 4, 0, cudaMemcpyHostToDevice) ==
        cudaErrorNoKernelImageForDevice);
  CHECK(cudaGetLastError() == cudaErrorNoKernelImageForDevice);
  CHECK(cudaMemcpyFromSymbol(&value, &factor_shadow, 4, 0, cudaMemcpyDeviceToHost) ==
        cudaErrorNoKernelImageForDevice);
  CHECK(cudaGetSymbolAddress(&address, &counter_shadow) == cudaErrorNoKernelImageForDevice);
  CHECK(cudaGetSymbolSize(&size, &unknown) == cudaErrorInvalidSymbol);
  CHECK(cudaGetLastError() == cudaErrorInvalidSymbol);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "no-device") == 0) {
    use_managed_variables();
    CHECK(cudaGetLastError() == cudaSuccess);
    launch(add, cudaErrorNoDevice);
  } else {
    check_launches();
    use_managed_variables();
    check_variables();
  }
  puts("done");
  return 0;
}
