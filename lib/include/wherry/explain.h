/* Why a page is where it is: where, what the program has advised, and what was decided about it
 * last. Nothing has to be switched on before.
 *
 * Compiles as C11 and C++. Every function may be called from any thread of the process that called
 * cuInit, without a context; in a child made by fork() each returns CUDA_ERROR_NOT_INITIALIZED. */
#ifndef WHERRY_EXPLAIN_H
#define WHERRY_EXPLAIN_H

#include <stddef.h>
#include <stdint.h>

#include "events.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Which rule has said where a page should be. Later versions of the library may have more. */
typedef enum {
  WHERRY_REASON_TOUCHED = 0, /* nobody had an opinion: it went to who touched it */
  WHERRY_REASON_THERE = 1,   /* who touched it had it */
  WHERRY_REASON_PINNED = 2,  /* it must not move: wherryPin */
  WHERRY_REASON_READ_MOSTLY =
      3,                       /* advised: who touched it got a copy, or by writing the only one */
  WHERRY_REASON_PREFERRED = 4, /* advised: its preferred location; or a device's own memory */
  WHERRY_REASON_ACCESSED_BY = 5, /* advised: who touched it maps it where it is */
  WHERRY_REASON_POLICY = 6,      /* the policy wanted it there */
  WHERRY_REASON_POLICY_STAY = 7, /* ... and for a while, since moving it would not pay */
  WHERRY_REASON_NO_ROOM = 8,     /* where it should have been there was no room */
  WHERRY_REASON_NO_MAPPINGS = 9, /* who touched it could map no more of others' memory */
  WHERRY_REASON_NO_FAULT = 10    /* nobody touched it: see the cause */
} wherryReason;

/* What was decided about some pages, once. Processors are 0 for the host and 1 + d for device d,
 * WHERRY_EVENT_NOBODY for none. */
typedef struct {
  uint64_t time_ns; /* CLOCK_MONOTONIC */
  CUdeviceptr
      address; /* the pages that moved with it, or were mapped, as far as they are in a row */
  uint64_t bytes;
  uint64_t waited_ns;  /* how long the thread that touched it had waited by then */
  int32_t toucher;     /* who touched it */
  int32_t access;      /* WHERRY_EVENT_READ, WHERRY_EVENT_WRITE; 0: nobody touched it */
  int32_t source;      /* where the page was; nobody: nowhere */
  int32_t destination; /* where it should be. Where that is not the toucher, he maps it there */
  int32_t reason;      /* a wherryReason */
  int32_t cause;       /* a wherryEventCause */
} wherryDecision;

#define WHERRY_DECISIONS_MAX 8

typedef struct {
  size_t size;           /* sizeof(wherryExplanation) as the caller has it */
  CUdeviceptr page;      /* its first byte */
  uint32_t resident;     /* processors whose memory holds it: bit 0 the host, bit 1 + d device d */
  uint32_t mapped_read;  /* processors whose page table may hold an entry for it */
  uint32_t mapped_write; /* ... a writable entry */
  int32_t node;          /* NUMA node of the first copy, as Linux says; -1: it is nowhere */
  /* The advice that counts for it. */
  uint32_t read_mostly;       /* 1 or 0 */
  uint32_t pinned;            /* 1 or 0 */
  int32_t preferred_location; /* a processor, or nobody */
  uint32_t accessed_by;       /* as resident */
  /* How many follow, and fit, the newest first. Kept are the latest 4096 about all memory:
   * decisions on faults, pages that came or went for another reason, and blocks that were freed. */
  uint32_t decisions;
  uint32_t reserved;
  wherryDecision decision[WHERRY_DECISIONS_MAX];
} wherryExplanation;

/* Explains the page that contains `address`: managed memory, a device's own, or a managed variable.
 * Does not touch it.
 *
 *   explanation   filled; the caller sets `size`. Fields past that are not written, those that this
 * library does not know read 0
 *
 * CUDA_ERROR_INVALID_VALUE: not in a live allocation, explanation NULL, or a size smaller than up
 * to `decisions`; CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_NOT_INITIALIZED. Thread-safe. */
CUresult wherryExplain(CUdeviceptr address, wherryExplanation* explanation);

/* The same as lines of text.
 *
 *   text     gets the text and a zero byte, as much as fits; NULL if bytes is 0
 *   needed   if not NULL: how many bytes all of it takes, with the zero byte
 *
 * CUDA_ERROR_INVALID_VALUE: not in a live allocation, or text NULL with bytes;
 * CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_NOT_INITIALIZED. Thread-safe. */
CUresult wherryExplainText(CUdeviceptr address, char* text, size_t bytes, size_t* needed);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
