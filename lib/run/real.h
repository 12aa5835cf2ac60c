// The C library's functions that the wrappers of `wherry run` replace.
#pragma once

#include "io/real.h"

namespace wherry::run {

using io::Real;

}  // namespace wherry::run
