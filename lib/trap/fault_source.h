// Where one processor's fault messages come from: the daemon waits for them and reads them. Any
// thread.
#pragma once

#include <optional>

#include "os/memory/userfaultfd.h"

namespace wherry::impl {

class FaultSource {
 public:
  virtual ~FaultSource() = default;

  virtual int fd() const = 0;  // readable while there may be a message
  // Nothing: none is pending.
  [[nodiscard]] virtual std::optional<FaultMessage> read_message() const = 0;

  // The calling thread begins to work on this message, and has ended its work.
  virtual void attend(const FaultMessage&) const {}
  virtual void leave() const {}
  // The faulting thread continues: it retries the access, or gets a signal if the fault was
  // `refused`. Called once for each message that was read.
  virtual void answered(const FaultMessage& message, bool refused) const = 0;
};

}  // namespace wherry::impl
