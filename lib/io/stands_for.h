// Wrappers have names of their own in the source, because headers may redefine or check the C
// library's names. This gives a wrapper the C library's name in the object. Each wrapper calls the
// real function and behaves like it: return value, errno, cancellation and restarts after signals
// are those of the real function.
#pragma once

#define WHERRY_IO_STANDS_FOR(name) __asm__(name) __attribute__((visibility("default")))
