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
 * A process hands 64 bytes to another one, by whatever way they have, and that one's devices use
 * the very pages of its own device. The bytes by themselves give nothing: the kernel must let the
 * second process look into the first one's descriptors, as it does for the same user (and for who
 * has CAP_SYS_PTRACE), unless the first one has made itself undumpable. Both must see each other's
 * process numbers, so be of one PID namespace. All functions here may be called by any thread, and
 * wait for no other process. */

/* Gives a handle of the memory of cuMemAlloc that dptr lies in, all of it; the same one each time,
 * and another one for what is allocated there after it was freed. A lightweight operation.
 * CUDA_ERROR_INVALID_VALUE: pHandle NULL, or dptr is not in memory of cuMemAlloc or cuMemAllocPitch
 * of this process; CUDA_ERROR_OUT_OF_MEMORY: 65536 allocations have handles;
 * CUDA_ERROR_INVALID_CONTEXT, and the context's error. On errors *pHandle is as before. */
CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr);

/* Maps the memory for the kernels of the current context's device, and for those of the device that
 * it lies on if that is another one and this process sees it: CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
 * which Flags must be. *pdptr: its first byte, where this process has it, which may be elsewhere in
 * each. A handle that is open for the device already is opened once more, with the same answer,
 * also by another context of the device. The memory can be used like any of a device's own, but for
 * cuMemFree, cuIpcGetMemHandle and wherryP2PGetPages. It belongs to the process, not to the
 * context.
 *
 * The pages stay while they are open anywhere. If the process that has allocated them frees them
 * meanwhile, which CUDA leaves undefined, it gets them back for other uses when the last one has
 * closed them or has ended; if it ends they are gone with the last one that has them open.
 *
 * CUDA_ERROR_INVALID_VALUE: pdptr NULL, other Flags, or what is no handle, or one of memory that is
 * freed or of a process that has ended; CUDA_ERROR_INVALID_CONTEXT: no current context, or the
 * handle is this process's own; CUDA_ERROR_MAP_FAILED: the kernel refuses, with a line in the log
 * that says what to do, or a device does not answer; CUDA_ERROR_OUT_OF_MEMORY: there are no
 * addresses left; CUDA_ERROR_OPERATING_SYSTEM: the kernel does not tell, as for want of
 * descriptors, with a line in the log; the context's error. On errors *pdptr is 0. */
CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags);

/* Undoes one cuIpcOpenMemHandle. The last one waits until every device of this process has finished
 * what was given to any stream before, and no mapping is left when it returns. Whoever else has the
 * memory still has it. CUDA_ERROR_INVALID_VALUE: dptr is not what cuIpcOpenMemHandle gave, or has
 * been closed as often; CUDA_ERROR_INVALID_CONTEXT, and the context's error. */
CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr);

/* ---- Events */

/* Gives a handle of an event that was created with CU_EVENT_INTERPROCESS; the same one each time,
 * until it is destroyed. CUDA_ERROR_INVALID_VALUE: pHandle NULL; CUDA_ERROR_INVALID_HANDLE: not
 * such an event; CUDA_ERROR_OUT_OF_MEMORY: 65536 events and allocations have handles. */
CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event);

/* Opens it in the current context, as an event with CU_EVENT_DISABLE_TIMING, to be destroyed with
 * cuEventDestroy. cuEventRecord, cuEventQuery, cuEventSynchronize and cuStreamWaitEvent work in
 * every process that has it, each on what any of them has recorded last. The event stays as long as
 * one of them has it; up to 120 recordings of it may be unfinished, beyond that cuEventRecord
 * answers CUDA_ERROR_OUT_OF_MEMORY.
 *
 * If a process ends before its work does that an event stands for, whoever waits learns so within
 * about 0.1 s: CUDA_ERROR_LAUNCH_FAILED, and a stream that waits for the event fails its context,
 * as it does where the event's context fails.
 *
 * CUDA_ERROR_INVALID_VALUE: phEvent NULL; CUDA_ERROR_INVALID_CONTEXT: no current context, or the
 * handle is this process's own; CUDA_ERROR_MAP_FAILED: what is no handle, or one of an event that
 * is destroyed or of a process that has ended, or the kernel refuses, with a line in the log that
 * says what to do; CUDA_ERROR_OPERATING_SYSTEM: it does not tell, as for want of descriptors, with
 * a line in the log; the context's error. */
CUresult CUDAAPI cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle);

#endif
