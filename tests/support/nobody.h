// Lets tests that root runs check what an ordinary user may do.
#pragma once

namespace wherry::test {

// Permanently drops root's identity and privileges; does nothing if the process has none. Throws
// std::system_error.
void become_nobody();

}  // namespace wherry::test
