/* Events: a record of everything that happens to managed memory; and names for memory, which
 * reports use.
 *
 * A program reads its own events with the functions here. With the environment variable
 * WHERRY_TRACE=FILE the library writes all events to a file instead, which `wherry trace` reports
 * on. Only one of the two can be active.
 *
 * Compiles as C11 and C++. Every function may be called from any thread of the process that called
 * cuInit, without a context; in a child made by fork() each returns CUDA_ERROR_NOT_INITIALIZED, as
 * before cuInit has succeeded. */
#ifndef WHERRY_EVENTS_H
#define WHERRY_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Kinds of events. Later versions of the library may have more. */
typedef enum {
  /* A processor's access to a page faulted, and the fault was resolved or refused. */
  WHERRY_EVENT_FAULT = 0,
  WHERRY_EVENT_MIGRATION = 1,  /* pages moved from `source` to `destination` */
  WHERRY_EVENT_REMOTE_MAP = 2, /* `destination` mapped pages in the memory of `source` */
  WHERRY_EVENT_DUPLICATE = 3,  /* pages of `source` got a read-only copy at `destination` */
  /* `source` lost its copy of pages; with cause RELEASE: the only copy. */
  WHERRY_EVENT_INVALIDATE = 4,
  WHERRY_EVENT_POPULATE = 5, /* pages were created at `destination` */
  WHERRY_EVENT_EVICTION = 6, /* a block was evicted from device `source` */
  WHERRY_EVENT_LAUNCH_BEGIN = 7,
  WHERRY_EVENT_LAUNCH_END = 8,
  WHERRY_EVENT_THROTTLE_BEGIN = 9,
  WHERRY_EVENT_THROTTLE_END = 10,
  WHERRY_EVENT_THRASHING = 11, /* `processors` repeatedly take pages from each other */
  WHERRY_EVENT_PIN = 12,       /* pages are temporarily pinned from now on */
  WHERRY_EVENT_UNPIN = 13,
  WHERRY_EVENT_ALLOCATION = 14,
  WHERRY_EVENT_FREE = 15,
  WHERRY_EVENT_ADVICE = 16, /* also a prefetch by the program */
  WHERRY_EVENT_MARK = 17,   /* the program marked a moment, or a range of its work */
  /* Pages of a huge page stayed in the memory of `source` because a system call, a pipe or another
   * process holds them. `destination` needed them, or no processor did; `cause`: why they were to
   * move. */
  WHERRY_EVENT_HELD = 18
} wherryEventKind;

/* A set of kinds is the bitwise or of these values. */
#define WHERRY_EVENT_BIT(kind) (UINT64_C(1) << (kind))
#define WHERRY_EVENT_ALL UINT64_MAX

/* Why pages moved, were created or ended. */
typedef enum {
  WHERRY_CAUSE_NONE = 0,
  WHERRY_CAUSE_FAULT = 1,
  WHERRY_CAUSE_USER_PREFETCH = 2,        /* requested by the program */
  WHERRY_CAUSE_SPECULATIVE_PREFETCH = 3, /* the library expects accesses to them */
  WHERRY_CAUSE_EVICTION = 4,
  WHERRY_CAUSE_THRASH_PIN = 5,
  WHERRY_CAUSE_ADVICE = 6,   /* advice of the program, or wherryPinPages */
  WHERRY_CAUSE_COPY = 7,     /* a copy or a fill by the library */
  WHERRY_CAUSE_CREATION = 8, /* pages that are created before any access */
  WHERRY_CAUSE_RELEASE = 9,  /* the pages were freed or discarded */
  /* Samples of accesses showed which coherent device uses the pages. A fault has this cause if its
   * page was mapped, and the library had removed the entry to see the next access. Other faults
   * have the cause NONE. */
  WHERRY_CAUSE_SAMPLE = 10
} wherryEventCause;

#define WHERRY_EVENT_READ 1
#define WHERRY_EVENT_WRITE 2

/* Values of wherryEvent's `detail`, by kind of event. */
#define WHERRY_FAULT_MISSING 0 /* fault: the pool that the processor maps there has no page */
#define WHERRY_FAULT_MINOR 1   /* fault: that pool has the page, but the page table no entry */
#define WHERRY_FAULT_WRITE_PROTECT 2 /* fault: a write to a write-protected page */
#define WHERRY_FAULT_REFUSED 4       /* added to these: the thread got a signal */
#define WHERRY_EVICTION_NEEDED 0     /* eviction: a fault waited for the space */
#define WHERRY_EVICTION_BACKGROUND 1
#define WHERRY_LAUNCH_FINISHED 0 /* end of a launch */
#define WHERRY_LAUNCH_LOST 1     /* its device ended first, or the work was discarded */
#define WHERRY_ALLOCATION_MANAGED 0
#define WHERRY_ALLOCATION_DEVICE 1   /* stays in the memory of `destination` */
#define WHERRY_ALLOCATION_VARIABLE 2 /* a module's variable: managed memory */
#define WHERRY_ADVICE_SET_READ_MOSTLY 0
#define WHERRY_ADVICE_UNSET_READ_MOSTLY 1
#define WHERRY_ADVICE_SET_PREFERRED_LOCATION 2
#define WHERRY_ADVICE_UNSET_PREFERRED_LOCATION 3
#define WHERRY_ADVICE_SET_ACCESSED_BY 4
#define WHERRY_ADVICE_UNSET_ACCESSED_BY 5
#define WHERRY_ADVICE_PREFETCH 6

#define WHERRY_NO_PROCESSOR (-1)
#define WHERRY_EVENT_NOBODY WHERRY_NO_PROCESSOR /* its earlier name */

/* One event. Processors are 0 for the host and 1 + d for device d, WHERRY_NO_PROCESSOR for none. */
typedef struct {
  size_t size;          /* sizeof(wherryEvent) of the caller */
  uint64_t time_ns;     /* CLOCK_MONOTONIC, when it began */
  uint64_t duration_ns; /* 0: it has no duration, or was not measured */
  /* The first byte; for a fault the accessed byte; for launches the kernel; for marks their text,
   * which ends with a zero byte and stays in place until the process ends. */
  CUdeviceptr address;
  uint64_t bytes; /* affected bytes, whole pages; for launches: items */
  /* For a fault or a mark: its thread, as gettid(2) returns it; 0: Linux does not tell. */
  uint32_t thread;
  /* A value for some kinds of events; 0 for all others. */
  union {
    uint32_t launch;        /* for launches: their number on the device */
    uint32_t pages_dropped; /* for evictions: pages only dropped, because other pools have copies */
    uint32_t node_plus_one; /* for advice: the host's NUMA node that it names, plus 1; 0: none */
    uint32_t value;         /* the earlier name of all three */
  };
  int32_t kind;        /* a wherryEventKind */
  int32_t cause;       /* a wherryEventCause */
  int32_t access;      /* for a fault: WHERRY_EVENT_READ or WHERRY_EVENT_WRITE; else 0 */
  int32_t detail;      /* see above, by kind */
  int32_t source;      /* a processor */
  int32_t destination; /* a processor; for a fault: the faulting processor */
  uint32_t processors; /* more processors, one bit each: bit 0 the host, bit 1 + d device d */
} wherryEvent;

/* Starts recording events for wherryReadEvents. Events of an earlier recording that have not been
 * read are discarded.
 *   - kinds: the kinds to record: an or of WHERRY_EVENT_BIT(kind), or WHERRY_EVENT_ALL. Kinds that
 *     this library does not know are ignored.
 *   - capacity: at least so many events of one thread are kept until they are read, unless other
 *     threads have filled the ring that they share with it; there are 8 rings. Rounded up to a
 *     power of two, at most 2^20; 0 means 16384. A ring takes 64 bytes of memory for each event
 *     once that many have been recorded.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: no kind that the library knows, or a capacity above 2^20.
 * - CUDA_ERROR_ALREADY_ACQUIRED: recording is already on, or WHERRY_TRACE uses it.
 * - CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_OUT_OF_MEMORY.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryStartEvents(uint64_t kinds, size_t capacity);

/* Stops recording. Recorded events can still be read until the next wherryStartEvents.
 * Errors:
 * - CUDA_ERROR_ILLEGAL_STATE: wherryStartEvents has not started recording, or it has been stopped.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryStopEvents(void);

/* Removes recorded events and returns them. The events of one call are in the order in which they
 * began; a later call may return events that began earlier. Events of one thread stay in their
 * order.
 *   - events: receives the events; may be NULL if count is 0. The caller sets events[0].size to its
 *     sizeof(wherryEvent); the library takes that as the size of every element. The library sets
 *     fields that it does not know to 0, and omits fields that do not fit.
 *   - count: the number of elements of `events`.
 *   - read: receives the number of events written. Fewer than `count` mean that there are no more.
 * The events of a fault can be read once the access that caused it has returned; a moment later if
 * the access waited for another pool's pages to be mapped, because it goes on before the library
 * has finished with the fault. Those of a launch can be read once a thread has waited for it.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: read is NULL, events is NULL with a count, or events[0].size is too
 *   small to contain the fields up to and including `bytes`.
 * - CUDA_ERROR_ILLEGAL_STATE: recording was never started.
 * - CUDA_ERROR_ALREADY_ACQUIRED: WHERRY_TRACE uses the events.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe: each event is returned to one caller. */
CUresult wherryReadEvents(wherryEvent* events, size_t count, size_t* read);

/* Returns how many events of this kind are missing because there was no space for them, since
 * recording was last started by wherryStartEvents or WHERRY_TRACE.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: count is NULL, or a kind that the library does not know.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryCountDroppedEvents(wherryEventKind kind, uint64_t* count);

/* Gives memory a name, which reports on a trace and `wherry top` use from now on, until the memory
 * is freed or named again. Where named ranges overlap, the newest name counts.
 *   - pointer, bytes: inside one live allocation of any kind, or a managed variable; bytes is not
 *     0.
 *   - name: terminated by a zero byte; 1 to 255 bytes long; copied.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not such a range or name.
 * - CUDA_ERROR_OUT_OF_MEMORY.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryNameRange(const void* pointer, size_t bytes, const char* name);

/* Marks: what the program says of its own work. Each is an event of the kind MARK, in recordings of
 * the program and in traces; otherwise they have no effect. Ranges that began before recording did
 * are not recorded. The functions of NVTX (nvtx3/nvToolsExt.h) call these.
 *   - text: terminated by a zero byte; copied; cut after 255 bytes. Of more than 65,536 different
 *     texts, the later ones are recorded as one.
 * wherryMark marks a moment. wherryPushRange begins a range inside the calling thread's innermost
 * one, and wherryPopRange ends the innermost.
 *   - level: receives how many ranges of the thread are around the one that begins or ends; may be
 *     NULL.
 * wherryStartRange begins a range that any thread may end with wherryEndRange.
 *   - range: receives the number of the range, which is not 0; or the number of the one to end.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: text or range is NULL; wherryEndRange: there is no such range, or it
 *   has ended.
 * - CUDA_ERROR_ILLEGAL_STATE: wherryPopRange: the thread has no range.
 * - CUDA_ERROR_NOT_PERMITTED: in a host function of a stream.
 * - CUDA_ERROR_OUT_OF_MEMORY.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryMark(const char* text);
CUresult wherryPushRange(const char* text, int* level);
CUresult wherryPopRange(int* level);
CUresult wherryStartRange(const char* text, uint64_t* range);
CUresult wherryEndRange(uint64_t range);

/* Earlier names of functions above, which remain available. */
CUresult wherryEventsStart(uint64_t kinds, size_t capacity);
CUresult wherryEventsStop(void);
CUresult wherryEventsRead(wherryEvent* events, size_t count, size_t* read);
CUresult wherryEventsDropped(wherryEventKind kind, uint64_t* count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
