// The headers that the files of lib/api/ include, precompiled if Meson's b_pch is on:
// docs/decisions/tests.md. Uses an include guard because g++ warns of #pragma once in a header that
// it compiles directly.
#ifndef WHERRY_API_PCH_ENTRY_H
#define WHERRY_API_PCH_ENTRY_H

#include "api/entry.h"

#endif
