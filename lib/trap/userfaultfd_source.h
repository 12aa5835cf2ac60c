// Faults as a userfaultfd reports them. Who faulted is woken, or poisoned, through the mapper.
#pragma once

#include <memory>

#include "trap/fault_source.h"

namespace wherry::impl {

class UserfaultfdSource final : public FaultSource {
 public:
  explicit UserfaultfdSource(std::shared_ptr<const Userfaultfd> uffd) : uffd_(std::move(uffd)) {}

  int fd() const override { return uffd_->fd(); }
  std::optional<FaultMessage> read_message() const override { return uffd_->read_message(); }
  void answered(const FaultMessage&, bool) const override {}

 private:
  const std::shared_ptr<const Userfaultfd> uffd_;
};

}  // namespace wherry::impl
