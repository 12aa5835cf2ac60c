// Gives a policy of the program or of a shared object (wherry/policy.hpp) the interface of the
// library's own.
#pragma once

#include <memory>
#include <wherry/policy.hpp>

#include "base/page_mask.h"
#include "policy/policy.h"

namespace wherry::impl {

class OwnPolicy final : public Policy {
 public:
  explicit OwnPolicy(std::unique_ptr<wherry::policy> theirs) : theirs_(std::move(theirs)) {}

  Opinion on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>& history) const override;
  ProcessorMask on_arrival(const Arrival& arrival,
                           std::unique_ptr<BlockHistory>& history) const override;
  void on_release(PageRun run, BlockHistory& history) const override;
  PageMask end_temporary_pins(std::uint64_t now_ns, BlockHistory& history) const override;
  bool remembers() const override { return true; }

 private:
  Opinion checked(const wherry::opinion& opinion, const FaultFacts& facts,
                  std::unique_ptr<BlockHistory>& history) const;

  const std::unique_ptr<wherry::policy> theirs_;
};

}  // namespace wherry::impl
