// A lane's advice on its own managed memory, and checks of the attributes that the API returns.
#pragma once

#include "stress/model_world.h"

namespace wherry::test {

// The arguments of cuMemAdvise, drawn from the operation.
struct DrawnAdvice {
  CUmem_advise advice{};
  CUmemLocation location{};

  explicit DrawnAdvice(const Operation& operation);
};

CUmemLocation location_of(int device);

// Records the advice in the model, for the pages that the view overlaps.
void note_advice(Slot& slot, const View& view, const DrawnAdvice& drawn);

// Checks that the attributes of the view's pages agree with the model, and that the library and
// Linux agree on where the first page is. Requires: no work on the slot is pending, and the view is
// one row.
void check_attributes(World& world, Slot& slot, const View& view, std::size_t operation);

}  // namespace wherry::test
