// The functions that the library and libwherry_run look for in libwherry_io
// (memory/system_calls.h).
#include "io/own_code.h"
#include "io/preparation.h"

extern "C" {

[[gnu::visibility("default")]] void wherry_io_attach(const wherry::impl::SystemCallHooks* hooks,
                                                     bool prepares) {
  wherry::io::attach(hooks, prepares);
}

[[gnu::visibility("default")]] bool wherry_io_prepares() {
  return wherry::io::prepares();
}

[[gnu::visibility("default")]] unsigned long wherry_io_refused_calls() {
  return wherry::io::refused_calls();
}

}  // extern "C"

namespace {

[[gnu::constructor]] void load() {
  wherry::io::find_own_code();
}

}  // namespace
