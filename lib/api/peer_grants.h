// Which contexts may access the memory of which others (cuCtxEnablePeerAccess). All contexts of a device share its page table,
// so what one of them may access all of them can. Any thread.
#pragma once

#include <vector>

#include "api/device.h"
#include "api/runtime.h"

namespace wherry::impl {

class PeerGrants {
 public:
  explicit PeerGrants(Runtime& runtime) : runtime_(runtime) {}

  // `to` is memory of another device. False: it may already.
  bool enable(const Context& from, const Context& to) EXCLUDES(lock_);
  // No mapping is left when this returns. False: it may not.
  bool disable(CUcontext from, CUcontext to) EXCLUDES(lock_);
  // Neither may this context access others' memory any more, nor others its.
  void end(CUcontext context) EXCLUDES(lock_);

 private:
  struct Grant {
    CUcontext from;
    CUcontext to;
    int by;  // the devices
    int of;
  };

  // Takes those out that the predicate agrees to; how many there were.
  template <typename Predicate>
  std::size_t take(const Predicate& predicate) REQUIRES(lock_);

  Runtime& runtime_;
  Mutex lock_;  // held while mappings are taken away
  std::vector<Grant> grants_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
