// Whether the program runs in valgrind, which cannot run devices (docs/debugging.md). Needs no
// header of valgrind's.
#pragma once

namespace wherry::impl {

bool runs_in_valgrind();

}  // namespace wherry::impl
