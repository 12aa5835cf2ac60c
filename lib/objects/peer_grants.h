// Which contexts may access the memory of which other contexts (cuCtxEnablePeerAccess). All
// contexts of a device share its page table: a device is admitted to another one's memory as long
// as one of its contexts has access to one of the other's. Any thread.
#pragma once

#include <memory>
#include <vector>

#include "objects/device.h"
#include "runtime/runtime.h"

namespace wherry::impl {

class PeerGrants {
 public:
  explicit PeerGrants(Runtime& runtime) : runtime_(runtime) {}

  enum class Answer {
    enabled,
    enabled_before,
    destroyed,  // one of the contexts has been destroyed
  };
  // Requires: the contexts belong to different devices.
  Answer enable(const Context& from, const Context& to) EXCLUDES(lock_);
  // If this was the device's last access, no mapping is left when this returns. Returns false if
  // access was not enabled.
  bool disable(const Context& from, const Context& to) EXCLUDES(lock_);
  // Ends all access of this context, and to it. Called when the context is destroyed, after which
  // nothing is enabled for it, and before its device gets a new process.
  void end(const Context& context) EXCLUDES(lock_);

 private:
  // Names contexts by their work, not by handle: a device's next primary context has the handle of
  // the last one.
  struct Grant {
    std::shared_ptr<WorkContext> from;
    std::shared_ptr<WorkContext> to;
    int by;  // the device of `from`
    int of;  // the device of `to`
  };

  // Removes the grants for which the predicate is true, and excludes devices that have no other
  // grant. Returns how many it removed.
  template <typename Predicate>
  std::size_t take(const Predicate& predicate) REQUIRES(lock_);

  Runtime& runtime_;
  Mutex lock_{LockOrder::peers};  // held while mappings are taken away
  std::vector<Grant> grants_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
