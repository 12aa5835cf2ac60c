/* Explains why a page is where it is: its location, the advice for it, and the latest decisions
 * about it. Needs no earlier setup.
 *
 * Compiles as C11 and C++. Every function may be called from any thread of the process that called
 * cuInit, without a context; in a child made by fork() each returns CUDA_ERROR_NOT_INITIALIZED, as
 * before cuInit has succeeded. */
#ifndef WHERRY_EXPLAIN_H
#define WHERRY_EXPLAIN_H

#include <stddef.h>
#include <stdint.h>

#include "events.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The rule that determined where a page should be. Later versions of the library may have more. */
typedef enum {
  /* Without advice and an opinion of the policy, the page went to the faulting processor. */
  WHERRY_REASON_FAULTING_PROCESSOR = 0,
  /* The faulting processor already held the page. */
  WHERRY_REASON_RESIDENT = 1,
  /* The page is pinned: wherryPinPages. */
  WHERRY_REASON_PINNED = 2,
  /* Read-mostly advice: the faulting processor got a copy; after a write, the only one. */
  WHERRY_REASON_READ_MOSTLY = 3,
  /* The page is at its preferred location (advice), or is a device's own memory. */
  WHERRY_REASON_PREFERRED = 4,
  /* Accessed-by advice: the faulting processor maps the page where it is. */
  WHERRY_REASON_ACCESSED_BY = 5,
  /* The policy chose the place. */
  WHERRY_REASON_POLICY = 6,
  /* The policy had pinned the page for a while, because a move would not pay. */
  WHERRY_REASON_TEMPORARY_PIN = 7,
  /* The destination had no free pages. */
  WHERRY_REASON_NO_SPACE = 8,
  /* The faulting processor could map no more of other processors' memory. */
  WHERRY_REASON_NO_MAPPINGS = 9,
  /* There was no fault; see `cause`. */
  WHERRY_REASON_NO_FAULT = 10,
  /* A direct write, a pipe, io_uring or another process holds a page of its huge page. The page
   * stays until the holder lets go, and is mapped there. */
  WHERRY_REASON_HELD = 11,
  /* Earlier names. */
  WHERRY_REASON_TOUCHED = WHERRY_REASON_FAULTING_PROCESSOR,
  WHERRY_REASON_THERE = WHERRY_REASON_RESIDENT,
  WHERRY_REASON_POLICY_STAY = WHERRY_REASON_TEMPORARY_PIN,
  WHERRY_REASON_NO_ROOM = WHERRY_REASON_NO_SPACE
} wherryReason;

/* One decision about some pages. Processors are 0 for the host and 1 + d for device d,
 * WHERRY_NO_PROCESSOR for none. */
typedef struct {
  uint64_t time_ns; /* CLOCK_MONOTONIC */
  /* The contiguous pages that moved, or were mapped, with the page. */
  CUdeviceptr address;
  uint64_t bytes;
  uint64_t waited_ns; /* time that the faulting thread had waited by then */
  union {
    int32_t faulting_processor; /* WHERRY_NO_PROCESSOR: there was no fault */
    int32_t toucher;            /* its earlier name */
  };
  int32_t access; /* WHERRY_EVENT_READ, WHERRY_EVENT_WRITE; 0: no fault */
  int32_t source; /* where the page was; WHERRY_NO_PROCESSOR: it was absent */
  /* Where it should be. If that is not the faulting processor, that processor maps it there. */
  int32_t destination;
  int32_t reason; /* a wherryReason */
  int32_t cause;  /* a wherryEventCause */
} wherryDecision;

#define WHERRY_DECISIONS_MAX 8

typedef struct {
  size_t size;           /* sizeof(wherryExplanation) of the caller */
  CUdeviceptr page;      /* first address of the page */
  uint32_t resident;     /* processors whose memory holds it: bit 0 the host, bit 1 + d device d */
  uint32_t mapped_read;  /* processors whose page table may hold an entry for it */
  uint32_t mapped_write; /* processors whose page table may hold a writable entry for it */
  int32_t node;          /* NUMA node of the first copy, as Linux says; -1: absent */
  /* The advice for the page. */
  uint32_t read_mostly;       /* 1 or 0 */
  uint32_t pinned;            /* 1 or 0 */
  int32_t preferred_location; /* a processor, or WHERRY_NO_PROCESSOR */
  uint32_t accessed_by;       /* a mask like `resident` */
  /* The number of valid elements of `decision`, newest first. The library keeps the latest 4096
   * decisions about all memory: decisions on faults, pages that came or went for another reason,
   * and blocks that were freed. */
  uint32_t decisions;
  uint32_t reserved;
  wherryDecision decision[WHERRY_DECISIONS_MAX];
} wherryExplanation;

/* Explains the page that contains `address`: managed memory, a device's own memory, or a managed
 * variable. Does not access the page.
 *   - explanation: receives the result; the caller sets `size`. Fields beyond `size` are not
 *     written; fields that this library does not know are set to 0.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: the address is in no live allocation, explanation is NULL, or size
 *   does not fit the fields before `decision`.
 * - CUDA_ERROR_OUT_OF_MEMORY.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryExplainPage(CUdeviceptr address, wherryExplanation* explanation);

/* Explains the page like wherryExplainPage, as lines of text.
 *   - text: receives as much of the text as fits, and a terminating zero byte; may be NULL if bytes
 *     is 0.
 *   - needed: if not NULL: receives the size of the whole text in bytes, including the zero byte.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: the address is in no live allocation, or text is NULL and bytes is
 *   not 0.
 * - CUDA_ERROR_OUT_OF_MEMORY.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryDescribePage(CUdeviceptr address, char* text, size_t bytes, size_t* needed);

/* Earlier names of functions above, which remain available. */
CUresult wherryExplain(CUdeviceptr address, wherryExplanation* explanation);
CUresult wherryExplainText(CUdeviceptr address, char* text, size_t bytes, size_t* needed);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
