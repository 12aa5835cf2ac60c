/* A small program in C11 against the public headers and the shared library: allocates managed
 * memory, has a device double the values, and checks where the page is. Exit code 0: all results
 * are as documented in the headers. */
#include <stdio.h>
#include <wherry/cuda.h>
#include <wherry/wherry.h>

#define COUNT 50000

static WHERRY_MANAGED int rounds = 3;

static void double_numbers(const void* args, size_t begin, size_t end) {
  int* numbers = *(int* const*)args;
  for (size_t i = begin; i < end; ++i) numbers[i] *= 2;
  if (begin == 0) rounds += 1;
}

static int failed(CUresult result, const char* what) {
  const char* name = "unknown error";
  if (result == CUDA_SUCCESS) return 0;
  cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\n", what, name);
  return 1;
}

#define TRY(call) \
  if (failed((call), #call)) return 1

int main(void) {
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUdeviceptr pointer;
  TRY(cuInit(0));
  TRY(cuDeviceGet(&device, 0));
  TRY(cuDevicePrimaryCtxRetain(&context, device));
  TRY(cuCtxSetCurrent(context));
  TRY(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  TRY(cuMemAllocManaged(&pointer, COUNT * sizeof(int), CU_MEM_ATTACH_GLOBAL));

  int* numbers = (int*)(uintptr_t)pointer;
  for (int i = 0; i < COUNT; ++i) numbers[i] = i;
  TRY(wherryLaunchKernel(stream, double_numbers, &numbers, sizeof numbers, COUNT));
  TRY(cuStreamSynchronize(stream));
  if (rounds != 4) return 1;

  wherryPageState info = {.size = sizeof info};
  TRY(wherryGetPageState(numbers, &info));
  if (info.resident != 2) {
    fprintf(stderr, "the device wrote the page, but it is resident at %#x\n",
            (unsigned)info.resident);
    return 1;
  }
  for (int i = 0; i < COUNT; ++i) {
    if (numbers[i] != 2 * i) {
      fprintf(stderr, "numbers[%d] is %d\n", i, numbers[i]);
      return 1;
    }
  }
  TRY(cuMemFree(pointer));
  TRY(cuStreamDestroy(stream));
  TRY(cuDevicePrimaryCtxRelease(device));
  return 0;
}
