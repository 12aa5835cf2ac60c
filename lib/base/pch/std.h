// Standard and third-party headers that most of the library's files include, precompiled if Meson's
// b_pch is on. It contains no header of the library: see docs/decisions/tests.md. It has include
// guards because g++ warns about #pragma once in a header that is compiled by itself.
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
