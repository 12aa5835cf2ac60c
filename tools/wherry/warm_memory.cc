#include "warm_memory.h"

#include "apart.h"
#include "measure/plain_memory.h"

namespace wherry::tool {

void warm_up_memory(std::uint64_t bytes, Progress& progress) {
  progress.show("warming up memory");
  int nothing = 0;
  (void)run_apart(nothing,
                  [&](int&) { bench::PlainMemory(bytes, bench::PlainMemory::Pages::huge).fill(); });
}

}  // namespace wherry::tool
