// What libwherry_io, which wraps system calls, and the library say to each other. Neither is linked
// against the other: a program may have one of them, or both in either order, so the library looks
// for the other one when it starts.
#pragma once

#include <cstddef>

namespace wherry::impl {

// How a system call uses memory; `look` only asks.
enum class SystemCallAccess {
  look,
  read,
  write,
};

// Touches the bytes, or a part of them in the front: up to the first that is not this process's to
// access, and no more than some. Returns how many bytes that are; 0: it is no managed memory,
// system calls take it as it is. Async-signal-safe.
using PrepareForSystemCall = std::size_t (*)(const void* start, std::size_t bytes,
                                             SystemCallAccess access);

// What libwherry_io exports: a function that takes a PrepareForSystemCall, and uses it from then
// on, in processes that are forked later, too.
inline constexpr const char* attach_name = "wherry_io_attach";

// Lets libwherry_io prepare memory for system calls, if it is loaded.
void attach_to_io_library();

}  // namespace wherry::impl
