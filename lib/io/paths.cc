// Wrappers of functions that take names of files. Those of functions in <unistd.h> that transfer a
// file's bytes are in other files.
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>
#include <utime.h>

#include "io/served_call.h"

namespace wherry::io {

// Functions that open files. `mode` is in a register, as any further argument is; if the caller has
// passed none, its value is arbitrary.
WHERRY_IO_SERVED(int, open, (const char* path, int flags, mode_t mode), (path, flags, mode),
                 text(path))
WHERRY_IO_SERVED(int, open64, (const char* path, int flags, mode_t mode), (path, flags, mode),
                 text(path))
WHERRY_IO_SERVED(int, openat, (int at, const char* path, int flags, mode_t mode),
                 (at, path, flags, mode), text(path))
WHERRY_IO_SERVED(int, openat64, (int at, const char* path, int flags, mode_t mode),
                 (at, path, flags, mode), text(path))
WHERRY_IO_SERVED(int, __open_2, (const char* path, int flags), (path, flags), text(path))
WHERRY_IO_SERVED(int, __open64_2, (const char* path, int flags), (path, flags), text(path))
WHERRY_IO_SERVED(int, __openat_2, (int at, const char* path, int flags), (at, path, flags),
                 text(path))
WHERRY_IO_SERVED(int, __openat64_2, (int at, const char* path, int flags), (at, path, flags),
                 text(path))
WHERRY_IO_SERVED(int, creat, (const char* path, mode_t mode), (path, mode), text(path))
WHERRY_IO_SERVED(int, creat64, (const char* path, mode_t mode), (path, mode), text(path))
WHERRY_IO_SERVED(FILE*, fopen, (const char* path, const char* mode), (path, mode), text(path))
WHERRY_IO_SERVED(FILE*, fopen64, (const char* path, const char* mode), (path, mode), text(path))
WHERRY_IO_SERVED(DIR*, opendir, (const char* path), (path), text(path))

// Functions that create and remove files.
WHERRY_IO_SERVED(int, mkdir, (const char* path, mode_t mode), (path, mode), text(path))
WHERRY_IO_SERVED(int, mkdirat, (int at, const char* path, mode_t mode), (at, path, mode),
                 text(path))
WHERRY_IO_SERVED(int, mknod, (const char* path, mode_t mode, dev_t device), (path, mode, device),
                 text(path))
WHERRY_IO_SERVED(int, mknodat, (int at, const char* path, mode_t mode, dev_t device),
                 (at, path, mode, device), text(path))
WHERRY_IO_SERVED(int, mkfifo, (const char* path, mode_t mode), (path, mode), text(path))
WHERRY_IO_SERVED(int, mkfifoat, (int at, const char* path, mode_t mode), (at, path, mode),
                 text(path))
WHERRY_IO_SERVED(int, rmdir, (const char* path), (path), text(path))
WHERRY_IO_SERVED(int, unlink, (const char* path), (path), text(path))
WHERRY_IO_SERVED(int, unlinkat, (int at, const char* path, int flags), (at, path, flags),
                 text(path))
WHERRY_IO_SERVED(int, remove, (const char* path), (path), text(path))

// Functions that take two names.
WHERRY_IO_SERVED(int, rename, (const char* from, const char* to), (from, to), text(from), text(to))
WHERRY_IO_SERVED(int, renameat, (int from_at, const char* from, int to_at, const char* to),
                 (from_at, from, to_at, to), text(from), text(to))
WHERRY_IO_SERVED(int, renameat2,
                 (int from_at, const char* from, int to_at, const char* to, unsigned flags),
                 (from_at, from, to_at, to, flags), text(from), text(to))
WHERRY_IO_SERVED(int, link, (const char* from, const char* to), (from, to), text(from), text(to))
WHERRY_IO_SERVED(int, linkat, (int from_at, const char* from, int to_at, const char* to, int flags),
                 (from_at, from, to_at, to, flags), text(from), text(to))
WHERRY_IO_SERVED(int, symlink, (const char* target, const char* path), (target, path), text(target),
                 text(path))
WHERRY_IO_SERVED(int, symlinkat, (const char* target, int at, const char* path), (target, at, path),
                 text(target), text(path))

// Functions that change files and the folder.
WHERRY_IO_SERVED(int, chdir, (const char* path), (path), text(path))
WHERRY_IO_SERVED(int, chmod, (const char* path, mode_t mode), (path, mode), text(path))
WHERRY_IO_SERVED(int, fchmodat, (int at, const char* path, mode_t mode, int flags),
                 (at, path, mode, flags), text(path))
WHERRY_IO_SERVED(int, chown, (const char* path, uid_t user, gid_t group), (path, user, group),
                 text(path))
WHERRY_IO_SERVED(int, lchown, (const char* path, uid_t user, gid_t group), (path, user, group),
                 text(path))
WHERRY_IO_SERVED(int, fchownat, (int at, const char* path, uid_t user, gid_t group, int flags),
                 (at, path, user, group, flags), text(path))
WHERRY_IO_SERVED(int, truncate, (const char* path, off_t bytes), (path, bytes), text(path))
WHERRY_IO_SERVED(int, truncate64, (const char* path, off64_t bytes), (path, bytes), text(path))
WHERRY_IO_SERVED(int, utime, (const char* path, const utimbuf* times), (path, times), text(path),
                 in(times))
WHERRY_IO_SERVED(int, utimes, (const char* path, const timeval* times), (path, times), text(path),
                 in(times, 2 * sizeof *times))
WHERRY_IO_SERVED(int, lutimes, (const char* path, const timeval* times), (path, times), text(path),
                 in(times, 2 * sizeof *times))
WHERRY_IO_SERVED(int, utimensat, (int at, const char* path, const timespec* times, int flags),
                 (at, path, times, flags), text(path), in(times, 2 * sizeof *times))
WHERRY_IO_SERVED(int, futimens, (int file, const timespec* times), (file, times),
                 in(times, 2 * sizeof *times))

// Functions that query files.
WHERRY_IO_SERVED(int, access, (const char* path, int mode), (path, mode), text(path))
WHERRY_IO_SERVED(int, faccessat, (int at, const char* path, int mode, int flags),
                 (at, path, mode, flags), text(path))
WHERRY_IO_SERVED(int, stat, (const char* path, struct stat* about), (path, about), text(path),
                 out(about))
WHERRY_IO_SERVED(int, stat64, (const char* path, struct stat* about), (path, about), text(path),
                 out(about))
WHERRY_IO_SERVED(int, lstat, (const char* path, struct stat* about), (path, about), text(path),
                 out(about))
WHERRY_IO_SERVED(int, lstat64, (const char* path, struct stat* about), (path, about), text(path),
                 out(about))
WHERRY_IO_SERVED(int, fstat, (int file, struct stat* about), (file, about), out(about))
WHERRY_IO_SERVED(int, fstat64, (int file, struct stat* about), (file, about), out(about))
WHERRY_IO_SERVED(int, fstatat, (int at, const char* path, struct stat* about, int flags),
                 (at, path, about, flags), text(path), out(about))
WHERRY_IO_SERVED(int, fstatat64, (int at, const char* path, struct stat* about, int flags),
                 (at, path, about, flags), text(path), out(about))
WHERRY_IO_SERVED(int, statx,
                 (int at, const char* path, int flags, unsigned mask, struct statx* about),
                 (at, path, flags, mask, about), text(path), out(about))
// Functions that programs linked with glibc before 2.33 call.
WHERRY_IO_SERVED(int, __xstat, (int version, const char* path, struct stat* about),
                 (version, path, about), text(path), out(about))
WHERRY_IO_SERVED(int, __xstat64, (int version, const char* path, struct stat* about),
                 (version, path, about), text(path), out(about))
WHERRY_IO_SERVED(int, __lxstat, (int version, const char* path, struct stat* about),
                 (version, path, about), text(path), out(about))
WHERRY_IO_SERVED(int, __lxstat64, (int version, const char* path, struct stat* about),
                 (version, path, about), text(path), out(about))
WHERRY_IO_SERVED(int, __fxstat, (int version, int file, struct stat* about), (version, file, about),
                 out(about))
WHERRY_IO_SERVED(int, __fxstat64, (int version, int file, struct stat* about),
                 (version, file, about), out(about))
WHERRY_IO_SERVED(int, __fxstatat,
                 (int version, int at, const char* path, struct stat* about, int flags),
                 (version, at, path, about, flags), text(path), out(about))
WHERRY_IO_SERVED(int, __fxstatat64,
                 (int version, int at, const char* path, struct stat* about, int flags),
                 (version, at, path, about, flags), text(path), out(about))
WHERRY_IO_SERVED(int, statfs, (const char* path, struct statfs* about), (path, about), text(path),
                 out(about))
WHERRY_IO_SERVED(int, statfs64, (const char* path, struct statfs* about), (path, about), text(path),
                 out(about))
WHERRY_IO_SERVED(int, fstatfs, (int file, struct statfs* about), (file, about), out(about))
WHERRY_IO_SERVED(int, fstatfs64, (int file, struct statfs* about), (file, about), out(about))
WHERRY_IO_SERVED(int, statvfs, (const char* path, struct statvfs* about), (path, about), text(path))
WHERRY_IO_SERVED(int, statvfs64, (const char* path, struct statvfs* about), (path, about),
                 text(path))
WHERRY_IO_SERVED(ssize_t, readlink, (const char* path, char* target, std::size_t room),
                 (path, target, room), text(path), out(target, room))
WHERRY_IO_SERVED(ssize_t, readlinkat, (int at, const char* path, char* target, std::size_t room),
                 (at, path, target, room), text(path), out(target, room))
WHERRY_IO_SERVED(ssize_t, __readlink_chk,
                 (const char* path, char* target, std::size_t room, std::size_t size),
                 (path, target, room, size), text(path), out(target, room))
WHERRY_IO_SERVED(ssize_t, __readlinkat_chk,
                 (int at, const char* path, char* target, std::size_t room, std::size_t size),
                 (at, path, target, room, size), text(path), out(target, room))
WHERRY_IO_SERVED(char*, getcwd, (char* path, std::size_t room), (path, room), out(path, room))
WHERRY_IO_SERVED(char*, __getcwd_chk, (char* path, std::size_t room, std::size_t size),
                 (path, room, size), out(path, room))
WHERRY_IO_SERVED(ssize_t, getdents64, (int file, void* entries, std::size_t room),
                 (file, entries, room), out(entries, room))
WHERRY_IO_SERVED(int, inotify_add_watch, (int file, const char* path, unsigned mask),
                 (file, path, mask), text(path))
WHERRY_IO_SERVED(ssize_t, getxattr,
                 (const char* path, const char* name, void* value, std::size_t room),
                 (path, name, value, room), text(path), text(name), out(value, room))
WHERRY_IO_SERVED(ssize_t, lgetxattr,
                 (const char* path, const char* name, void* value, std::size_t room),
                 (path, name, value, room), text(path), text(name), out(value, room))
WHERRY_IO_SERVED(ssize_t, fgetxattr, (int file, const char* name, void* value, std::size_t room),
                 (file, name, value, room), text(name), out(value, room))
WHERRY_IO_SERVED(int, setxattr,
                 (const char* path, const char* name, const void* value, std::size_t bytes,
                  int flags),
                 (path, name, value, bytes, flags), text(path), text(name), in(value, bytes))
WHERRY_IO_SERVED(int, fsetxattr,
                 (int file, const char* name, const void* value, std::size_t bytes, int flags),
                 (file, name, value, bytes, flags), text(name), in(value, bytes))
WHERRY_IO_SERVED(ssize_t, listxattr, (const char* path, char* names, std::size_t room),
                 (path, names, room), text(path), out(names, room))
WHERRY_IO_SERVED(ssize_t, flistxattr, (int file, char* names, std::size_t room),
                 (file, names, room), out(names, room))

}  // namespace wherry::io
