// What the commands' options and reports include of others, compiled once where Meson's b_pch is on: docs/decisions/tests.md.
// Not #pragma once, of which g++ warns where it compiles the header by itself.
#ifndef WHERRY_TOOLS_PCH_REPORT_H
#define WHERRY_TOOLS_PCH_REPORT_H

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#endif
