// Parses the payloads of a trace's chunks (trace/trace_chunks.h). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trace/trace_chunks.h"

namespace wherry::tool {

// These parse the payload of a chunk. They return nullopt, or false, if the payload is malformed.
std::optional<impl::TraceMachine> parse_machine(std::span<const std::byte> payload);
std::optional<impl::TraceSettings> parse_settings(std::span<const std::byte> payload);
std::optional<impl::TraceDrops> parse_drops(std::span<const std::byte> payload);
std::optional<std::uint64_t> parse_end(std::span<const std::byte> payload);
// These two append to their last argument. `processors`: how many processors the trace has.
bool parse_events(std::span<const std::byte> payload, std::size_t processors,
                  std::vector<impl::TraceEvent>& events);
bool parse_names(std::span<const std::byte> payload, std::vector<impl::TraceName>& names);

}  // namespace wherry::tool
