// Which code is Wherry's own. Its calls go to the C library unchanged.
#pragma once

namespace wherry::io {

// Whether the code at this address belongs to a library of Wherry's. False until they have been
// found.
bool is_own_code(const void* address);
// Finds where the libraries lie. Call it once, before the program has threads.
void find_own_code();

}  // namespace wherry::io
