// What a policy (policy/policy.h) remembers of a block: kept with the block's state, known to the policy alone.
#pragma once

namespace wherry::impl {

struct BlockHistory {
  virtual ~BlockHistory() = default;
};

}  // namespace wherry::impl
