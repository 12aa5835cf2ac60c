/* Part of cuda.h, which includes it: streams and events. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_STREAMS_H
#define WHERRY_CUDA_STREAMS_H

/* ---- Streams: work of one stream runs in order; work of several streams runs concurrently ---- */

/* Creates a stream in the current context. CU_STREAM_DEFAULT: ordered with the context's default
 * stream; CU_STREAM_NON_BLOCKING: not ordered with it.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: phStream is NULL, or the flags are unknown.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamCreate(CUstream* phStream, unsigned int Flags);

/* Creates a stream with a priority. If the device cannot run all work at once, work with
 * lower numbers runs first. Running work is not interrupted. The default is 0. A number outside the
 * range of cuCtxGetStreamPriorityRange counts as the nearest one in it. */
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority);

/* Returns the range of priorities: 0 and -5. Either pointer may be NULL.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority);

/* Return properties of a stream, also of default streams: its priority; its flags; a number that no
 * other stream of the process ever has; its device; its context (the current one for a default
 * stream). cuStreamGetCtx_v2 returns NULL in *pGreenCtx, which may be NULL: there are no green
 * contexts.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_INVALID_HANDLE.
 * - CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context. */
CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int* priority);
CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int* flags);
CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long* streamId);
CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice* device);
CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext* pctx);
CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx);

/* Destroys a stream and returns at once. Work that was submitted to it still finishes.
 * Errors:
 * - CUDA_ERROR_INVALID_HANDLE: not a stream, a default stream, or already destroyed. */
CUresult CUDAAPI cuStreamDestroy(CUstream hStream);

/* Returns CUDA_SUCCESS if all work of the stream has finished, and CUDA_ERROR_NOT_READY if not,
 * which is no error.
 * Errors:
 * - CUDA_ERROR_INVALID_HANDLE.
 * - CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context. */
CUresult CUDAAPI cuStreamQuery(CUstream hStream);

/* Waits until all work that was submitted to the stream before this call has finished. Errors are
 * those of cuStreamQuery and cuCtxSynchronize. */
CUresult CUDAAPI cuStreamSynchronize(CUstream hStream);

/* Calls fn(userData) once, on a thread of the library, after the work that was submitted to the
 * stream before and before the work that is submitted later. fn is not called if the context fails
 * first. Several streams of a device share one such thread: a function that waits for another
 * function's effect may wait for ever.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: fn is NULL.
 * - CUDA_ERROR_INVALID_HANDLE.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData);

/* Calls callback(hStream, status, userData) once, like cuLaunchHostFunc, but also if the context
 * fails first: status is then the context's error, else CUDA_SUCCESS. flags must be 0.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: callback is NULL, or flags is not 0.
 * - CUDA_ERROR_INVALID_HANDLE.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                                     unsigned int flags);

/* Work that is submitted to the stream from now on waits for the work of hEvent's last recording
 * before this call, in any stream of any context or device. A later recording changes nothing. An
 * event that has never been recorded is not waited for. If the event's context fails first,
 * hStream's context fails, too, because the results that its work needs do not exist. Flags must be
 * 0, or CU_EVENT_WAIT_EXTERNAL while hStream is captured.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: other Flags.
 * - CUDA_ERROR_INVALID_HANDLE: not a stream, or not an event.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags);

/* Declares which streams will use a managed allocation on the device. Takes effect in stream order.
 * flags:
 *   - CU_MEM_ATTACH_GLOBAL: any stream.
 *   - CU_MEM_ATTACH_HOST: no stream.
 *   - CU_MEM_ATTACH_SINGLE: only hStream, until it has been destroyed and its work has finished;
 *     then the flags given at the allocation apply again.
 * The declaration is stored and restricts nothing: here devices and the host may use managed memory
 * at the same time. dptr: the allocation's first address. length: its requested size, or 0.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a whole allocation, other flags, or CU_MEM_ATTACH_SINGLE with the
 *   context's default stream.
 * - CUDA_ERROR_INVALID_HANDLE.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                        unsigned int flags);

/* ---- Events: a point in a stream that can be queried, waited for and used for timing ---- */

/* Creates an event of the current context. Flags:
 *   - CU_EVENT_DISABLE_TIMING: the event has no time.
 *   - CU_EVENT_BLOCKING_SYNC: cuEventSynchronize sleeps at once. Without it, cuEventSynchronize
 *     waits as the context's CU_CTX_SCHED_* flag says.
 *   - CU_EVENT_INTERPROCESS, only together with CU_EVENT_DISABLE_TIMING: other processes may open
 *     the event (cuIpcGetEventHandle).
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: phEvent is NULL, unknown flags, or CU_EVENT_INTERPROCESS without
 *   CU_EVENT_DISABLE_TIMING.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuEventCreate(CUevent* phEvent, unsigned int Flags);

/* Records the event: it now stands for the work that was submitted to the stream before this call,
 * and no longer for its previous recording. Its time is the moment when that work has finished.
 * flags must be 0, or CU_EVENT_RECORD_EXTERNAL while the stream is captured.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: other flags.
 * - CUDA_ERROR_INVALID_HANDLE: not an event, not a stream, or they belong to different contexts.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream);
CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags);

/* Returns CUDA_SUCCESS if the work that the event stands for has finished, or the event was never
 * recorded, and CUDA_ERROR_NOT_READY if the work has not finished.
 * Errors:
 * - CUDA_ERROR_INVALID_HANDLE: not an event, or its context has ended. */
CUresult CUDAAPI cuEventQuery(CUevent hEvent);

/* Waits for the work that the event stands for at the time of this call. Errors are those of
 * cuEventQuery and cuCtxSynchronize. */
CUresult CUDAAPI cuEventSynchronize(CUevent hEvent);

/* Returns the time from hStart to hEnd in milliseconds; negative if hEnd was first.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pMilliseconds is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: one is not an event, was never recorded, or has
 *   CU_EVENT_DISABLE_TIMING, or they belong to different devices.
 * - CUDA_ERROR_NOT_READY: the work that one of them stands for has not finished. */
CUresult CUDAAPI cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd);
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd);
#endif

/* Destroys an event and returns at once. Work and threads that wait for it go on waiting.
 * Errors:
 * - CUDA_ERROR_INVALID_HANDLE: not an event, or already destroyed. */
CUresult CUDAAPI cuEventDestroy(CUevent hEvent);

#endif
