// A file that is written sequentially and replaces a file of the same name. Functions return 0 or
// an errno unless they say otherwise.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "os/files/fd.h"

namespace wherry::impl {

// A file that does not have its final name yet.
struct NewFile {
  Fd file;
  std::string name;    // the temporary name beside the target
  std::string target;  // the path, or the target of the link
};

// Creates an empty file beside `path`. Returns the same errors as create_in_place_of().
[[nodiscard]] int create_beside(const std::string& path, NewFile& made);

// Creates an empty file beside `path` and renames it to `path`, so the previous file exists until
// then. If `path` is not a regular file, returns EISDIR or EINVAL and changes nothing. If `path` is
// a symbolic link, its target is replaced. Returns EBUSY if a process that created the previous
// file with this function still has it open, and so locked. (On a file system without locks the
// file is replaced.)
[[nodiscard]] int create_in_place_of(const std::string& path, Fd& file);

// Appends all bytes. The caller blocks SIGXFSZ, which Linux sends when a file exceeds its size
// limit. On an error a part may have been written. Adds the number of bytes that were written to
// `appended`.
[[nodiscard]] int append_all(const Fd& file, std::span<const std::byte> bytes,
                             std::uint64_t& appended);

// Makes a file of `bytes` bytes end within a record: one byte longer, which takes no space on the
// disk, or a byte shorter if it may not grow. Returns 0 or an errno.
[[nodiscard]] int change_end(const Fd& file, std::uint64_t bytes);

}  // namespace wherry::impl
