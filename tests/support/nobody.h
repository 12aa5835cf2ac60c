// Tests that ask what an ordinary user may do, when root runs them.
#pragma once

namespace wherry::test {

// Gives up root's identity and privileges for good; nothing where there are none. Throws
// std::system_error.
void become_nobody();

}  // namespace wherry::test
