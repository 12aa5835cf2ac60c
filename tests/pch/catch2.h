// What every case of tests/ begins with, compiled once where Meson's b_pch is on. Nothing of ours:
// see docs/decisions/tests.md. Not #pragma once, of which g++ warns where it compiles the header by
// itself.
#ifndef WHERRY_TESTS_PCH_CATCH2_H
#define WHERRY_TESTS_PCH_CATCH2_H

#include <catch2/catch.hpp>

#endif
