// Calls that only need their memory to be accessible: where Linux does not serve faults inside
// system calls, the wrapper accesses what the call uses, and repeats the call after EFAULT. This is
// right for calls that have changed nothing when they return EFAULT. A call without managed memory
// costs a load and a comparison for each pointer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {

// A piece of memory that a call uses.
struct Used {
  const void* start;
  std::size_t bytes;
  Access access;
  bool is_text = false;  // ends with its first zero byte

  bool may_be_managed() const { return io::may_be_managed(start); }
};

// Linux reads the object, or the bytes.
template <typename T>
Used in(const T* object) {
  return {object, sizeof *object, Access::read};
}
inline Used in(const void* start, std::size_t bytes) {
  return {start, bytes, Access::read};
}
// Linux writes the object, or the bytes, and may read them.
template <typename T>
Used out(T* object) {
  return {object, sizeof *object, Access::write};
}
inline Used out(void* start, std::size_t bytes) {
  return {start, bytes, Access::write};
}
// Linux reads a text that ends with a zero byte.
inline Used text(const char* start) {
  constexpr std::size_t text_max = 128 << 10;  // the most that an argument of a program has
  return {start, text_max, Access::read, /*is_text=*/true};
}

// Accesses these pieces. Returns whether any of them is managed memory.
bool prepare_used(std::initializer_list<Used> used);

template <typename Result, typename Call>
[[gnu::noinline]] Result call_with_managed(std::initializer_list<Used> used, const Call& call) {
  return call_prepared([&] { return prepare_used(used); }, call);
}

// Calls the real function, with its memory prepared if necessary.
template <Name name, typename Result, typename... Arguments>
Result served(std::initializer_list<Used> used, Arguments... arguments) {
  const auto real = Real<name, Result(Arguments...)>::get();
  if (!prepares() || std::none_of(used.begin(), used.end(),
                                  [](const Used& each) { return each.may_be_managed(); }))
    return real(arguments...);
  return call_with_managed<Result>(used, [&] { return real(arguments...); });
}

}  // namespace wherry::io

// Defines the wrapper of a C library function. `parameters` and `arguments` are in parentheses;
// further arguments say what the call uses.
#define WHERRY_IO_PASSED(...) __VA_ARGS__
#define WHERRY_IO_SERVED(Result, name, parameters, arguments, ...)                         \
  Result io_##name parameters WHERRY_IO_STANDS_FOR(#name);                                 \
  Result io_##name parameters {                                                            \
    return ::wherry::io::served<#name, Result>({__VA_ARGS__}, WHERRY_IO_PASSED arguments); \
  }
