// What every case of tests/ begins with, compiled once where Meson's b_pch is on. Nothing of ours: see docs/decisions/tests.md.
#pragma once

#include <catch2/catch.hpp>
