// Where one processor's faults come from: the descriptor that the fault handlers poll, and the
// events that they read. Any thread may call.
#pragma once

#include <optional>

#include "os/memory/userfaultfd.h"

namespace wherry::impl {

struct FaultSlot;  // trap/fault_board.h

class FaultSource {
 public:
  virtual ~FaultSource() = default;

  virtual int fd() const = 0;  // readable while there may be an event
  // Returns nullopt if no event is pending.
  [[nodiscard]] virtual std::optional<FaultEvent> read_event() const = 0;

  // Called before each attempt to resolve the fault. Returns the slot in which its thread waits,
  // which is valid until answered(); null: its thread can do nothing for the handler.
  virtual FaultSlot* attend(const FaultEvent&) const { return nullptr; }
  // The thread continues: it repeats its access, or gets a signal if the fault was `refused`.
  // Called once for each event that was read.
  virtual void answered(const FaultEvent& event, bool refused) const = 0;
};

}  // namespace wherry::impl
