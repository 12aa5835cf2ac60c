// A file that is written sequentially and replaces a file of the same name. Functions return 0 or
// an errno unless they say otherwise.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "os/files/fd.h"

namespace wherry::impl {

// Creates an empty file beside `path` and renames it to `path`, so the previous file exists until
// then. A path that is not a regular file is left unchanged: EISDIR, or EINVAL. If `path` is a
// symbolic link, its target is replaced.
[[nodiscard]] int create_in_place_of(const std::string& path, Fd& file);

// Returns what create_in_place_of() would return: creates the new file and removes it again. Does
// not tell whether the disk has enough space.
[[nodiscard]] int try_create_in_place_of(const std::string& path);

// Appends all bytes. Linux signals that a file exceeds its size limit; the caller blocks that
// signal. On an error a part may have been written.
[[nodiscard]] int append_all(const Fd& file, std::span<const std::byte> bytes);

}  // namespace wherry::impl
