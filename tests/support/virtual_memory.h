// Address reservations and physical memory that a test maps, released at the end of their scopes.
#pragma once

#include <wherry/cuda.h>

#include <cstdint>

#include "support/session.h"

namespace wherry::test {

inline constexpr std::size_t vm_step = std::size_t{2} << 20;

inline CUmemAllocationProp properties_at(CUmemLocation location, bool exportable = false) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location;
  if (exportable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

inline constexpr CUmemLocation on_host{CU_MEM_LOCATION_TYPE_HOST, 0};
constexpr CUmemLocation on_device(int device) {
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

class Addresses {
 public:
  explicit Addresses(std::size_t bytes, CUdeviceptr hint = 0) : bytes_(bytes) {
    WHERRY_TRY(cuMemAddressReserve(&start_, bytes, 0, hint, 0));
  }
  ~Addresses() { cuMemAddressFree(start_, bytes_); }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  operator CUdeviceptr() const { return start_; }

 private:
  std::size_t bytes_;
  CUdeviceptr start_ = 0;
};

class Physical {
 public:
  explicit Physical(std::size_t bytes, CUmemLocation location = on_device(0),
                    bool exportable = false) {
    const CUmemAllocationProp properties = properties_at(location, exportable);
    WHERRY_TRY(cuMemCreate(&handle_, bytes, &properties, 0));
  }
  ~Physical() { release(); }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  operator CUmemGenericAllocationHandle() const { return handle_; }
  void release() {
    if (handle_ != 0) cuMemRelease(handle_);
    handle_ = 0;
  }
  int descriptor() const {
    int fd = -1;
    WHERRY_TRY(
        cuMemExportToShareableHandle(&fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return fd;
  }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
};

class Mapped {
 public:
  Mapped(CUdeviceptr at, std::size_t bytes, CUmemGenericAllocationHandle handle)
      : start_(at), bytes_(bytes) {
    WHERRY_TRY(cuMemMap(at, bytes, 0, handle, 0));
  }
  ~Mapped() { unmap(); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  void unmap() {
    if (bytes_ != 0) cuMemUnmap(start_, bytes_);
    bytes_ = 0;
  }

 private:
  CUdeviceptr start_;
  std::size_t bytes_;
};

inline CUresult give_access(CUdeviceptr at, std::size_t bytes, CUmemLocation to,
                            CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  const CUmemAccessDesc access{to, flags};
  return cuMemSetAccess(at, bytes, &access, 1);
}
inline unsigned long long access_of(CUdeviceptr at, CUmemLocation location) {
  unsigned long long flags = ~0ull;
  WHERRY_TRY(cuMemGetAccess(&flags, &location, at));
  return flags;
}

inline std::uint64_t* words_at(CUdeviceptr address) {
  return reinterpret_cast<std::uint64_t*>(address);
}

}  // namespace wherry::test
