/* Events: what happens to managed memory, one by one, as it happens; and names for memory, by which
 * reports call it.
 *
 * A program reads its own events with the functions here. The environment variable
 * WHERRY_TRACE=FILE has the library write all of them to a file instead, which `wherry trace`
 * reports on; one of both at a time.
 *
 * Compiles as C11 and C++. Every function may be called from any thread of the process that called
 * cuInit, without a context; in a child made by fork() each returns CUDA_ERROR_NOT_INITIALIZED. */
#ifndef WHERRY_EVENTS_H
#define WHERRY_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What happened. Later versions of the library may have more. */
typedef enum {
  /* A processor touched a page that it could not access, and was answered. */
  WHERRY_EVENT_FAULT = 0,
  WHERRY_EVENT_MIGRATION = 1,  /* pages went from `source` to `destination` */
  WHERRY_EVENT_REMOTE_MAP = 2, /* pages in the memory of `source` were mapped by `destination` */
  WHERRY_EVENT_DUPLICATE = 3,  /* pages of `source` got a read-only copy at `destination` */
  WHERRY_EVENT_INVALIDATE =
      4,                     /* `source` lost its copy of pages; of a cause RELEASE: the only one */
  WHERRY_EVENT_POPULATE = 5, /* pages came to exist at `destination` */
  WHERRY_EVENT_EVICTION = 6, /* a block left the device `source` to make room */
  WHERRY_EVENT_LAUNCH_BEGIN = 7,
  WHERRY_EVENT_LAUNCH_END = 8,
  WHERRY_EVENT_THROTTLE_BEGIN = 9,
  WHERRY_EVENT_THROTTLE_END = 10,
  WHERRY_EVENT_THRASHING = 11, /* `processors` take pages from each other */
  WHERRY_EVENT_PIN = 12,       /* pages stay where they are from now on */
  WHERRY_EVENT_UNPIN = 13,
  WHERRY_EVENT_ALLOCATION = 14,
  WHERRY_EVENT_FREE = 15,
  WHERRY_EVENT_ADVICE = 16 /* also a prefetch that the program asked for */
} wherryEventKind;

/* A set of kinds: an or of these. */
#define WHERRY_EVENT_BIT(kind) (UINT64_C(1) << (kind))
#define WHERRY_EVENT_ALL UINT64_MAX

/* Why pages moved, came to exist or ceased to. */
typedef enum {
  WHERRY_CAUSE_NONE = 0,
  WHERRY_CAUSE_FAULT = 1,
  WHERRY_CAUSE_USER_PREFETCH = 2,        /* the program asked for it */
  WHERRY_CAUSE_SPECULATIVE_PREFETCH = 3, /* the library expects them to be used */
  WHERRY_CAUSE_EVICTION = 4,
  WHERRY_CAUSE_THRASH_PIN = 5,
  WHERRY_CAUSE_ADVICE = 6,   /* advice of the program, or wherryPin */
  WHERRY_CAUSE_COPY = 7,     /* a copy or a fill by the library */
  WHERRY_CAUSE_CREATION = 8, /* pages that exist before anybody touches them */
  WHERRY_CAUSE_RELEASE = 9   /* freed, or discarded */
} wherryEventCause;

#define WHERRY_EVENT_READ 1
#define WHERRY_EVENT_WRITE 2

/* What wherryEvent's `detail` says. */
#define WHERRY_FAULT_MISSING 0 /* of a fault: the page was in nobody's view of the processor */
#define WHERRY_FAULT_MINOR 1   /* ... in its memory, but not in its page table */
#define WHERRY_FAULT_WRITE_PROTECT 2 /* ... a write to a write-protected page */
#define WHERRY_FAULT_REFUSED 4       /* added to those: the thread got a signal */
#define WHERRY_EVICTION_NEEDED 0     /* of an eviction: somebody waited for the room */
#define WHERRY_EVICTION_BACKGROUND 1
#define WHERRY_LAUNCH_FINISHED 0 /* of a launch's end */
#define WHERRY_LAUNCH_LOST 1     /* its device ended first, or the work was thrown away */
#define WHERRY_ALLOCATION_MANAGED 0
#define WHERRY_ALLOCATION_DEVICE 1   /* in the memory of `destination`, for as long as it lives */
#define WHERRY_ALLOCATION_VARIABLE 2 /* managed, of a module */
#define WHERRY_ADVICE_SET_READ_MOSTLY 0
#define WHERRY_ADVICE_UNSET_READ_MOSTLY 1
#define WHERRY_ADVICE_SET_PREFERRED_LOCATION 2
#define WHERRY_ADVICE_UNSET_PREFERRED_LOCATION 3
#define WHERRY_ADVICE_SET_ACCESSED_BY 4
#define WHERRY_ADVICE_UNSET_ACCESSED_BY 5
#define WHERRY_ADVICE_PREFETCH 6

#define WHERRY_EVENT_NOBODY (-1)

/* One event. Processors are 0 for the host and 1 + d for device d, WHERRY_EVENT_NOBODY for none. */
typedef struct {
  size_t size;          /* sizeof(wherryEvent) as the caller has it */
  uint64_t time_ns;     /* CLOCK_MONOTONIC, when it began */
  uint64_t duration_ns; /* 0: it is a moment, or was not measured */
  /* The first byte; of a fault the one that was touched; of launches the kernel. */
  CUdeviceptr address;
  uint64_t bytes;  /* that it concerns, whole pages; of launches: items */
  uint32_t thread; /* of a fault: who touched, as gettid(2) says; 0: the kernel does not say */
  /* Of launches: their number on the device. Of evictions: how many pages were copies that were
   * only dropped. Of advice: the node of the host that is meant, plus 1. Else 0. */
  uint32_t value;
  int32_t kind;        /* a wherryEventKind */
  int32_t cause;       /* a wherryEventCause */
  int32_t access;      /* of a fault: WHERRY_EVENT_READ or WHERRY_EVENT_WRITE; else 0 */
  int32_t detail;      /* see above, by kind */
  int32_t source;      /* a processor */
  int32_t destination; /* a processor; of a fault: who touched */
  uint32_t processors; /* more processors, one bit each: bit 0 the host, bit 1 + d device d */
} wherryEvent;

/* Begins to record events, for wherryEventsRead; those that wait to be read from before are
 * forgotten.
 *
 *   kinds      what to record: an or of WHERRY_EVENT_BIT(kind), or WHERRY_EVENT_ALL; kinds that
 * this library does not know are ignored capacity   how many events of one thread are kept at least
 * while nobody reads, unless other threads have filled the ring that it shares with them: there
 * are 8. Rounded up to a power of two, at most 2^20; 0: 16384. Takes 64 bytes of memory an event
 * and ring once that many have been recorded
 *
 * CUDA_ERROR_INVALID_VALUE: no kind that the library knows, or a capacity above 2^20;
 * CUDA_ERROR_ALREADY_ACQUIRED: recording is on already, or WHERRY_TRACE has it;
 * CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_NOT_INITIALIZED. Thread-safe.
 */
CUresult wherryEventsStart(uint64_t kinds, size_t capacity);

/* Ends it. What has been recorded can still be read, until the next wherryEventsStart.
 * CUDA_ERROR_ILLEGAL_STATE: wherryEventsStart has not begun it, or it has ended;
 * CUDA_ERROR_NOT_INITIALIZED. Thread-safe. */
CUresult wherryEventsStop(void);

/* Takes events out, in the order in which they began as far as one call brings them; a later call
 * may bring some that began earlier. Events of one thread stay in their order.
 *
 *   events   where they go; NULL if count is 0. The caller sets events[0].size to
 * sizeof(wherryEvent): the elements lie that far apart, fields that this library does not know read
 * 0, and those that do not fit are left out count    how many fit read     how many were written;
 * fewer than `count`: there are no more now
 *
 * The events of a fault are there once the access that caused it has returned, those of a launch
 * once it was waited for.
 *
 * CUDA_ERROR_INVALID_VALUE: read NULL, events NULL with a count, or a size smaller than up to
 * `bytes`; CUDA_ERROR_ILLEGAL_STATE: nothing was started; CUDA_ERROR_ALREADY_ACQUIRED: WHERRY_TRACE
 * has the events; CUDA_ERROR_NOT_INITIALIZED. Thread-safe: each event goes to one caller. */
CUresult wherryEventsRead(wherryEvent* events, size_t count, size_t* read);

/* How many events of this kind found no room since recording began last, by wherryEventsStart or
 * WHERRY_TRACE, and are missing. CUDA_ERROR_INVALID_VALUE: count NULL, or no kind that the library
 * knows; CUDA_ERROR_NOT_INITIALIZED. Thread-safe. */
CUresult wherryEventsDropped(wherryEventKind kind, uint64_t* count);

/* Gives memory a name, by which reports on a trace call it from now on until it is freed, or named
 * anew; of bytes that were named before the newest name counts. Without WHERRY_TRACE the arguments
 * are looked at, and nothing else happens.
 *
 *   pointer, bytes   inside one live allocation of any kind, or a managed variable; bytes not 0
 *   name             ends with a zero byte; 1 to 255 bytes, copied
 *
 * CUDA_ERROR_INVALID_VALUE: not such a range, or name; CUDA_ERROR_OUT_OF_MEMORY;
 * CUDA_ERROR_NOT_INITIALIZED. Thread-safe. */
CUresult wherryNameRange(const void* pointer, size_t bytes, const char* name);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
