#include "streams/serving_thread.h"

namespace wherry::impl {
namespace {

// Every function of the API reads this, so the access must not need a function call.
[[gnu::tls_model("initial-exec")]] thread_local bool serves = false;

}  // namespace

void this_thread_serves_streams() {
  serves = true;
}

bool serves_streams() {
  return serves;
}

}  // namespace wherry::impl
