// Owners of objects of the driver API.
#pragma once

#include <wherry/cuda.h>

#include "support/session.h"

namespace wherry::test {

// An object that is destroyed at the end of the scope.
template <typename Handle, auto destroy>
struct Own {
  Handle handle{};

  Own() = default;
  ~Own() {
    if (handle != Handle{}) destroy(handle);
  }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
  operator Handle() const { return handle; }
};

// Objects of the current context.
struct NewStream : Own<CUstream, cuStreamDestroy> {
  explicit NewStream(unsigned flags = CU_STREAM_DEFAULT) {
    WHERRY_TRY(cuStreamCreate(&handle, flags));
  }
};
struct NewEvent : Own<CUevent, cuEventDestroy> {
  explicit NewEvent(unsigned flags = CU_EVENT_DEFAULT) {
    WHERRY_TRY(cuEventCreate(&handle, flags));
  }
};

}  // namespace wherry::test
