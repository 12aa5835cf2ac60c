// Marks of the program in traces: moments of its work, and ranges between two moments. Recorded
// events (EventKind::mark) refer to texts by their addresses, which stay valid until the process
// ends.
//
// Any thread may call. Like the recorder, marks are global.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace wherry::impl {

// Longer texts are cut. When there are too many texts, further ones are recorded as one that says
// so.
inline constexpr std::size_t mark_bytes_max = 255;
inline constexpr std::size_t mark_texts_max = std::size_t{1} << 16;

// Records a moment. Throws std::bad_alloc, as the functions below do.
void mark_moment(std::string_view text);

// Begins a range inside the calling thread's current one; returns how many of the thread's ranges
// are around it.
std::size_t push_marked_range(std::string_view text);
// Ends the calling thread's innermost range, and records it. Returns how many are around it;
// nullopt if the thread has no range.
std::optional<std::size_t> pop_marked_range();

// Begins a range that any thread may end; returns its number, which is never 0.
std::uint64_t start_marked_range(std::string_view text);
// Ends a started range, and records it. Returns false if no such range has begun, or it has ended.
bool end_marked_range(std::uint64_t range);

}  // namespace wherry::impl
