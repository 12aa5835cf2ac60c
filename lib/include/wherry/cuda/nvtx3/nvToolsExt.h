/* NVTX: ranges and marks of the program, which become marks of Wherry's events and traces
 * (wherry/events.h). Domains, categories, colours and payloads are not recorded, and names of
 * threads have no effect. Before CUDA is initialized, calls have no effect. C11 and C++. */
#ifndef NVTX_VERSION
#define NVTX_VERSION 3

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/events.h>

/* What functions that push and pop ranges return if ranges are not kept. */
#define NVTX_NO_PUSH_POP_TRACKING ((int)-2)

#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)(sizeof(nvtxEventAttributes_t)))
typedef uint64_t nvtxRangeId_t;
typedef struct nvtxDomainRegistration_st* nvtxDomainHandle_t;
typedef struct nvtxStringRegistration_st* nvtxStringHandle_t;
enum {
  NVTX_COLOR_UNKNOWN = 0,
  NVTX_COLOR_ARGB = 1
};
enum {
  NVTX_MESSAGE_UNKNOWN = 0,
  NVTX_MESSAGE_TYPE_ASCII = 1,
  NVTX_MESSAGE_TYPE_UNICODE = 2,
  NVTX_MESSAGE_TYPE_REGISTERED = 3
};
enum {
  NVTX_PAYLOAD_UNKNOWN = 0,
  NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 = 1
};
typedef struct nvtxEventAttributes_st {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType;
  int32_t reserved0;
  union {
    uint64_t ullValue;
    int64_t llValue;
    double dValue;
  } payload;
  int32_t messageType;
  union {
    const char* ascii;
    const wchar_t* unicode;
    nvtxStringHandle_t registered;
  } message;
} nvtxEventAttributes_t;

/* Returns the text of a message. A wide text is converted to ASCII in `space`, with '?' for other
 * characters. */
static inline const char* wherryNvtxText(const nvtxEventAttributes_t* attributes, char* space,
                                         size_t bytes) {
  size_t i = 0;
  if (attributes == NULL || attributes->messageType == NVTX_MESSAGE_UNKNOWN) return "";
  if (attributes->messageType != NVTX_MESSAGE_TYPE_UNICODE)
    return attributes->message.ascii == NULL ? "" : attributes->message.ascii;
  for (; i + 1 < bytes && attributes->message.unicode && attributes->message.unicode[i]; ++i)
    space[i] =
        attributes->message.unicode[i] < 128 ? (char)attributes->message.unicode[i] : (char)'?';
  space[i] = 0;
  return space;
}

static inline void nvtxInitialize(const void* reserved) {
  (void)reserved;
}
static inline int nvtxRangePushA(const char* message) {
  int level = 0;
  return wherryPushRange(message, &level) == CUDA_SUCCESS ? level : NVTX_NO_PUSH_POP_TRACKING;
}
static inline int nvtxRangePushEx(const nvtxEventAttributes_t* attributes) {
  char space[256];
  return nvtxRangePushA(wherryNvtxText(attributes, space, sizeof space));
}
static inline int nvtxRangePop(void) {
  int level = 0;
  return wherryPopRange(&level) == CUDA_SUCCESS ? level : NVTX_NO_PUSH_POP_TRACKING;
}
static inline nvtxRangeId_t nvtxRangeStartA(const char* message) {
  uint64_t range = 0;
  return wherryStartRange(message, &range) == CUDA_SUCCESS ? range : 0;
}
static inline nvtxRangeId_t nvtxRangeStartEx(const nvtxEventAttributes_t* attributes) {
  char space[256];
  return nvtxRangeStartA(wherryNvtxText(attributes, space, sizeof space));
}
static inline void nvtxRangeEnd(nvtxRangeId_t range) {
  (void)wherryEndRange(range);
}
static inline void nvtxMarkA(const char* message) {
  (void)wherryMark(message);
}
static inline void nvtxMarkEx(const nvtxEventAttributes_t* attributes) {
  char space[256];
  nvtxMarkA(wherryNvtxText(attributes, space, sizeof space));
}
static inline void nvtxNameOsThreadA(uint32_t thread, const char* name) {
  (void)thread, (void)name;
}
static inline void nvtxNameCategoryA(uint32_t category, const char* name) {
  (void)category, (void)name;
}
static inline nvtxDomainHandle_t nvtxDomainCreateA(const char* name) {
  (void)name;
  return NULL;
}
static inline void nvtxDomainDestroy(nvtxDomainHandle_t domain) {
  (void)domain;
}
/* The string is never freed, as NVTX has no call for that. */
static inline nvtxStringHandle_t nvtxDomainRegisterStringA(nvtxDomainHandle_t domain,
                                                           const char* text) {
  const size_t bytes = strlen(text) + 1;
  void* const copy = malloc(bytes);
  (void)domain;
  return (nvtxStringHandle_t)(copy == NULL ? NULL : memcpy(copy, text, bytes));
}
static inline int nvtxDomainRangePushEx(nvtxDomainHandle_t domain,
                                        const nvtxEventAttributes_t* attributes) {
  (void)domain;
  return nvtxRangePushEx(attributes);
}
static inline int nvtxDomainRangePop(nvtxDomainHandle_t domain) {
  (void)domain;
  return nvtxRangePop();
}
static inline nvtxRangeId_t nvtxDomainRangeStartEx(nvtxDomainHandle_t domain,
                                                   const nvtxEventAttributes_t* attributes) {
  (void)domain;
  return nvtxRangeStartEx(attributes);
}
static inline void nvtxDomainRangeEnd(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  (void)domain;
  nvtxRangeEnd(range);
}
static inline void nvtxDomainMarkEx(nvtxDomainHandle_t domain,
                                    const nvtxEventAttributes_t* attributes) {
  (void)domain;
  nvtxMarkEx(attributes);
}
#define nvtxRangePush nvtxRangePushA
#define nvtxRangeStart nvtxRangeStartA
#define nvtxMark nvtxMarkA
#define nvtxNameOsThread nvtxNameOsThreadA

#endif
