// What the wrappers of functions have in common after which memory may be unreadable. Each is a
// file in io/unreadable, because each is a member of libwherry.a: a program that defines one of
// these functions itself gets the others.
#pragma once

#include <atomic>

#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {

// Counts a call that has changed memory at `start`. Arrays in managed memory are not remembered, so
// that a trap that protects pages forgets nothing.
inline void count_unreadable(const void* start) {
  if (!may_be_managed(start)) unreadable_changes.fetch_add(1, std::memory_order_release);
}

// Calls the real function of this name, which may unmap, protect or replace memory at `start`.
template <Name name, typename Result, typename... Arguments>
Result call_and_count(const void* start, Arguments... arguments) {
  const Result result = Real<name, Result(Arguments...)>::get()(arguments...);
  count_unreadable(start);
  return result;
}

}  // namespace wherry::io
