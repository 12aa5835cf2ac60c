// Compiled once for each list of needs in the rows of tests/meson.build.
#include "support/capabilities.h"

namespace wherry::test {

const char* const needs = WHERRY_TEST_NEEDS;

}  // namespace wherry::test
