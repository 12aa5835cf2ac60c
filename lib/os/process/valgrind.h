// Detects whether the program runs under valgrind, which cannot run devices (docs/debugging.md).
// Needs no valgrind header.
#pragma once

namespace wherry::impl {

bool runs_in_valgrind();

}  // namespace wherry::impl
