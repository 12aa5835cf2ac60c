// How the library finds libwherry_io.
#include "io/preparation.h"

extern "C" [[gnu::visibility("default")]] void wherry_io_attach(
    const wherry::impl::SystemCallHooks* hooks, bool prepares) {
  wherry::io::attach(hooks, prepares);
}
