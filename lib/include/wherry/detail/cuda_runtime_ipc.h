/* Part of cuda_runtime_api.h, which includes it: memory and events that processes share, as in
 * cuda_ipc.h. */
#include "../cuda_runtime_api.h"

#ifndef WHERRY_CUDA_RUNTIME_IPC_H
#define WHERRY_CUDA_RUNTIME_IPC_H

#define CUDA_IPC_HANDLE_SIZE 64
#define cudaIpcMemLazyEnablePeerAccess 0x01

typedef struct cudaIpcMemHandle_st {
  char reserved[CUDA_IPC_HANDLE_SIZE];
} cudaIpcMemHandle_t;
typedef struct cudaIpcEventHandle_st {
  char reserved[CUDA_IPC_HANDLE_SIZE];
} cudaIpcEventHandle_t;

/* Each is the function of cuda_ipc.h with the same name. Where that returns
 * CUDA_ERROR_INVALID_CONTEXT for a handle of this process's own, it returns
 * cudaErrorDeviceUninitialized. */
cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* devPtr);
cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void** devPtr, cudaIpcMemHandle_t handle,
                                           unsigned int flags);
cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void* devPtr);
cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event);
cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle);

#endif
