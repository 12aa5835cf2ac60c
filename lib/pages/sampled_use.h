// What samples of accesses have shown of a block in a page table that several processors share
// (faults/usage_sampler.h). A mapped page does not fault, so a few samples stand for all accesses.
//
// A new object is all zero. The block should move if one processor uses it clearly more than its
// owner does. A block that several processors use at the same time would then move to and fro. So a
// move doubles the lead that the next one needs, unless no other processor was sampled while the
// lead grew: then a new phase of the program has begun, and the next may begin as quickly.
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
        contradict();
      else if (is_contested() && ++calm_ == calm_samples)
        calm_down();
      return false;
    }
    calm_ = 0;
    if (lead_ == 0) user_ = static_cast<std::uint8_t>(user.index);
    if (user_ != user.index) {
      contradict();
      return false;
    }
    if (++lead_ < lead_needed << caution_) return false;
    lead_ = 0;
    if (is_contradicted_)
      caution_ = static_cast<std::uint8_t>(std::min(caution_ + 1u, caution_max));
    is_contradicted_ = false;
    return true;
  }

  // Whether several processors are known to use the block.
  bool is_contested() const { return caution_ > 0 || is_contradicted_ != 0; }

  // By so many samples a user must lead before the block moves for the first time.
  static constexpr unsigned lead_needed = 3;

 private:
  static constexpr unsigned caution_max = 4;
  // So many samples in a row that find the block in place make it less contested.
  static constexpr unsigned calm_samples = 32;

  void contradict() {
    --lead_;
    is_contradicted_ = true;
  }
  void calm_down() {
    calm_ = 0;
    is_contradicted_ = false;
    if (caution_ > 0) --caution_;
  }

  std::uint8_t user_ = 0;  // who leads
  std::uint8_t lead_ = 0;
  std::uint8_t caution_ : 7 = 0;
  std::uint8_t is_contradicted_ : 1 = 0;  // since the last move, or the last calm
  std::uint8_t calm_ = 0;
};
static_assert(sizeof(SampledUse) == 4);

}  // namespace wherry::impl
