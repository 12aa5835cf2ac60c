// Where one processor's fault messages come from: the descriptor that the fault handlers poll, and
// the messages that they read. Any thread may call.
#pragma once

#include <optional>

#include "os/memory/userfaultfd.h"

namespace wherry::impl {

struct FaultSlot;  // trap/fault_board.h

class FaultSource {
 public:
  virtual ~FaultSource() = default;

  virtual int fd() const = 0;  // readable while there may be a message
  // Returns nullopt if no message is pending.
  [[nodiscard]] virtual std::optional<FaultMessage> read_message() const = 0;

  // Called before each attempt to resolve the fault. Returns the slot in which its thread waits,
  // which is valid until answered(), or null if the thread can do nothing for the handler.
  virtual FaultSlot* attend(const FaultMessage&) const { return nullptr; }
  // The faulting thread continues: it retries the access, or gets a signal if the fault was
  // `refused`. Called once for each message that was read.
  virtual void answered(const FaultMessage& message, bool refused) const = 0;
};

}  // namespace wherry::impl
