// syscall(): a system call of which only the number is known. What it uses is not known either, so
// it is repeated after EFAULT, and each argument that is an address in managed memory is accessed
// before: std::atomic's waits are such calls. Calls of Wherry's libraries concern managed memory on
// purpose.
#include <algorithm>
#include <array>
#include <cerrno>

#include "io/own_code.h"
#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {
namespace {

using Word = unsigned long;
using Arguments = std::array<Word, 6>;
using Syscall = long(long, Word, Word, Word, Word, Word, Word);

// Linux uses at least as much of most of what it gets.
constexpr std::size_t least_bytes = 8;

const void* pointer_in(Word word) {
  return reinterpret_cast<const void*>(word);
}

// The next argument is the length, if it is any of them.
bool prepare_arguments(const Arguments& arguments) {
  bool managed = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Word length = i + 1 < arguments.size() ? arguments[i + 1] : 0;
    managed |=
        prepare(pointer_in(arguments[i]), std::max<Word>(length, least_bytes), Access::write);
  }
  return managed;
}

[[gnu::noinline]] long call_served(Syscall* real, long number, const Arguments& a) {
  return call_prepared([&] { return prepare_arguments(a); },
                       [&] { return real(number, a[0], a[1], a[2], a[3], a[4], a[5]); });
}

}  // namespace

// The real function takes any number of arguments, in registers, and reads all of them.
long io_syscall(long, Word, Word, Word, Word, Word, Word) WHERRY_IO_STANDS_FOR("syscall");

long io_syscall(long number, Word a, Word b, Word c, Word d, Word e, Word f) {
  const auto real = Real<"syscall", Syscall>::get();
  if (!prepares()) return real(number, a, b, c, d, e, f);
  const Arguments arguments{a, b, c, d, e, f};
  const bool may_use = std::any_of(arguments.begin(), arguments.end(),
                                   [](Word word) { return may_be_managed(pointer_in(word)); });
  if (!may_use || is_own_code(__builtin_return_address(0))) return real(number, a, b, c, d, e, f);
  return call_served(real, number, arguments);
}

}  // namespace wherry::io
