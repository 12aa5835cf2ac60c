// Compiled once for each list of needs that a row of tests/meson.build has.
#include "support/capabilities.h"

namespace wherry::test {

const char* const needs = WHERRY_TEST_NEEDS;

}  // namespace wherry::test
