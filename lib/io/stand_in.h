// Small objects of a wrapper in the place of objects in managed memory, for what a call gets from
// Linux only once, and for what the C library accesses while it blocks all signals.
#pragma once

#include "io/preparation.h"

namespace wherry::io {

// An object of this call in the place of one of the program, which gets its value at the end.
template <typename T>
class StandIn {
 public:
  explicit StandIn(T* theirs) : theirs_(theirs) {
    if (theirs_ != nullptr) own_ = *theirs_;
  }
  ~StandIn() {
    if (theirs_ != nullptr) *theirs_ = own_;
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  T* get() { return theirs_ != nullptr ? &own_ : nullptr; }

 private:
  T* const theirs_;
  T own_{};
};

// Whether any of the objects is in managed memory that calls cannot use as it is.
template <typename... Objects>
bool concerns_managed(const Objects*... objects) {
  return prepares() && (false || ... || is_managed(objects, sizeof *objects));
}

}  // namespace wherry::io
