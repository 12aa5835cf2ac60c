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

// A context of the API. Its streams and events are found by their handles; they share `work`.
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

struct StreamHandle {
  std::shared_ptr<Context> context;
  std::shared_ptr<Stream> stream;
};

struct CudaEvent {
  CudaEvent(std::shared_ptr<Context> its_context, unsigned its_flags,
            std::shared_ptr<SharedEvent> of_processes)
      : context(std::move(its_context)), flags(its_flags), shared(std::move(of_processes)) {}

  // The last recording, for calls that wait for the event or query it; null before the first.
  std::shared_ptr<Recording> last_recording() const EXCLUDES(lock) {
    const LockGuard guard(lock);
    return recording;
  }

  // The moment of the capture in which it was last recorded; null if that was in a stream.
  std::shared_ptr<const CapturedMoment> last_captured() const EXCLUDES(lock) {
    const LockGuard guard(lock);
    return captured;
  }

  const std::shared_ptr<Context> context;
  const unsigned flags;
  const std::shared_ptr<SharedEvent> shared;  // set if other processes can use the event, too

  // Held while the event is recorded, so that `recording` is of the last cuEventRecord.
  mutable Mutex lock{LockOrder::event};
  std::shared_ptr<Recording> recording GUARDED_BY(lock);
  std::shared_ptr<const CapturedMoment> captured GUARDED_BY(lock);
};

class Device {
 public:
  Device(int number, CUcontext primary_context)
      : ordinal(number), primary_handle(primary_context), engine(number) {}

  const int ordinal;
  const CUcontext primary_handle;  // each primary context has this one
  DeviceEngine engine;

  // Held while the device process is replaced, so that resets come one after the other. It is
  // locked before `lock`.
  Mutex reset_lock{LockOrder::reset};
  Mutex lock{LockOrder::device};
  std::shared_ptr<Context> primary GUARDED_BY(lock);  // null: not active
  int primary_users GUARDED_BY(lock) = 0;
  unsigned primary_flags GUARDED_BY(lock) = CU_CTX_SCHED_AUTO;  // kept for the next one
  bool primary_retained_by_runtime GUARDED_BY(lock) = false;

  // Held while a cooperative launch is given to a stream, so that such launches run one by one.
  Mutex cooperative_lock{LockOrder::cooperative};
  // The end of the last cooperative launch.
  std::shared_ptr<Recording> last_cooperative GUARDED_BY(cooperative_lock);
};

}  // namespace wherry::impl
