// syscall(): only the number of the system call is known, not what memory it uses. So each argument
// that is an address in managed memory is accessed before, and the call is repeated after EFAULT.
// For example, std::atomic's waits are such calls. Calls of Wherry's own libraries go through
// unchanged.
#include <sys/syscall.h>

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

// Most system calls use at least this many bytes at an address that they are passed.
constexpr std::size_t least_bytes = 8;

const void* pointer_in(Word word) {
  return reinterpret_cast<const void*>(word);
}

// Larger numbers are probably not lengths.
constexpr Word length_max = Word{16} << 20;

// If an argument is an address, the length of the memory there, if it is passed, is the next
// argument.
bool prepare_arguments(const Arguments& arguments) {
  bool managed = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Word next = i + 1 < arguments.size() ? arguments[i + 1] : 0;
    const Word length = next <= length_max ? std::max<Word>(next, least_bytes) : least_bytes;
    managed |= prepare(pointer_in(arguments[i]), length, Access::write);
  }
  return managed;
}

[[gnu::noinline]] long call_served(Syscall* real, long number, const Arguments& a) {
  return call_prepared([&] { return prepare_arguments(a); },
                       [&] { return real(number, a[0], a[1], a[2], a[3], a[4], a[5]); });
}

// Calls about the place of pages take addresses, and access little or no memory there.
bool is_about_pages(long number) {
  constexpr std::array numbers{SYS_mbind,   SYS_get_mempolicy, SYS_move_pages, SYS_madvise,
                               SYS_mincore, SYS_munmap,        SYS_mprotect};
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

}  // namespace

// The real function takes any number of arguments, in registers, and reads all registers.
long io_syscall(long, Word, Word, Word, Word, Word, Word) WHERRY_IO_STANDS_FOR("syscall");

long io_syscall(long number, Word a, Word b, Word c, Word d, Word e, Word f) {
  const auto real = Real<"syscall", Syscall>::get();
  if (!prepares()) return real(number, a, b, c, d, e, f);
  const Arguments arguments{a, b, c, d, e, f};
  const bool may_use = std::any_of(arguments.begin(), arguments.end(),
                                   [](Word word) { return may_be_managed(pointer_in(word)); });
  if (!may_use || is_about_pages(number) || is_own_code(__builtin_return_address(0)))
    return real(number, a, b, c, d, e, f);
  return call_served(real, number, arguments);
}

}  // namespace wherry::io
