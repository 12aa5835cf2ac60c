/* Part of cuda.h, which includes it: streams and events. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_STREAMS_H
#define WHERRY_CUDA_STREAMS_H

/* ---- Streams: work of one stream runs in order, that of several at the same time ---- */

/* Creates a stream in the current context. CU_STREAM_DEFAULT: ordered with the context's default
 * stream; CU_STREAM_NON_BLOCKING: not. CUDA_ERROR_INVALID_VALUE: phStream NULL or unknown flags;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamCreate(CUstream* phStream, unsigned int Flags);

/* The same with a priority: lower numbers go first, where there is not room on the device for all
 * that could run. What runs is not interrupted, and 0 is the default. A number out of the range of
 * cuCtxGetStreamPriorityRange is taken for the nearest one in it. */
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority);

/* The range of priorities: 0 and -5. Either pointer may be NULL. CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority);

/* What a stream was created with, default streams included: its priority; its flags; a number that
 * no other stream of the process has, ever; its device; its context (the current one for a default
 * stream). cuStreamGetCtx_v2 gives NULL in *pGreenCtx, which may be NULL: there are no green
 * contexts. CUDA_ERROR_INVALID_VALUE: a NULL pointer; CUDA_ERROR_INVALID_HANDLE;
 * CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context. */
CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int* priority);
CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int* flags);
CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long* streamId);
CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice* device);
CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext* pctx);
CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx);

/* Destroys a stream and returns at once; work that was given to it still finishes.
 * CUDA_ERROR_INVALID_HANDLE: not a stream, a default stream, or destroyed already. */
CUresult CUDAAPI cuStreamDestroy(CUstream hStream);

/* CUDA_SUCCESS: all work of the stream has finished; CUDA_ERROR_NOT_READY: not yet. Both are
 * answers. CUDA_ERROR_INVALID_HANDLE; CUDA_ERROR_INVALID_CONTEXT: a default stream without a
 * current context. */
CUresult CUDAAPI cuStreamQuery(CUstream hStream);

/* Waits until all work given to the stream before this call has finished. Errors as cuStreamQuery
 * and cuCtxSynchronize. */
CUresult CUDAAPI cuStreamSynchronize(CUstream hStream);

/* Calls fn(userData) once, on a thread of the library, after the work given to the stream before
 * and before the work given after. Not called if the context fails first. Several streams of a
 * device share one such thread: a function that waits for another's effect can wait for ever.
 * CUDA_ERROR_INVALID_VALUE: fn NULL; CUDA_ERROR_INVALID_HANDLE; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData);

/* Calls callback(hStream, status, userData) once, as cuLaunchHostFunc does, and also when the
 * context fails first: status is then its error, else CUDA_SUCCESS. flags must be 0.
 * CUDA_ERROR_INVALID_VALUE: callback NULL or flags not 0; CUDA_ERROR_INVALID_HANDLE;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                                     unsigned int flags);

/* Work given to the stream from now on waits for what hEvent recorded last before this call, in any
 * stream of any context or device; a later recording changes nothing. An event that has never been
 * recorded is not waited for. If the event's context fails first, hStream's context fails, too:
 * what its work would have needed does not exist. Flags must be 0. CUDA_ERROR_INVALID_VALUE: Flags
 * not 0; CUDA_ERROR_INVALID_HANDLE: not a stream, or not an event; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags);

/* Says which streams will use a managed allocation on the device, from the turn of this call in the
 * stream on. flags: CU_MEM_ATTACH_GLOBAL, any; CU_MEM_ATTACH_HOST, none; CU_MEM_ATTACH_SINGLE,
 * hStream alone, until it is destroyed and its work has finished: then what was said at the
 * allocation holds again. It is remembered and restricts nothing: devices and the host may use
 * managed memory at the same time here. dptr: the allocation's first address; length: its size as
 * asked for, or 0. CUDA_ERROR_INVALID_VALUE: not a whole allocation, other flags, or
 * CU_MEM_ATTACH_SINGLE with the context's default stream; CUDA_ERROR_INVALID_HANDLE;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                        unsigned int flags);

/* ---- Events: a moment in a stream, to ask for, wait for and measure from ---- */

/* Creates an event of the current context. Flags: CU_EVENT_DISABLE_TIMING, it has no time to
 * measure with; CU_EVENT_BLOCKING_SYNC, nothing, because every wait here sleeps.
 * CU_EVENT_INTERPROCESS, which goes with CU_EVENT_DISABLE_TIMING alone: other processes may have
 * it, too (cuIpcGetEventHandle). CUDA_ERROR_INVALID_VALUE: phEvent NULL, unknown flags, or
 * CU_EVENT_INTERPROCESS without CU_EVENT_DISABLE_TIMING; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuEventCreate(CUevent* phEvent, unsigned int Flags);

/* Makes the event stand for the work that was given to the stream before this call, in place of
 * what it stood for. Its time is the moment when that work has finished. flags must be 0.
 * CUDA_ERROR_INVALID_VALUE: flags not 0; CUDA_ERROR_INVALID_HANDLE: not an event, not a stream, or
 * they are of different contexts; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream);
CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags);

/* CUDA_SUCCESS: the work that the event stands for has finished, or it was never recorded;
 * CUDA_ERROR_NOT_READY: not yet. CUDA_ERROR_INVALID_HANDLE: not an event, or its context is gone.
 */
CUresult CUDAAPI cuEventQuery(CUevent hEvent);

/* Waits for the work that the event stands for at this call. Errors as cuEventQuery and
 * cuCtxSynchronize. */
CUresult CUDAAPI cuEventSynchronize(CUevent hEvent);

/* The time from one event to the other in milliseconds, negative if hEnd was first.
 * CUDA_ERROR_INVALID_VALUE: pMilliseconds NULL; CUDA_ERROR_INVALID_HANDLE: one is not an event, was
 * never recorded, or has CU_EVENT_DISABLE_TIMING, or they are of different devices;
 * CUDA_ERROR_NOT_READY: work that one stands for has not finished. */
CUresult CUDAAPI cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd);
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd);
#endif

/* Destroys an event and returns at once. Who waits for it still does.
 * CUDA_ERROR_INVALID_HANDLE: not an event, or destroyed already. */
CUresult CUDAAPI cuEventDestroy(CUevent hEvent);

#endif
