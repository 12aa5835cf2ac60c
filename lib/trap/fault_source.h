// Where one processor's faults come from: what the daemon waits for and reads. Any thread.
#pragma once

#include <optional>

#include "os/memory/userfaultfd.h"

namespace wherry::impl {

class FaultSource {
 public:
  virtual ~FaultSource() = default;

  virtual int fd() const = 0;  // readable while there may be an event
  // Nothing: none is pending.
  [[nodiscard]] virtual std::optional<FaultEvent> read_event() const = 0;

  // The calling thread is about to look into this event, and does not any more.
  virtual void attend(const FaultEvent&) const {}
  virtual void leave() const {}
  // Whoever faulted goes on: tries again, or ends in a signal if the fault was `refused`. Once for
  // each event that was read.
  virtual void answered(const FaultEvent& event, bool refused) const = 0;
};

}  // namespace wherry::impl
