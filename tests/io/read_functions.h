// The C library's functions that fill memory from a file, by the names that programs call. dlsym()
// finds them, because the C library's headers replace some of the names.
#pragma once

#include <dlfcn.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <string>

#include "support/session.h"

namespace wherry::test {

template <typename Signature>
Signature* function(const char* name) {
  auto* const found = reinterpret_cast<Signature*>(::dlsym(RTLD_DEFAULT, name));
  expect(found != nullptr, std::string("no function ") + name);
  return found;
}

// Memory, divided into two pieces.
struct Pieces {
  // The first piece has a third of the bytes, in multiples of `unit`.
  Pieces(void* start, std::size_t bytes, std::size_t unit = 1) {
    const std::size_t first = bytes / 3 / unit * unit;
    pieces[0] = {start, first};
    pieces[1] = {static_cast<char*>(start) + first, bytes - first};
  }
  iovec pieces[2];
};

struct ReadFunction {
  const char* name;
  // Reads at the offset; functions that read at the file's position ignore it.
  ssize_t (*call)(const char* name, int fd, char* to, std::size_t bytes, off_t offset);
  bool is_at_position;
};

namespace read_calls {

// Pieces of this length can be read directly.
inline constexpr std::size_t unit = 4096;

inline ssize_t plain(const char* name, int fd, char* to, std::size_t bytes, off_t) {
  return function<ssize_t(int, void*, std::size_t)>(name)(fd, to, bytes);
}
inline ssize_t plain_checked(const char* name, int fd, char* to, std::size_t bytes, off_t) {
  return function<ssize_t(int, void*, std::size_t, std::size_t)>(name)(fd, to, bytes, bytes);
}
inline ssize_t at(const char* name, int fd, char* to, std::size_t bytes, off_t offset) {
  return function<ssize_t(int, void*, std::size_t, off_t)>(name)(fd, to, bytes, offset);
}
inline ssize_t at_checked(const char* name, int fd, char* to, std::size_t bytes, off_t offset) {
  return function<ssize_t(int, void*, std::size_t, off_t, std::size_t)>(name)(fd, to, bytes, offset,
                                                                              bytes);
}
inline ssize_t vector(const char* name, int fd, char* to, std::size_t bytes, off_t) {
  return function<ssize_t(int, const iovec*, int)>(name)(fd, Pieces(to, bytes, unit).pieces, 2);
}
inline ssize_t vector_at(const char* name, int fd, char* to, std::size_t bytes, off_t offset) {
  return function<ssize_t(int, const iovec*, int, off_t)>(name)(fd, Pieces(to, bytes, unit).pieces,
                                                                2, offset);
}
inline ssize_t vector_at_flags(const char* name, int fd, char* to, std::size_t bytes,
                               off_t offset) {
  return function<ssize_t(int, const iovec*, int, off_t, int)>(name)(
      fd, Pieces(to, bytes, unit).pieces, 2, offset, 0);
}
// An offset of -1 is the file's position.
inline ssize_t vector_flags(const char* name, int fd, char* to, std::size_t bytes, off_t) {
  return vector_at_flags(name, fd, to, bytes, -1);
}

}  // namespace read_calls

inline constexpr ReadFunction read_functions[] = {
    {"read", read_calls::plain, true},
    {"__read_chk", read_calls::plain_checked, true},
    {"pread", read_calls::at, false},
    {"pread64", read_calls::at, false},
    {"__pread_chk", read_calls::at_checked, false},
    {"__pread64_chk", read_calls::at_checked, false},
    {"readv", read_calls::vector, true},
    {"preadv", read_calls::vector_at, false},
    {"preadv64", read_calls::vector_at, false},
    {"preadv2", read_calls::vector_at_flags, false},
    {"preadv64v2", read_calls::vector_at_flags, false},
    {"preadv2", read_calls::vector_flags, true},
    {"preadv64v2", read_calls::vector_flags, true},
};

}  // namespace wherry::test
