// Times as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace wherry::importing {

// Some 146 years: sums and differences of a few times fit 64 bits.
inline constexpr std::uint64_t time_max_ns = std::uint64_t{1} << 62;

// Converts a decimal number of units into nanoseconds: "0.25" of 1'000'000 ns are 250'000. Exact;
// parts of a nanosecond are dropped. Nullopt if it is no such number, or more than time_max_ns.
std::optional<std::uint64_t> decimal_ns(std::string_view number, std::uint64_t unit_ns);

}  // namespace wherry::importing
