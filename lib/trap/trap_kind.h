// The two ways to learn of a touch of what is not there.
#pragma once

namespace wherry::impl {

enum class TrapKind {
  userfaultfd,  // Linux reports it, and the thread sleeps until it is answered
  mprotect,     // the thread gets SIGSEGV, and sees to it itself or asks for it
};

}  // namespace wherry::impl
