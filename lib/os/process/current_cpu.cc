#include "os/process/current_cpu.h"

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include <cstddef>

namespace wherry::impl {

const std::uint32_t* current_cpu_word() {
#if __has_include(<sys/rseq.h>)
  if (__rseq_size == 0) return nullptr;
  const auto* area = reinterpret_cast<const struct rseq*>(
      static_cast<const std::byte*>(__builtin_thread_pointer()) + __rseq_offset);
  const std::uint32_t* word = &area->cpu_id;
  // The C library registers an rseq area for each thread. Linux may have refused this thread's.
  return read_cpu(word) >= 0 ? word : nullptr;
#else
  return nullptr;
#endif
}

int read_cpu(const std::uint32_t* word) {
  // While no CPU is known, Linux and the C library keep negative numbers there.
  const auto cpu = static_cast<std::int32_t>(__atomic_load_n(word, __ATOMIC_RELAXED));
  return cpu >= 0 ? cpu : -1;
}

}  // namespace wherry::impl
