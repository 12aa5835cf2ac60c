// What most of the library's files include of others, compiled once where Meson's b_pch is on.
// Nothing of ours: see docs/decisions/tests.md. Not #pragma once, of which g++ warns where it
// compiles the header by itself.
#ifndef WHERRY_BASE_PCH_STD_H
#define WHERRY_BASE_PCH_STD_H

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#endif
