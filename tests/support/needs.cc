// Compiled into each test program with its own list.
#include "support/capabilities.h"

namespace wherry::test {

const char* const needs = WHERRY_TEST_NEEDS;

}  // namespace wherry::test
