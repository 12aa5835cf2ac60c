#include "os/memory/touch.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/page.h"
#include "os/kernel_abi.h"

namespace wherry::impl {
namespace {

// Calls futex(2) to read a word, or to add 0 to it atomically. Linux enters the word's page for
// that; if it cannot, the call fails. Other calls cannot replace these: process_vm_writev() would
// overwrite what another thread writes meanwhile, and sandboxes forbid it. No thread waits for
// `unused`, and Linux wakes at most one thread that waits for the word, which every user of a futex
// has to expect.
int touch_word(std::uintptr_t address, Touch touch) {
  std::uint32_t unused = 0;
  auto* const word = reinterpret_cast<std::uint32_t*>(address);
  if (touch == Touch::to_read) {
    const long result =
        ::syscall(SYS_futex, word, FUTEX_CMP_REQUEUE_PRIVATE, 0, nullptr, &unused, 0);
    return result >= 0 || errno == EAGAIN ? 0 : errno;  // EAGAIN: the word is not 0
  }
  constexpr int lowest = -2048;  // few words are lower; only then does Linux wake a thread
  const long result = ::syscall(SYS_futex, &unused, FUTEX_WAKE_OP_PRIVATE, 0, nullptr, word,
                                FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, lowest));
  return result >= 0 ? 0 : errno;
}

}  // namespace

int touch_pages(std::uintptr_t start, std::size_t bytes, Touch touch) {
  const int advice = touch == Touch::to_read ? abi::populate_read : abi::populate_write;
  if (::madvise(reinterpret_cast<void*>(start), bytes, advice) == 0) return 0;
  const int error = errno;
  // EINVAL also means that Linux, before 5.14, does not know the advice. Linux checks the advice
  // before the range, and accepts an empty range.
  if (error != EINVAL || ::madvise(nullptr, 0, advice) == 0) return error;
  for (std::uintptr_t page = start; page < start + bytes; page += page_size)
    if (const int refused = touch_word(page, touch)) return refused;
  return 0;
}

}  // namespace wherry::impl
