// Standard and third-party headers that most files of the tool include, precompiled if Meson's
// b_pch is on: as lib/base/pch/std.h, whose comment says why it looks like this.
#ifndef WHERRY_TOOL_PCH_TOOL_H
#define WHERRY_TOOL_PCH_TOOL_H

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#endif
