// Which contexts may access the memory of which others (cuCtxEnablePeerAccess). All contexts of a
// device share its page table, so what one of them may access all of them can. Any thread.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device.h"
#include "runtime/runtime.h"

namespace wherry::impl {

class PeerGrants {
 public:
  explicit PeerGrants(Runtime& runtime) : runtime_(runtime) {}

  enum class Answer {
    enabled,
    enabled_before,
    destroyed,  // one of the contexts
  };
  // `to` is memory of another device.
  Answer enable(const Context& from, const Context& to) EXCLUDES(lock_);
  // No mapping is left when this returns. False: it may not.
  bool disable(const Context& from, const Context& to) EXCLUDES(lock_);
  // Neither may this context access others' memory any more, nor others its. Once it is destroyed,
  // after which nothing is enabled for it; or its device gets a new process.
  void end(const Context& context) EXCLUDES(lock_);

 private:
  // Contexts by what is theirs alone: the next primary context of a device has the handle of this
  // one.
  struct Grant {
    std::shared_ptr<WorkContext> from;
    std::shared_ptr<WorkContext> to;
    int by;  // the devices
    int of;
  };

  // Takes those out that the predicate agrees to; how many there were.
  template <typename Predicate>
  std::size_t take(const Predicate& predicate) REQUIRES(lock_);

  Runtime& runtime_;
  Mutex lock_{LockOrder::peers};  // held while mappings are taken away
  std::vector<Grant> grants_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
