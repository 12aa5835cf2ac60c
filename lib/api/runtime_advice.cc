// The runtime's part in advice: what follows from what the program says of its memory.
#include "api/runtime.h"

namespace wherry::impl {

void Runtime::advise(PageSpan pages, const AdviceChange& change) {
  advice_.change(pages, change);
}

}  // namespace wherry::impl
