// What samples of accesses have shown of a block in a page table that several processors share
// (faults/usage_sampler.h). A mapped page does not fault, so a few samples stand for all accesses.
//
// All zero when it is new. The block should move if one processor uses it clearly more than its
// owner does. A block that several processors use would then move to and fro. So each move that the
// owner's later samples contradict doubles what the next one needs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/processor.h"

namespace wherry::impl {

class SampledUse {
 public:
  // A processor accessed the block, whose pages are in the owner's pool. Returns whether the block
  // should move to the user.
  bool note(Processor user, Processor owner) {
    if (user == owner) {
      if (lead_ > 0)
        --lead_;
      else if (caution_ > 0 && ++calm_ == calm_samples)
        calm_ = 0, --caution_;
      return false;
    }
    calm_ = 0;
    if (lead_ == 0) user_ = static_cast<std::uint8_t>(user.index);
    if (user_ != user.index) {
      --lead_;
      return false;
    }
    if (++lead_ < lead_needed << caution_) return false;
    lead_ = 0;
    caution_ = static_cast<std::uint8_t>(std::min(caution_ + 1u, caution_max));
    return true;
  }

  // By so many samples a user must lead before the block moves for the first time.
  static constexpr unsigned lead_needed = 3;

 private:
  static constexpr unsigned caution_max = 4;
  // So many samples in a row that find the block in place make it easier to move again.
  static constexpr unsigned calm_samples = 32;

  std::uint8_t user_ = 0;  // who leads
  std::uint8_t lead_ = 0;
  std::uint8_t caution_ = 0;
  std::uint8_t calm_ = 0;
};
static_assert(sizeof(SampledUse) == 4);

}  // namespace wherry::impl
