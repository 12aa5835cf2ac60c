// Explains accesses of the application's forked children to the library's memory, which they do not
// have (MADV_DONTFORK): a child would end by SIGSEGV without any message.
#pragma once

#include <array>

#include "os/memory/address_map.h"

namespace wherry::impl {

// To be called in a child that the application forked, after its signals have been unblocked. From
// now on the first access of this child to one of the ranges writes a line to the log. The signal
// then has the effect that it has without this: the application's handler runs, or the child ends.
//
// Does nothing where the calling thread blocks SIGSEGV: such a child is probably about to execute
// a program, which inherits the mask, and taking the signal changes the mask. Does nothing if the
// signal cannot be taken.
void explain_accesses_in_child(const std::array<AddressRange, 2>& absent);

}  // namespace wherry::impl
