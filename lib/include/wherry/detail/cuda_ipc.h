/* Part of cuda.h, which includes it: memory and events that processes share. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_IPC_H
#define WHERRY_CUDA_IPC_H

#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2

#define CU_IPC_HANDLE_SIZE 64

typedef struct CUipcMemHandle_st {
  char reserved[CU_IPC_HANDLE_SIZE];
} CUipcMemHandle_v1;
typedef CUipcMemHandle_v1 CUipcMemHandle;

typedef struct CUipcEventHandle_st {
  char reserved[CU_IPC_HANDLE_SIZE];
} CUipcEventHandle_v1;
typedef CUipcEventHandle_v1 CUipcEventHandle;

typedef enum CUipcMem_flags_enum {
  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 0x1
} CUipcMem_flags;

/* ---- Memory
 *
 * A process passes a handle of 64 bytes to another process by any means, and that process's devices
 * then use the same pages as its own device. The handle alone grants nothing: Linux must let the
 * second process inspect the first one's descriptors. Linux allows that for the same user (and for
 * processes with CAP_SYS_PTRACE), unless the first process has made itself undumpable. Both
 * processes must see each other's process numbers, so they must be in one PID namespace. Any thread
 * may call the functions here. They wait for no other process. */

/* Returns a handle of the whole allocation of cuMemAlloc that contains dptr. The handle is the same
 * each time; memory that is allocated there after a free has another one. A lightweight operation.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pHandle is NULL, or dptr is not in memory of cuMemAlloc or
 *   cuMemAllocPitch of this process.
 * - CUDA_ERROR_OUT_OF_MEMORY: 65536 allocations have handles already.
 * - CUDA_ERROR_INVALID_CONTEXT, and the context's error.
 * On errors *pHandle does not change. */
CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr);

/* Maps the memory for the kernels of the current context's device. If the memory lies on another
 * device that this process sees, it is mapped for that device's kernels, too: Flags must be
 * CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS. Returns in *pdptr its first address in this process, which
 * may differ between processes. A handle that is already open for the device is opened once more,
 * with the same result, also by another context of the device. The memory can be used like any
 * memory of a device, except with cuMemFree, cuIpcGetMemHandle and wherryGetP2PPages. It belongs to
 * the process, not to the context.
 *
 * The pages exist while any process has them open. If the process that has allocated them frees
 * them meanwhile, which CUDA leaves undefined, it can reuse them when the last process has closed
 * them or has ended. If that process ends, the pages are freed with the last process that has them
 * open.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pdptr is NULL, other Flags, not a handle, or a handle of memory that
 *   has been freed or of a process that has ended.
 * - CUDA_ERROR_INVALID_CONTEXT: no current context, or the handle is this process's own.
 * - CUDA_ERROR_MAP_FAILED: Linux refuses (a log line says what to do), or a device does not
 *   respond.
 * - CUDA_ERROR_OUT_OF_MEMORY: no addresses are left.
 * - CUDA_ERROR_OPERATING_SYSTEM: a system call failed for another reason, for example because no
 *   descriptors are left; a log line says so.
 * - The context's error.
 * On errors *pdptr is 0. */
CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags);

/* Undoes one cuIpcOpenMemHandle. The last one waits until every device of this process has finished
 * the work that was submitted to any stream before, and no mapping is left when it returns. Other
 * processes keep their mappings.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: dptr was not returned by cuIpcOpenMemHandle, or has been closed as
 *   often as it was opened.
 * - CUDA_ERROR_INVALID_CONTEXT, and the context's error. */
CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr);

/* ---- Events */

/* Returns a handle of an event that was created with CU_EVENT_INTERPROCESS. The handle is the same
 * each time, until the event is destroyed.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pHandle is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not such an event.
 * - CUDA_ERROR_OUT_OF_MEMORY: 65536 events and allocations have handles already. */
CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event);

/* Opens the event in the current context, as an event with CU_EVENT_DISABLE_TIMING, which must be
 * destroyed with cuEventDestroy. cuEventRecord, cuEventQuery, cuEventSynchronize and
 * cuStreamWaitEvent work in every process that has the event open, each on the last recording by
 * any of them. The event exists while any of them has it. Up to 120 of its recordings may be
 * unfinished; beyond that cuEventRecord returns CUDA_ERROR_OUT_OF_MEMORY.
 *
 * If a process ends before its work that the event stands for has finished, waiting threads get
 * CUDA_ERROR_LAUNCH_FAILED within about 0.1 s, and a stream that waits for the event fails its
 * context, as if the event's context had failed.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: phEvent is NULL.
 * - CUDA_ERROR_INVALID_CONTEXT: no current context, or the handle is this process's own.
 * - CUDA_ERROR_MAP_FAILED: not a handle, a handle of an event that has been destroyed or of a
 *   process that has ended, or Linux refuses (a log line says what to do).
 * - CUDA_ERROR_OPERATING_SYSTEM: a system call failed for another reason, for example because no
 *   descriptors are left; a log line says so.
 * - The context's error. */
CUresult CUDAAPI cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle);

#endif
