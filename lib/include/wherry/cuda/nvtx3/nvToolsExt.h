/* NVTX: ranges and marks that a profiler of NVIDIA shows. Wherry's traces have no marks of
 * programs, so these functions do nothing. C11 and C++. */
#ifndef NVTX_VERSION
#define NVTX_VERSION 3

#include <stddef.h>
#include <stdint.h>

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
  NVTX_MESSAGE_TYPE_UNICODE = 2
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

static inline void nvtxInitialize(const void* reserved) {
  (void)reserved;
}
static inline int nvtxRangePushA(const char* message) {
  (void)message;
  return 0;
}
static inline int nvtxRangePushEx(const nvtxEventAttributes_t* attributes) {
  (void)attributes;
  return 0;
}
static inline int nvtxRangePop(void) {
  return 0;
}
static inline nvtxRangeId_t nvtxRangeStartA(const char* message) {
  (void)message;
  return 0;
}
static inline nvtxRangeId_t nvtxRangeStartEx(const nvtxEventAttributes_t* attributes) {
  (void)attributes;
  return 0;
}
static inline void nvtxRangeEnd(nvtxRangeId_t range) {
  (void)range;
}
static inline void nvtxMarkA(const char* message) {
  (void)message;
}
static inline void nvtxMarkEx(const nvtxEventAttributes_t* attributes) {
  (void)attributes;
}
static inline void nvtxNameOsThreadA(uint32_t thread, const char* name) {
  (void)thread, (void)name;
}
static inline void nvtxNameCategoryA(uint32_t category, const char* name) {
  (void)category, (void)name;
}
static inline nvtxDomainHandle_t nvtxDomainCreateA(const char* name) {
  (void)name;
  return 0;
}
static inline void nvtxDomainDestroy(nvtxDomainHandle_t domain) {
  (void)domain;
}
#define nvtxRangePush nvtxRangePushA
#define nvtxRangeStart nvtxRangeStartA
#define nvtxMark nvtxMarkA
#define nvtxNameOsThread nvtxNameOsThreadA

#endif
