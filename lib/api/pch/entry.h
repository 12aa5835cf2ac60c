// What the files of lib/api/ include, compiled once where Meson's b_pch is on:
// docs/decisions/tests.md. Not #pragma once, of which g++ warns where it compiles the header by
// itself.
#ifndef WHERRY_API_PCH_ENTRY_H
#define WHERRY_API_PCH_ENTRY_H

#include "api/entry.h"

#endif
