// The system calls that make a file system without mounting it. The C library has them since 2.36.
#pragma once

#include <sys/mount.h>

#if !__GLIBC_PREREQ(2, 36)
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

inline int fsopen(const char* file_system, unsigned flags) {
  return static_cast<int>(::syscall(SYS_fsopen, file_system, flags));
}
inline int fsconfig(int context, unsigned command, const char* key, const void* value, int more) {
  return static_cast<int>(::syscall(SYS_fsconfig, context, command, key, value, more));
}
inline int fsmount(int context, unsigned flags, unsigned attributes) {
  return static_cast<int>(::syscall(SYS_fsmount, context, flags, attributes));
}
#endif
