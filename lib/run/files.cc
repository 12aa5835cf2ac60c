// close and its kin: for the program the library's files are not open. So a program that closes all
// numbers, as daemons do, does not close the library's files.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "run/own_calls.h"
#include "run/own_files.h"
#include "run/real.h"

namespace wherry::run {
namespace {

// Whether the program names a file of the library.
bool names_own_file(const void* caller, int file) {
  return is_own_file(file) && !OwnCalls::active() && !is_own_code(caller);
}

int close_all(unsigned first, unsigned last, int flags) {
  const auto next = Real<"close_range", int(unsigned, unsigned, int)>::get();
  while (first <= last) {
    const int own = first > INT_MAX ? -1 : next_own_file(static_cast<int>(first));
    if (own < 0 || static_cast<unsigned>(own) > last) return next(first, last, flags);
    const auto kept = static_cast<unsigned>(own);
    if (kept > first)
      if (const int result = next(first, kept - 1, flags); result != 0) return result;
    first = kept + 1;
  }
  return 0;
}

}  // namespace
}  // namespace wherry::run

using namespace wherry::run;

#pragma GCC visibility push(default)
extern "C" {

int close(int file) {
  if (names_own_file(__builtin_return_address(0), file)) {
    errno = EBADF;
    return -1;
  }
  return Real<"close", int(int)>::get()(file);
}

int close_range(unsigned first, unsigned last, int flags) noexcept {
  if (first > last || OwnCalls::active() || is_own_code(__builtin_return_address(0)))
    return Real<"close_range", int(unsigned, unsigned, int)>::get()(first, last, flags);
  return close_all(first, last, flags);
}

void closefrom(int first) noexcept {
  (void)close_all(static_cast<unsigned>(std::max(first, 0)), UINT_MAX, 0);
}

// Fails if the program wants the number of a library's file: that file must stay there.
int dup2(int file, int number) noexcept {
  if (names_own_file(__builtin_return_address(0), number)) {
    errno = EBUSY;
    return -1;
  }
  return Real<"dup2", int(int, int)>::get()(file, number);
}

int dup3(int file, int number, int flags) noexcept {
  if (names_own_file(__builtin_return_address(0), number)) {
    errno = EBUSY;
    return -1;
  }
  return Real<"dup3", int(int, int, int)>::get()(file, number, flags);
}

}  // extern "C"
#pragma GCC visibility pop
