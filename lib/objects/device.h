// One device as the API sees it: its launch engine and its primary context.
#pragma once

#include <wherry/cuda.h>

#include <memory>
#include <utility>

#include "base/lock.h"
#include "objects/context_settings.h"
#include "streams/device_engine.h"
#include "streams/shared_event.h"

namespace wherry::impl {

class Device;
struct CapturedMoment;

// A context of the API. Its streams and events are found through their handles; what they share is
// `work`.
struct Context {
  Device& device;
  const CUcontext handle;
  const bool primary;
  const std::shared_ptr<WorkContext> work;
  const std::shared_ptr<ContextSettings> settings;

  // Requires: the flags are valid.
  void set_flags(unsigned flags) const {
    settings->flags = flags;
    work->set_wait_spin(wait_spin_of(flags));
  }
};

// A stream of the API.
struct StreamHandle {
  std::shared_ptr<Context> context;
  std::shared_ptr<Stream> stream;
};

// An event of the API.
struct CudaEvent {
  CudaEvent(std::shared_ptr<Context> its_context, unsigned its_flags,
            std::shared_ptr<SharedEvent> of_processes)
      : context(std::move(its_context)), flags(its_flags), shared(std::move(of_processes)) {}

  // What to wait for, or ask of; null: there was none yet.
  std::shared_ptr<Recording> last_recording() const EXCLUDES(lock) {
    const LockGuard guard(lock);
    return recording;
  }

  // The moment of a capture that it was last recorded at; null: it was recorded in a stream.
  std::shared_ptr<const CapturedMoment> last_captured() const EXCLUDES(lock) {
    const LockGuard guard(lock);
    return captured;
  }

  const std::shared_ptr<Context> context;
  const unsigned flags;
  const std::shared_ptr<SharedEvent> shared;  // what it is if other processes have it, too; or null

  // Held while it is recorded, so that the last one to be recorded is the one that is kept.
  mutable Mutex lock{LockOrder::event};
  std::shared_ptr<Recording> recording GUARDED_BY(lock);
  std::shared_ptr<const CapturedMoment> captured GUARDED_BY(lock);
};

class Device {
 public:
  Device(int number, CUcontext primary_context)
      : ordinal(number), primary_handle(primary_context), engine(number) {}

  const int ordinal;
  const CUcontext primary_handle;  // the same whenever the primary context is active
  DeviceEngine engine;

  // Held while the process is replaced, so that two resets come one after the other. Outside
  // `lock`.
  Mutex reset_lock{LockOrder::reset};
  Mutex lock{LockOrder::device};
  std::shared_ptr<Context> primary GUARDED_BY(lock);  // null: not active
  int primary_users GUARDED_BY(lock) = 0;
  unsigned primary_flags GUARDED_BY(lock) = CU_CTX_SCHED_AUTO;  // also of the next one
  bool primary_retained_by_runtime GUARDED_BY(lock) = false;

  // Held while a cooperative launch is given to a stream, so that they run one after the other.
  Mutex cooperative_lock{LockOrder::cooperative};
  // The end of the last one.
  std::shared_ptr<Recording> last_cooperative GUARDED_BY(cooperative_lock);
};

}  // namespace wherry::impl
