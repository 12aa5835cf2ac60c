// The header that every test source includes first, compiled once with Meson's b_pch. Contains no
// header of Wherry: see docs/decisions/tests.md. Not #pragma once, because g++ warns about that
// when it compiles the header by itself.
#ifndef WHERRY_TESTS_PCH_CATCH2_H
#define WHERRY_TESTS_PCH_CATCH2_H

#include <catch2/catch.hpp>

#endif
