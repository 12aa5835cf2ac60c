// One device as the API sees it: its launch engine and its primary context.
#pragma once

#include <wherry/cuda.h>

#include <memory>

#include "base/lock.h"
#include "streams/device_engine.h"

namespace wherry::impl {

class Device;

// A context of the API. Its streams are found through their handles; what they share is `work`.
struct Context {
  Device& device;
  const unsigned flags;
  const bool primary;
  const std::shared_ptr<WorkContext> work;
};

// A stream of the API.
struct StreamHandle {
  std::shared_ptr<Context> context;
  std::shared_ptr<Stream> stream;
};

class Device {
 public:
  Device(int number, CUcontext primary_context)
      : ordinal(number), primary_handle(primary_context), engine(number) {}

  const int ordinal;
  const CUcontext primary_handle;  // the same whenever the primary context is active
  DeviceEngine engine;

  // Held while the process is replaced, so that two resets come one after the other. Outside `lock`.
  Mutex reset_lock;
  Mutex lock;
  std::shared_ptr<Context> primary GUARDED_BY(lock);  // null: not active
  int primary_users GUARDED_BY(lock) = 0;
  bool primary_held GUARDED_BY(lock) = false;  // one of the users is the runtime API
};

}  // namespace wherry::impl
