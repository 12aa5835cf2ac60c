// What a lane says of managed memory of its own, and what must be answered when it asks.
#pragma once

#include "stress/model_world.h"

namespace wherry::test {

// What cuMemAdvise is called with, drawn from the operation.
struct DrawnAdvice {
  CUmem_advise advice{};
  CUmemLocation location{};

  explicit DrawnAdvice(const Operation& operation);
};

CUmemLocation location_of(int device);

// The pages that the view touches get the advice in the model.
void note_advice(Slot& slot, const View& view, const DrawnAdvice& drawn);

// All attributes of the view's pages are those of the model, and the first page is where the
// library and Linux say. Requires: no work of the slot's is pending, and the view is one row.
void check_attributes(World& world, Slot& slot, const View& view, std::size_t operation);

}  // namespace wherry::test
